"""What the journal of a stopped or finished turn knows, for the turn that runs again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Call
from orchestrator.engine.effects import (
    AwaitResults,
    Branches,
    CallModel,
    Converse,
    Dispatch,
    Effect,
    Guard,
    Orchestrate,
    Retrieve,
)
from orchestrator.errors import SessionConflict
from orchestrator.sessions import Record

_KINDS: dict[type, str] = {
    CallModel: "model",
    Converse: "model",
    Dispatch: "action",
    AwaitResults: "returned",
    Retrieve: "retrieved",
    Guard: "guarded",
    Branches: "branch",
    Orchestrate: "orchestrated",
}
_OUTCOMES = frozenset(_KINDS.values())


class JournalFeed:
    """The outcomes, intents and decisions of a turn, or of one branch of it.

    Attributes:
        outcomes: The records that the turn has not reached, the next one last.
    """

    __slots__ = ("_decisions", "_intents", "outcomes")

    def __init__(self, records: Sequence[Record]) -> None:
        """Reads the records of a turn, or of one branch of it, in their order."""
        self.outcomes = [record for record in records if record["kind"] in _OUTCOMES]
        self.outcomes.reverse()
        self._intents = {
            call["key"]
            for record in records
            if record["kind"] == "intent"
            for call in record["calls"]
        }
        self._decisions: Mapping[str, Record] = {}
        if any(record["kind"] == "decided" for record in records):
            self._decisions = _read_decisions(records)

    @property
    def is_interrupted(self) -> bool:
        """Whether the journal may know of calls of the turn's next step."""
        return bool(self._intents or self.outcomes)

    def take(self, effect: Effect) -> Any:
        """The outcome of an effect; `None` where only some of its calls or branches have theirs.

        Raises:
            SessionConflict: The journal was written by another version of the agent.
        """
        record = self.outcomes[-1]
        if not _answers(record, effect):
            raise build_version_conflict(f"goes on with a {record['kind']!r} record")
        if not isinstance(effect, (Dispatch, Branches)):
            return self.outcomes.pop()
        ids = _ids_of(effect)
        by_id = {record.get("id"): record for record in self.outcomes[-len(ids) :]}
        found = [by_id[id] for id in ids if id in by_id]
        if len(found) < len(ids):
            return None  # the driver asks `take_known`
        del self.outcomes[-len(ids) :]
        return found

    def take_known(self, effect: Dispatch | Branches) -> dict[str, Record]:
        """What the journal knows of an effect that a process stopped in: records by their ids."""
        known: dict[str, Record] = {}
        if not self.outcomes:
            return known
        kind, ids = _KINDS[type(effect)], set(_ids_of(effect))
        while (
            self.outcomes and self.outcomes[-1]["kind"] == kind and self.outcomes[-1]["id"] in ids
        ):
            record = self.outcomes.pop()
            known[record["id"]] = record
        return known

    def find_lost_calls(self, effect: Dispatch, known: Mapping[str, Record]) -> list[Call]:
        """The calls that were started and whose outcome no journal has.

        A call of an idempotent operation is not one of them: it may be carried out again, with
        the same idempotency key.
        """
        if not self._intents:
            return []
        return [
            call
            for call in effect.calls
            if call.key in self._intents and call.id not in known and not call.operation.idempotent
        ]

    def has_intent(self, key: str) -> bool:
        """Whether the journal says that what has this idempotency key was about to be done."""
        return key in self._intents

    def find_decision(self, call: Call) -> Record | None:
        """What somebody has decided of a lost call: a member of a `decided` record."""
        return self._decisions.get(call.key)


NO_FEED = JournalFeed(())
"""That of a turn that has just begun; all such turns share it."""


def _read_decisions(records: Sequence[Record]) -> dict[str, Record]:
    # A call that was carried out again on somebody's word, and is lost once more, is undecided
    # again.
    decisions: dict[str, Record] = {}
    for record in records:
        if record["kind"] == "decided":
            decisions |= {one["key"]: one for one in record["decisions"]}
        elif record["kind"] == "intent":
            for call in record["calls"]:
                decisions.pop(call["key"], None)
    return decisions


def _answers(record: Record, effect: Effect) -> bool:
    if record["kind"] != _KINDS[type(effect)]:
        return False
    if isinstance(effect, Orchestrate):
        return bool(record["state"] == effect.state)
    return not isinstance(effect, CallModel) or record["stage"] == effect.stage.stage


def _ids_of(effect: Dispatch | Branches) -> list[str]:
    return [it.id for it in (effect.calls if isinstance(effect, Dispatch) else effect.branches)]


WAYS_OUT = "finish it with that version, give it up by another question, or end the session"


def build_version_conflict(how: str) -> SessionConflict:
    """The error of a turn that this version of its agent cannot go on with."""
    return SessionConflict(
        f"the session's open turn was begun with another version of this agent (its journal {how}"
        f"): {WAYS_OUT}"
    )
