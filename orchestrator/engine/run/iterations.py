"""Iterations of a script's loop that run side by side, each as a branch of its turn.

A branch of a collaborator is another agent's whole turn. That of an iteration is a part of the same
agent's turn: its session, its attributes and its actions are the turn's, and it has no history of
its own. The journal, the budgets and what drives it are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import RLock

from orchestrator.actions.base import Call
from orchestrator.engine.effects import LIVE, Branch, Branches, Converse, Live
from orchestrator.engine.results import ControlReturn, Failure, Result
from orchestrator.engine.run.branches import BranchRun, Budget, Lock
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.lost_calls import find_sent_message, is_undecided
from orchestrator.engine.run.turn_records import (
    STOPPED,
    build_branch_intent,
    build_stopped_record,
)
from orchestrator.engine.state import Iteration
from orchestrator.errors import DefinitionError, FlowError, OrchestratorError, rebuild_error
from orchestrator.sessions import Record


class IterationRun(BranchRun):
    """One iteration at work, within the run of the turn that has the loop."""

    __slots__ = ("_asked", "_table")

    def __init__(self, parent: Run, branch: Branch, table: BranchTable) -> None:
        self._asked = False
        self._table = table
        replay = parent.replay.below(branch)
        super().__init__(parent, branch, table.lock, replay, table.budget)

    @property
    def is_stopped(self) -> bool:
        """Whether another iteration of the loop, or of one around it, has failed."""
        above = self.parent
        return self._table.is_stopped or (isinstance(above, IterationRun) and above.is_stopped)

    def _charge_budget(self, budget: Budget, following: Live | Result) -> Live | Result:
        # The budget's lock is held: nobody who finds it spent stops what was paid for before.
        charged = super()._charge_budget(budget, following)
        return self.replay.stop() if isinstance(charged, LIVE) and self.is_stopped else charged

    def count_script_calls(self, following: Live | Result) -> int:
        """How many model calls come with the next effect; at first, those of the journal, too."""
        made = 0 if self._asked else _count_model_calls(self)
        self._asked = True
        return made + isinstance(following, Converse)

    def finish(self, result: Result) -> None:
        """Writes the iteration's end; one that did not come to its end stops the others."""
        self.result = result
        self._pay()
        if isinstance(result, ControlReturn):
            self.wait_for_caller(replace(result, branch=result.branch or self.branch.id))
            return
        name = f"{self.branch.team}/{self.branch.id}"
        self.outcome = {**self.build_record(result, name, 0), "asks": _count_model_calls(self)}
        if isinstance(result, Failure):
            self.parent.replay.turn.iterations[self.branch.id].error = result.error
            self.outcome["fault"] = _fault(result.error)
        if not _is_success(self.outcome):
            self._table.is_stopped = True
        self.flush(self.outcome)


def _count_model_calls(run: Run) -> int:
    """How many model calls an iteration has made, with those of loops in it."""
    made = 0
    for effect, outcome in run.replay.steps:
        if isinstance(effect, Branches) and effect.iterates:
            made += sum(one.get("asks", 0) for one in outcome or ())
        else:
            made += isinstance(effect, Converse)
    return made


def _fault(error: OrchestratorError) -> Record:
    """What an error says besides its message, for the process that goes on."""
    cause = error.__cause__
    fault: Record = {}
    if isinstance(cause, OrchestratorError):
        fault["cause"] = [type(cause).__name__, cause.message]
    if isinstance(error, DefinitionError):
        fault |= {"reason": error.reason, "file": error.file}
        fault |= {"line": error.line, "column": error.column}
    if isinstance(error, FlowError):
        fault |= {"statement": error.statement, "message_zh": error.message_zh}
    return fault


def error_of(iteration: Iteration, record: Record) -> OrchestratorError | None:
    """Why an iteration failed; `None` when it did not, or stopped because another had failed."""
    if record["result"] != "failure" or record["stop_reason"] == STOPPED:
        return None
    if iteration.error is not None:
        return iteration.error
    fault = record.get("fault") or {}
    error = rebuild_error(record["error"], record["message"], record["stop_reason"])
    if isinstance(error, FlowError) and "reason" in fault:
        places = {name: fault[name] for name in ("file", "line", "column", "statement")}
        error = FlowError(fault["reason"], **places, message_zh=fault["message_zh"])
    if "cause" in fault:
        kind, message = fault["cause"]
        error.__cause__ = rebuild_error(kind, message, "")
    return error


def _is_success(record: Record) -> bool:
    return bool(record["result"] == "answer" and record["stop_reason"] == "end_turn")


class BranchTable:
    """What lives while the branches of an effect run: their lock, their outcomes, their budget.

    Attributes:
        lock: Held while a branch writes to the journal, which all share.
        records: The outcomes so far, by branch id.
        lost: Messages to remote collaborators of which somebody is to decide what they did.
        budget: What all iterations of a loop may spend together, if the loop is not itself in one.
        is_stopped: Whether an iteration has failed: the others stop at their next step.
    """

    def __init__(self, run: Run, effect: Branches) -> None:
        self._run = run
        self._effect = effect
        self.lock: Lock = RLock()
        self.records = run.replay.feed.take_known(effect)
        self.lost: list[Call] = []
        self.budget: Budget | None = None
        self.is_stopped = False
        if effect.iterates:
            self._begin_loop(run, effect)

    def _begin_loop(self, run: Run, effect: Branches) -> None:
        # What iterations have spent whose ends the journal has is spent. In a loop within another,
        # the turn around it pays, when it takes their ends: only their model calls are counted.
        above: Budget | None = getattr(run, "_budget", None)
        turn = run.replay.turn
        self.budget = Budget(turn.limits, turn.spending, effect.asks)
        for record in self.records.values():
            self.is_stopped = self.is_stopped or not _is_success(record)
            asks = record.get("asks", 0)
            if above is not None:
                above.add((0, 0, 0), asks)
            else:
                self.budget.add(record["usage"], asks)

    @property
    def most(self) -> int:
        """How many branches may run at the same time."""
        most = self._run.plan.limits.parallel
        return min(most, self._effect.most) if self._effect.iterates else most

    def list_open_branches(self) -> list[Branch]:
        """The branches whose outcome is not known."""
        return [branch for branch in self._effect.branches if branch.id not in self.records]

    def list_records(self) -> list[Record]:
        """The outcomes, in the branches' order."""
        return [self.records[branch.id] for branch in self._effect.branches]

    def open_run(self, branch: Branch) -> BranchRun:
        """The run of one branch."""
        if self._effect.iterates:
            return IterationRun(self._run, branch, self)
        return BranchRun(self._run, branch, self.lock)

    def build_skipped_record(self, branch: Branch) -> Record | None:
        """The record of an iteration that is not begun, because another has failed; else `None`."""
        # No journal has this record: when the turn goes on, the iteration may run after all.
        return build_stopped_record(branch, self._run.now()) if self.is_stopped else None

    def intend(self, branch: Branch) -> Record | None:
        """Writes that a remote collaborator is about to be asked.

        If it was asked before, gives what became of that.
        """
        known = find_sent_message(self._run, branch)
        if known is None and self._run.sessions.durable:
            self._write_intent(branch)
        return known

    def _write_intent(self, branch: Branch) -> None:
        key = self._run.replay.build_message_call(branch).key
        with self.lock:
            self._run.flush(build_branch_intent(branch, key))

    def write(self, branch: Branch, record: Record) -> bool:
        """Writes the end of a remote branch, beside branches of other threads; whether it ended.

        It has not, if somebody is to decide what became of it.
        """
        run = self._run
        if not is_undecided(run, branch, record):
            with self.lock:
                run.write([record])
            return True
        self.lost.append(run.replay.build_message_call(branch))
        if not run.sessions.durable:  # there it is written when it is needed
            self._write_intent(branch)
        return False

    def find_listener(self, branch: Branch) -> Callable[[str], None] | None:
        """Who listens to what the models of an iteration write, as it streams."""
        iteration = self._run.replay.turn.iterations.get(branch.id)
        return iteration.hear if iteration is not None else None
