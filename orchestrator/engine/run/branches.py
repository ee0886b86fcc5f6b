"""A collaborator's work as a run of its own, in the journal of the turn that asked for it.

The supervisor's turn and all its collaborators' share one journal: a record of a collaborator names
its branch. So a return of control, a crash or a later reading needs nothing special; each
collaborator's turn is run again from its own records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from orchestrator.actions.base import CallContext
from orchestrator.engine.calls import merge_changes
from orchestrator.engine.effects import LIVE, Branch, Effect, Live
from orchestrator.engine.results import ControlReturn, Result
from orchestrator.engine.run.budget import Budget
from orchestrator.engine.run.invocation import Run, end_record
from orchestrator.engine.run.replay import Replay
from orchestrator.engine.run.restore import add_routed_turns
from orchestrator.sessions import Record

_NOTHING = (0, 0, 0)

Lock = AbstractContextManager[Any]
"""A lock that its holder may take again."""


class BranchRun(Run):
    """One collaborator at work, within another agent's run.

    Attributes:
        parent: The supervisor's run.
        branch: Its work.
        began: When it began here, in nanoseconds since 1970.
        outcome: How it ended: its `branch` record, or what it waits for.
        resumed: As it began here: the step that the caller's results belong to, 0 if none, and
            how many steps were known.
    """

    __slots__ = (
        "_budget",
        "_counted",
        "_lock",
        "_paid",
        "_seen",
        "began",
        "branch",
        "outcome",
        "parent",
        "resumed",
    )

    def __init__(
        self,
        parent: Run,
        branch: Branch,
        lock: Lock,
        replay: Replay | None = None,
        budget: Budget | None = None,
    ) -> None:
        session_id = parent.session_id
        if replay is None:
            replay = parent.replay.below(branch)
            session_id = replay.session_id(session_id)
        super().__init__(replay.turn.plan, parent.sessions, parent.session, session_id, replay)
        if parent.deadline is not None:
            self.deadline = min(self.deadline or parent.deadline, parent.deadline)
        self.guard_interval = parent.guard_interval
        self.branch = branch
        self.outcome: Record = {}
        self.parent = parent
        # A whole team has one journal: agents below take turns in it with those beside them.
        self._lock: Lock = getattr(parent, "_lock", lock)
        self._seen: Mapping[str, str] = {}
        self.began = parent.now()
        self.resumed = 0, 0
        # Of a loop whose iterations run side by side, when it works in one.
        self._budget: Budget | None = getattr(parent, "_budget", budget)
        self._counted = self._paid = _NOTHING

    def begin(self) -> Live | Result:
        """The first effect to carry out, or the result."""
        step = super().begin()
        self.resumed = self.replay.resume_step, len(self.replay.steps)
        if self._budget is None:
            return step
        with self._budget.lock:
            return self._charge_budget(self._budget, step)

    def take(self, effect: Effect, outcome: Any) -> Live | Result:
        """Takes an effect's outcome; the next effect to carry out, or the result."""
        if self._budget is None:
            return super().take(effect, outcome)
        with self._budget.lock:  # from one effect to the next nobody else spends
            return self._charge_budget(self._budget, super().take(effect, outcome))

    def _charge_budget(self, budget: Budget, following: Live | Result) -> Live | Result:
        now, known = self.replay.turn.spending, zip(self._counted, self._paid, strict=True)
        new = [
            max(spent - counted - paid, 0)  # what those below have spent they have paid
            for spent, (counted, paid) in zip(now, known, strict=True)
        ]
        self._counted, self._paid = now, _NOTHING
        over = budget.spend(new, following, self.count_script_calls(following))
        return self.fail(over) if over is not None and isinstance(following, LIVE) else following

    def count_script_calls(self, following: Live | Result) -> int:
        """How many model calls of a script come with the next effect."""
        return 0

    def _pay(self) -> None:
        """Tells the branch above what this one has spent, and paid."""
        above, budget = self.parent, self._budget
        if budget is not None and isinstance(above, BranchRun):
            with budget.lock:
                paid = zip(above._paid, self.replay.turn.spending, strict=True)
                above._paid = tuple(map(sum, paid))  # type: ignore[assignment]

    @property
    def is_routed(self) -> bool:
        """Whether its answer is the supervisor's."""
        return self.branch.is_routed

    def finish(self, result: Result) -> None:
        """Writes the collaborator's end, and takes its turn into the collaborator's history."""
        self.result = result
        self._pay()
        ended = self.now()
        if isinstance(result, ControlReturn):
            control = result.of_collaborator(self.branch.collaborator.name, self.branch.id)
            self.flush()
            self.outcome = {
                "id": self.branch.id,
                "control": control,
                "began": self.began,
                "ended": ended,
            }
            return
        history = self.replay.past.history
        self.outcome = {
            **end_record(result, ended),
            "kind": "branch",
            "branch": self.parent.replay.path,
            "id": self.branch.id,
            "name": self.branch.team,
            "asked": self.branch.message,
            "before": self.replay.before,
            "usage": self.replay.turn.spending,
            "began": self.began,
            "ended": ended,
        }
        if given := self._collect_prompt_attributes():
            self.outcome["prompt_attributes"] = given[-1]
        self.flush(self.outcome)
        if self.is_routed:
            return  # its history tells what the supervisor lets the user read
        with self._lock:
            history += self.replay.transcript(result)
            self.log.taken |= {self.branch.id}
            add_routed_turns(self.replay, self.log, result)

    def _collect_prompt_attributes(self) -> list[Mapping[str, str]]:
        # Prompt session attributes that came with results of this branch, or of one below.
        return [
            record["prompt_attributes"]
            for record in self.log.records
            if record["kind"] == "returned"
            and "prompt_attributes" in record
            and self.branch.has(record.get("branch", ""))
        ]

    def memory_work(self, result: Result) -> Iterator[Callable[[], None]]:
        """Nothing: the session that is remembered is the supervisor's."""
        return iter(())

    def context(self) -> CallContext:
        """What the turn's executors may know; what others change meanwhile is kept."""
        self._seen = self.session.attributes
        return super().context()

    def record_action(self, record: Record) -> None:
        """Writes one action's outcome down, at once, with what others have changed meanwhile."""
        with self._lock:
            if "attributes" in record:
                now, returned = self.session.attributes, record["attributes"]
                record["attributes"] = merge_changes(self._seen, now, returned)
            super().record_action(record)
            if "attributes" in record:
                self.flush()  # the journal's last attributes are the session's

    def cancel(self) -> None:
        """Writes what is known; the supervisor's run says that the turn was stopped."""
        self.flush()

    def close(self) -> None:
        """Leaves the session to the supervisor's run."""

    def write(self, records: list[Record]) -> None:
        """Appends records, one branch at a time."""
        for record in records:
            record.setdefault("branch", self.replay.path)
        with self._lock:
            super().write(records)
