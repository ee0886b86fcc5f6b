"""Which of a turn's trace parts tell of which of its steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from orchestrator.engine.effects import (
    AwaitResults,
    Branch,
    Branches,
    CallModel,
    Dispatch,
    Effect,
    Retrieve,
)
from orchestrator.engine.trace.bedrock import TraceParts
from orchestrator.prompts.placeholders import MEMORY_SUMMARIZATION
from orchestrator.sessions import Record

Part = dict[str, Any]


class OwnedParts(TraceParts):
    """Makes a turn's parts, and notes which record of the journal each of them tells of.

    A part that tells of none, such as that of a re-prompt or of the turn's end, belongs to the one
    before it.
    """

    _owners: dict[int, Record]  # by the identity of a part

    def group(self, records: Iterable[Record], end: Record | None) -> list[list[Part]]:
        """The turn's parts, in their order, for each of its records."""
        self._owners = {}
        found: dict[int, list[Part]] = {id(record): [] for record in records}
        here: list[Part] | None = None
        early: list[Part] = []
        for part in self.whole(end):
            owner = self._owners.get(id(part))
            if owner is not None and id(owner) in found:
                here = found[id(owner)]
            (early if here is None else here).append(part)
        groups = list(found.values())
        if groups:
            groups[0][:0] = early
        return groups

    def of_branch(self, branch: Branch, started: int) -> Self:
        """The trace of a collaborator's turn, whose parts are noted here."""
        made = super().of_branch(branch, started)
        made._owners = self._owners
        return made

    def before(self, effect: Effect, at: int, outcome: Any = None) -> list[Part]:
        """The parts that say that an effect is about to be carried out."""
        parts = super().before(effect, at, outcome)
        records = self._list_records(effect, outcome)
        # Re-prompts come first, and belong to the reply that they answer.
        self._note(parts[len(parts) - len(records) :], records)
        return parts

    def _list_records(self, effect: Effect, outcome: Any) -> list[Record | None]:
        match effect:
            case CallModel():
                return [] if effect.stage.stage == MEMORY_SUMMARIZATION else [outcome]
            case Retrieve():
                return [outcome]
            case Dispatch():
                return list(outcome or [None] * len(effect.calls))
            case AwaitResults():
                return [self._find_suspend_record(effect)] * len(effect.waiting)
            case Branches(iterates=False):
                return list(outcome or map(self._find_branch_record, effect.branches))
        return []

    def after(self, effect: Effect, outcome: Any) -> list[Part]:
        """The parts of an effect's outcome."""
        parts = super().after(effect, outcome)
        single = [outcome] * len(parts)
        self._note(parts, outcome if isinstance(outcome, list) else single)
        return parts

    def build_branch_end_parts(
        self, effect: Branches, branch: Branch, record: Record
    ) -> list[Part]:
        """The parts that say how a collaborator's work ended."""
        parts = super().build_branch_end_parts(effect, branch, record)
        self._note(parts, [record] * len(parts))
        return parts

    def _note(self, parts: list[Part], records: Iterable[Record | None]) -> None:
        for part, record in zip(parts, records, strict=False):
            if record is not None:
                self._owners[id(part)] = record
