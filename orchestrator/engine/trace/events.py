"""The events of a stream, made of a run as it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from orchestrator.engine.effects import AwaitResults, Branches, CallModel
from orchestrator.engine.results import ControlReturn
from orchestrator.engine.run.branches import BranchRun
from orchestrator.engine.run.driver import BranchEnded, Progress, Update
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.trace.bedrock import TraceParts, find_waiting_record
from orchestrator.engine.trace.reply import (
    Event,
    Reply,
    TextDelta,
    TracePart,
    last_events,
    trace_parts,
)
from orchestrator.sessions import Record


class RunEvents:
    """From a driver's progress to the events of a stream."""

    __slots__ = ("_begun", "_parts", "_run", "_said", "_shown", "_team")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._said = ""
        self._shown: set[str] = set()
        self._begun = False
        self._parts = trace_parts(run, run.record_count)
        self._team: dict[str, TraceParts] = {}

    def of(self, item: Update) -> Iterator[Event]:
        """The events of one item."""
        if isinstance(item, str):
            self._said += item
            yield TextDelta(item)
            return
        if not self._begun:
            yield from self._report_resumption()
        parts = (
            self._report_branch_end(item) if isinstance(item, BranchEnded) else self._trace(item)
        )
        for part in parts:
            yield TracePart(part)

    def _trace(self, item: Progress) -> Iterator[dict[str, Any]]:
        known = len(self._team)
        maker = self._of(item.run)
        if len(self._team) > known and isinstance(item.run, BranchRun):
            since, upto = item.run.resumed  # it may have gone on meanwhile, in its thread
            if since:
                yield from maker.whole(None, since, upto)
        if item.outcome is None:
            self._note_shown(item)
            yield from maker.before(item.effect, self._run.now())
        elif isinstance(item.effect, Branches):
            yield from self._report_waiting_calls(item, item.effect, maker)
        else:
            yield from maker.after(item.effect, item.outcome)

    def _note_shown(self, item: Progress) -> None:
        # What was streamed stands until another text begins: other calls stream nothing.
        effect = item.effect
        if not isinstance(effect, CallModel | Branches) or not effect.live:
            return
        if isinstance(item.run, BranchRun) and item.run.branch.id not in self._shown:
            return
        if isinstance(effect, CallModel):
            self._said = ""
        else:
            self._shown.update([branch.id for branch in effect.branches])

    def _report_branch_end(self, item: BranchEnded) -> Iterator[dict[str, Any]]:
        """The end of a collaborator's turn, and what its supervisor sees of it."""
        inner = self._team.get(item.branch.id)
        if inner is not None:
            yield from inner.build_end_parts(item.record)
        yield from self._of(item.run).build_branch_end_parts(item.effect, item.branch, item.record)

    def _of(self, run: Run) -> TraceParts:
        """Makes the trace of a run: the agent's own, or a collaborator's."""
        if not isinstance(run, BranchRun):
            return self._parts
        known = self._team.get(run.branch.id)
        if known is None:
            known = self._of(run.parent).of_branch(run.branch, run.began)
            self._team[run.branch.id] = known
        return known

    def _report_waiting_calls(
        self, item: Progress, effect: Branches, maker: TraceParts
    ) -> Iterator[dict[str, Any]]:
        """The calls that collaborators wait for: no driver carries them out."""
        waiting = find_waiting_record(item.outcome)
        record: Record
        for branch, record in zip(effect.branches, item.outcome, strict=True):
            inner = self._team.get(branch.id)
            replay = item.run.replay.branches.get(branch.id)
            if "control" in record and inner is not None and replay is not None:
                last, _ = replay.steps[-1]
                if isinstance(last, AwaitResults):
                    yield from inner.before(last, self._run.now())
            if record is waiting:
                yield from maker.build_branch_end_parts(effect, branch, record)

    def rest(self, end: Callable[[], Reply]) -> Iterator[Event]:
        """The events after the last item; `end` makes the reply, or raises."""
        run = self._run
        if not self._begun:
            yield from self._report_resumption()
        if isinstance(run.result, ControlReturn) and not run.result.branch:
            # No driver carries a hand-over out, so none reports it.
            for part in self._parts.before(run.replay.steps[-1][0], run.now()):
                yield TracePart(part)
        for part in self._parts.build_end_parts(run.log.end):
            yield TracePart(part)
        yield from last_events(end(), self._said)

    def _report_resumption(self) -> Iterator[Event]:
        # The caller's answer that this invocation brought; the caller has seen the steps before it.
        self._begun = True
        if since := self._run.replay.resume_step:
            for part in self._parts.whole(None, since):
                yield TracePart(part)
