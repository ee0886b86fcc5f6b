"""A collaborator's work as a run of its own, in the journal of the turn that asked for it.

The supervisor's turn and all its collaborators' share one journal: a record of a collaborator names
its branch. So a return of control, a crash or a later reading needs nothing special; each
collaborator's turn is run again from its own records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any

from orchestrator.actions.base import CallContext
from orchestrator.engine.calls import merge_changes
from orchestrator.engine.effects import LIVE, Branch, CallModel, Effect, Live
from orchestrator.engine.results import Answer, ControlReturn, Failure, Refusal, Result
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.replay import Replay
from orchestrator.engine.run.restore import add_routed_turns
from orchestrator.engine.run.turn_records import build_branch_record
from orchestrator.engine.state import build_limit_error
from orchestrator.errors import LimitExceeded
from orchestrator.limits import Limits
from orchestrator.sessions import Record

_NOTHING = (0, 0, 0)

Lock = AbstractContextManager[Any]
"""A lock that its holder may take again."""


class Budget:
    """The budgets of a turn, for all that works in one of its loops at the same time.

    What a turn spends it counts itself. Turns that run side by side do not know of each other:
    each effect is paid for here before it is carried out. One that was carried out before, by a
    process that has stopped, is never refused.

    Attributes:
        lock: Held from what one of them has spent to what it is about to spend.
    """

    __slots__ = ("_asks", "_limits", "_spent", "lock")

    def __init__(self, limits: Limits, spent: tuple[int, int, int], asks: int) -> None:
        # What the turn has spent so far; `asks` counts the model calls of its script.
        self.lock = RLock()
        self._limits = limits
        self._spent = spent
        self._asks = asks

    def add(self, usage: Sequence[int], asks: int) -> None:
        """Takes what an iteration has spent that another process has run."""
        with self.lock:
            tokens, calls, actions = self._spent
            self._spent = tokens + usage[0], calls + usage[1], actions + usage[2]
            self._asks += asks

    def spend(
        self, new: Sequence[int], following: Live | Result, asks: int
    ) -> LimitExceeded | None:
        """Takes what is new: tokens, model calls and actions, and what the next effect will spend.

        Gives the error of a budget that does not suffice: the effect must not be carried out.
        """
        limits = self._limits
        tokens, calls, actions = (old + more for old, more in zip(self._spent, new, strict=True))
        asks += self._asks
        found = (
            ("model_calls", "model calls", calls > limits.model_calls),
            ("actions", "action calls", actions > limits.actions),
            ("iterations", "model calls of its script", asks > limits.iterations),
            ("tokens", "tokens", isinstance(following, CallModel) and tokens >= limits.tokens),
        )
        over = next(((name, what) for name, what, is_over in found if is_over), None)
        if over is None:
            self._spent, self._asks = (tokens, calls, actions), asks
            return None
        self._spent = tokens, self._spent[1], self._spent[2]
        name, what = over
        return build_limit_error(name, getattr(limits, name), what)


class BranchRun(Run):
    """One collaborator at work, within another agent's run.

    Attributes:
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
        "_root",
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
        super().__init__(
            replay.turn.plan, parent.sessions, parent.session, session_id, replay, parent.now
        )
        if parent.deadline is not None and parent.deadline <= (self.deadline or parent.deadline):
            self.deadline, self.seconds = parent.deadline, parent.seconds
        self.guard_interval = parent.guard_interval
        self.branch = branch
        self.outcome: Record = {}
        self.parent = parent
        # A whole team has one journal: agents below take turns in it with those beside them.
        self._lock: Lock = getattr(parent, "_lock", lock)
        self._root: Run = getattr(parent, "_root", parent)
        with self._lock:
            self._root.below = {self} | (self._root.below or set())
        self._seen: Mapping[str, str] = {}
        self.began = parent.now()
        self.resumed = 0, 0
        # Of a loop whose iterations run side by side, when it works in one.
        above: Budget | None = getattr(parent, "_budget", None)
        self._budget = budget if above is None else above
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
            max(spent - counted - paid, 0)  # branches below have paid for what they spent
            for spent, (counted, paid) in zip(now, known, strict=True)
        ]
        self._counted, self._paid = now, _NOTHING
        over = budget.spend(new, following, self.count_script_calls(following))
        return self.fail(over) if over is not None and isinstance(following, LIVE) else following

    def count_script_calls(self, following: Live | Result) -> int:
        """How many model calls of a script come with the next effect."""
        return 0

    def _pay(self) -> None:
        """Has the branch above know what this one has spent and paid."""
        above, budget = self.parent, self._budget
        if budget is not None and isinstance(above, BranchRun):
            with budget.lock:
                paid = zip(above._paid, self.replay.turn.spending, strict=True)
                above._paid = tuple(map(sum, paid))  # type: ignore[assignment]

    @property
    def suspends_on_unknown(self) -> bool:
        """As the agent that was invoked does."""
        return self.parent.suspends_on_unknown

    def finish(self, result: Result) -> None:
        """Writes the collaborator's end, and takes its turn into the collaborator's history."""
        self.result = result
        self._pay()
        if isinstance(result, ControlReturn):
            name = self.branch.collaborator.name
            self.wait_for_caller(result.of_collaborator(name, self.branch.id))
            return
        history = self.replay.past.history
        self.outcome = self.build_record(result, self.branch.team, self.replay.before)
        # Prompt session attributes that came with results of this branch, or of one below.
        for record in self.log.records:
            path = record.get("branch", "")
            if record["kind"] == "returned" and self.branch.has(path):
                if "prompt_attributes" in record:
                    self.outcome["prompt_attributes"] = record["prompt_attributes"]
        self.flush(self.outcome)
        if self.branch.is_routed:  # its answer is the supervisor's
            return  # its history has what the supervisor lets the user read
        with self._lock:
            history += self.replay.transcript(result)
            self.log.taken |= {self.branch.id}
            add_routed_turns(self.replay, self.log, result)

    def wait_for_caller(self, control: ControlReturn) -> None:
        """Takes calls for the caller as the outcome, which no journal has."""
        self.flush()
        times = {"began": self.began, "ended": self.now()}
        self.outcome = {"id": self.branch.id, "control": control, **times}

    def build_record(self, result: Answer | Refusal | Failure, name: str, before: int) -> Record:
        """The `branch` record of how it ended."""
        return build_branch_record(
            self.branch,
            result,
            path=self.parent.replay.path,
            name=name,
            before=before,
            usage=self.replay.turn.spending,
            began=self.began,
            ended=self.now(),
        )

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
        """Ends the time limit; the session stays with the supervisor's run."""
        self._end_limit()
        with self._lock:
            self._root.below = (self._root.below or set()) - {self}

    def give_time(self, nanoseconds: int) -> None:
        """See `Run`: to all of the team."""
        self._root.give_time(nanoseconds)

    def writes_little(self, given: Sequence[Any]) -> bool:
        """See `Run`: what is encoded here has its branch."""
        self._name_branch(self._unwritten)
        return super().writes_little(given)

    def write(self, records: list[Record]) -> None:
        """Appends records, one branch at a time."""
        self._name_branch(records)
        with self._lock:
            super().write(records)

    def _name_branch(self, records: list[Record]) -> None:
        for record in records:
            record.setdefault("branch", self.replay.path)
