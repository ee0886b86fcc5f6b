"""The way of a streamed answer to the user: what may be shown of it, piece by piece.

An answer of a routed collaborator goes through its supervisors, too: each resolves the payloads
that it knows, and has its guardrail read the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.engine.entities import DecodedStream, find_copied
from orchestrator.engine.payloads import ReadableStream
from orchestrator.engine.run.branches import BranchRun
from orchestrator.engine.run.invocation import Run
from orchestrator.errors import DependencyFailed, OrchestratorError
from orchestrator.sessions import Record
from orchestrator.support.user_code import is_own_failure

if TYPE_CHECKING:
    from orchestrator.guardrails import Guardrail, Source, Verdict
    from orchestrator.guardrails.stream import GuardedStream


class StreamFilter:
    """What may be shown of one streamed text, on its way through the runs of a team.

    Attributes:
        guarded: Whether a guardrail reads the text, which may block.
        checks: What the guardrail of the run that the text begins in has said so far, as records:
            `action`, `assessments`, `began`, `ended`.
    """

    __slots__ = ("_levels", "checks", "guarded")

    def __init__(self, levels: list[_Level]) -> None:
        self._levels = levels
        self.checks = levels[0].checks
        self.guarded = any(level.guard is not None for level in levels)

    def feed(self, text: str) -> str:
        """Takes the next piece; what may be shown now."""
        for level in self._levels:
            if not text:
                break
            text = level.feed(text)
        return text

    def finish(self) -> str:
        """The rest that may be shown."""
        text = ""
        for level in self._levels:
            text = level.finish(text)
        return text


class _Level:
    """One run that the text goes through."""

    __slots__ = ("checks", "entities", "guard", "reports", "run", "tags")

    def __init__(self, run: Run, *, reports: bool = False) -> None:
        self.run = run
        self.reports = reports  # whether its checks are in the trace one by one
        self.checks: list[Record] = []
        self.tags: ReadableStream | None = None
        self.entities: DecodedStream | None = None
        self.guard: GuardedStream | None = None
        plan, turn = run.plan, run.replay.turn
        if copied := find_copied(turn):
            self.entities = DecodedStream(copied)
        if plan.collaborators:
            self.tags = ReadableStream(turn.payloads, tags=bool(turn.start.path))
        if plan.guardrail is not None:
            self.guard = _build_guarded_stream(run, plan.guardrail, self.checks)

    def feed(self, text: str) -> str:
        if self.entities is not None:
            text = self.entities.feed(text)
        if self.tags is not None:
            text = self.tags.feed(text)
        return self.guard.feed(text) if self.guard is not None and text else text

    def finish(self, text: str) -> str:
        if self.entities is not None:
            text = self.entities.feed(text) + self.entities.finish()
        if self.tags is not None:
            text = self.tags.feed(text) + self.tags.finish()
        if self.guard is None:
            return text
        shown = self.guard.feed(text) + self.guard.finish()
        # What was just checked as a whole need not be checked, and paid for, at the turn's end.
        self.run.checked = self.guard.text, self.guard.verdict, self.reports
        return shown


def build_stream_filter(run: Run) -> StreamFilter | None:
    """The way of an answer that a run's model writes; `None` when nothing is done to it."""
    plan = run.plan
    is_plain = plan.guardrail is None and not plan.collaborators and not isinstance(run, BranchRun)
    if is_plain and not find_copied(run.replay.turn):
        return None
    levels = [_Level(run, reports=True)]
    while isinstance(run, BranchRun) and run.branch.is_routed and run.parent.replay.turn.streams:
        run = run.parent
        levels.append(_Level(run))
    return StreamFilter(levels)


def _build_guarded_stream(run: Run, guardrail: Guardrail, checks: list[Record]) -> GuardedStream:
    from orchestrator.guardrails.stream import GuardedStream

    def check(text: str) -> Verdict:
        began = run.now()
        verdict = ask_guardrail(guardrail, text, "OUTPUT")
        record: Record = {"action": verdict.action, "began": began, "ended": run.now()}
        record["assessments"] = [dict(one) for one in verdict.assessments]
        checks.append(record)
        return verdict

    return GuardedStream(
        check,
        run.guard_interval or run.plan.features.guard_interval,
        reach=getattr(guardrail, "reach", 200),
        bounded=getattr(guardrail, "bounded", False),
    )


def ask_guardrail(guardrail: Guardrail, text: str, source: Source) -> Verdict:
    """What a guardrail says of a text; whatever it raises, the text does not go through."""
    try:
        verdict = guardrail.check(text, source)
    except OrchestratorError:
        raise
    except BaseException as error:
        if not is_own_failure(error):
            raise
        raise DependencyFailed(
            f"the guardrail {guardrail.id!r} raised {type(error).__name__}: nothing goes through",
            resource=guardrail.id,
        ) from error
    if not hasattr(verdict, "action"):
        raise DependencyFailed(
            f"the guardrail {guardrail.id!r} returned an object of the class "
            f"{type(verdict).__name__!r}, and has to return a Verdict: nothing goes through",
            resource=guardrail.id,
        )
    return verdict
