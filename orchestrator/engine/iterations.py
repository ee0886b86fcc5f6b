"""Iterations of a script's loop that run side by side, each as a branch of its turn.

A branch of a collaborator is another agent's whole turn. That of an iteration is a part of the same
agent's turn: its session, its attributes and its actions are the turn's, and it has no history of
its own. The journal, the budgets and what drives it are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orchestrator.engine.budget import Budget
from orchestrator.engine.effects import (
    LIVE,
    Answer,
    Branch,
    Collaborate,
    Converse,
    Failure,
    Iterate,
    Live,
    Refusal,
    Result,
    ReturnControl,
)
from orchestrator.engine.run.branches import BranchRun, Lock
from orchestrator.engine.run.invocation import Run, end_record
from orchestrator.engine.run.replay import STOPPED
from orchestrator.errors import DefinitionError, FlowError, OrchestratorError, rebuild_error
from orchestrator.sessions import Record

__all__ = [
    "IterationRun",
    "branch_run",
    "build_skipped_record",
    "error_of",
    "most_at_once",
    "prepare_branches",
]

_DONE = "end_turn"


class IterationRun(BranchRun):
    """One iteration at work, within the run of the turn that has the loop."""

    __slots__ = ("_asked", "_effect")

    def __init__(self, parent: Run, branch: Branch, lock: Lock, effect: Iterate) -> None:
        self._effect = effect
        self._asked = False
        super().__init__(
            parent, branch, lock, parent.replay.iteration(effect, branch), effect.budget
        )

    @property
    def is_stopped(self) -> bool:
        """Whether another iteration of the loop, or of one around it, has failed."""
        above = self.parent
        return self._effect.stopped or (isinstance(above, IterationRun) and above.is_stopped)

    def begin(self) -> Live | Result:
        """The first effect to carry out, or the result."""
        return self._stop_if_requested(super().begin())

    def take(self, effect: Any, outcome: Any) -> Live | Result:
        """Takes an effect's outcome; the next effect to carry out, or the result."""
        return self._stop_if_requested(super().take(effect, outcome))

    def _stop_if_requested(self, following: Live | Result) -> Live | Result:
        return self.replay.stop() if isinstance(following, LIVE) and self.is_stopped else following

    def count_script_calls(self, following: Live | Result) -> int:
        """How many model calls come with the next effect; at first, those of the journal, too."""
        made = 0 if self._asked else _count_model_calls(self)
        self._asked = True
        return made + isinstance(following, Converse)

    def finish(self, result: Result) -> None:
        """Writes the iteration's end; one that did not come to its end stops the others."""
        self.result = result
        self._pay()
        ended = self.now()
        if isinstance(result, ReturnControl):
            control = replace(result, branch=result.branch or self.branch.id)
            self.flush()
            self.outcome = {
                "id": self.branch.id,
                "control": control,
                "began": self.began,
                "ended": ended,
            }
            return
        self.outcome = {
            **end_record(result, ended),
            **self._more(result),
            "kind": "branch",
            "branch": self.parent.replay.path,
            "id": self.branch.id,
            "name": f"{self.branch.team}/{self.branch.id}",
            "asked": self.branch.message,
            "before": 0,
            "usage": self.replay.turn.spending,
            "began": self.began,
            "ended": ended,
        }
        if not _is_success(self.outcome):
            self._effect.stopped = True
        self.flush(self.outcome)

    def _more(self, result: Answer | Refusal | Failure) -> Record:
        asks = _count_model_calls(self)
        if not isinstance(result, Failure):
            return {"asks": asks}
        self.branch.failed = result.error
        return {"asks": asks, "fault": _fault(result.error)}


def _count_model_calls(run: Run) -> int:
    """How many model calls an iteration has made, with those of loops in it."""
    made = 0
    for effect, outcome in run.replay.steps:
        if isinstance(effect, Iterate):
            made += sum(one.get("asks", 0) for one in outcome or ())
        else:
            made += isinstance(effect, Converse)
    return made


def _fault(error: OrchestratorError) -> Record:
    """What an error says besides its message, for the process that goes on."""
    cause = error.__cause__
    told: Record = {}
    if isinstance(cause, OrchestratorError):
        told["cause"] = [type(cause).__name__, cause.message]
    if isinstance(error, DefinitionError):
        told |= {"reason": error.reason, "file": error.file}
        told |= {"line": error.line, "column": error.column}
    if isinstance(error, FlowError):
        told |= {"statement": error.statement, "message_zh": error.message_zh}
    return told


def error_of(branch: Branch, record: Record) -> OrchestratorError | None:
    """Why an iteration failed; `None` when it did not, or only stopped because another had failed.

    Args:
        branch: The iteration.
        record: Its record.
    """
    if record["result"] != "failure" or record["stop_reason"] == STOPPED:
        return None
    if branch.failed is not None:
        return branch.failed
    told = record.get("fault") or {}
    error = rebuild_error(record["error"], record["message"], record["stop_reason"])
    if isinstance(error, FlowError) and "reason" in told:
        places = {name: told[name] for name in ("file", "line", "column", "statement")}
        error = FlowError(told["reason"], **places, message_zh=told["message_zh"])
    if "cause" in told:
        kind, message = told["cause"]
        error.__cause__ = rebuild_error(kind, message, "")
    return error


def _is_success(record: Record) -> bool:
    return bool(record["result"] == "answer" and record["stop_reason"] == _DONE)


def prepare_branches(run: Run, effect: Collaborate, known: Mapping[str, Record]) -> None:
    """Begins branches, some of whose ends the journal has: what those spent is spent."""
    if not isinstance(effect, Iterate):
        return
    above: Budget | None = getattr(run, "_budget", None)
    for record in known.values():
        effect.stopped = effect.stopped or not _is_success(record)
        asks = record.get("asks", 0)
        if above is not None:  # whose turn pays the rest, when it takes their ends
            above.add((0, 0, 0), asks)
        elif effect.budget is not None:
            effect.budget.add(record["usage"], asks)


def most_at_once(run: Run, effect: Collaborate) -> int:
    """How many branches of an effect may run at the same time."""
    most = run.plan.limits.parallel
    return min(most, effect.most) if isinstance(effect, Iterate) else most


def branch_run(run: Run, branch: Branch, lock: Lock, effect: Collaborate) -> BranchRun:
    """The run of one branch of an effect."""
    if isinstance(effect, Iterate):
        return IterationRun(run, branch, lock, effect)
    return BranchRun(run, branch, lock)


def build_skipped_record(run: Run, branch: Branch, effect: Collaborate) -> Record | None:
    """The record of an iteration that is not begun, because another has failed; else `None`."""
    if not isinstance(effect, Iterate) or not effect.stopped:
        return None
    at = run.now()
    return {
        "kind": "branch",
        "id": branch.id,
        "result": "failure",
        "text": "",
        "stop_reason": STOPPED,
        "usage": (0, 0, 0),
        "began": at,
        "ended": at,
    }
