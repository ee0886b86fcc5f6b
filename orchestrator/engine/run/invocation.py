"""One invocation: a turn, its session's journal, and the budget of time. Waits for its store alone.

A driver carries out the effects that `begin`, `take` and `fail` return, until they return the
turn's result. What must not be lost is in the journal before it is acted upon: a turn's start
before anything is spent, the intent of calls before they are carried out, their outcomes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrator.actions.base import Call, CallContext
from orchestrator.engine.calls import AttributeMerger
from orchestrator.engine.effects import (
    LIVE,
    Branches,
    CallModel,
    Dispatch,
    Effect,
    Guard,
    Live,
    Orchestrate,
    Retrieve,
)
from orchestrator.engine.plan import SUSPEND, Plan
from orchestrator.engine.results import Answer, ControlReturn, Failure, Refusal, Result
from orchestrator.engine.run.replay import Replay
from orchestrator.engine.run.restore import add_routed_turns, restore_team
from orchestrator.engine.run.turn_records import (
    build_end_record,
    build_intent,
    build_suspend_record,
    decode_file,
)
from orchestrator.errors import (
    ActionOutcomeUnknown,
    LimitExceeded,
    OrchestratorError,
    SessionBusy,
    SessionConflict,
)
from orchestrator.guardrails import Verdict
from orchestrator.sessions import Clock, Record, Session, Sessions, TurnLog
from orchestrator.sessions.journal import (
    build_cancelled_record,
    build_closed_record,
    build_left_record,
)
from orchestrator.sessions.sizes import are_small
from orchestrator.support import forks

if TYPE_CHECKING:  # these need asyncio, and what stores need
    from orchestrator.sessions.rows import Append, Encoded
    from orchestrator.support.time_limit import TimeLimit

# Before these the outcomes so far are written: what was paid for is not paid for again after a
# crash, and what collaborators write comes after it.
_PAID = (CallModel, Retrieve, Guard, Orchestrate, Branches)
_SHARED = (Branches,)  # the same, in memory: a crash leaves no journal
_ENDS = (Answer, Refusal, Failure)


class Run:
    """One invocation of an agent.

    Attributes:
        session: The session, held by this invocation until `close`.
        now: Tells the time in nanoseconds since 1970. It never goes back, nor on by leaps.
        deadline: When the turn's time is over, by `now`; `None` for never.
        causes: What actions of this invocation raised, by call id; no journal holds them.
        checked: The answer that a guardrail has checked while it streamed, what it said, and
            whether each check is in the trace.
        guard_interval: After how many characters of a streamed answer the guardrail checks it, if
            the caller said so.
        owes: Whether something is to be written before the next effect is carried out.
        seconds: The limit that the deadline is of: its own agent's, or of one above it.
        left: Whether the turn, once it is stopped, is for another process to go on with.
        below: The runs of collaborators and iterations that go on beside it, all the way down;
            `None` until there is one.
        time_limit: Cuts off, in an event loop, what is waited for when the turn's time is over;
            `None` until then, and without a `deadline`.
    """

    __slots__ = (
        "_after",
        "_before",
        "_begun",
        "_begun_at",
        "_context",
        "_encoded",
        "_generation",
        "_outlasts",
        "_prompt_attributes",
        "_session_attributes",
        "_together",
        "_unwritten",
        "_written_before",
        "below",
        "causes",
        "checked",
        "deadline",
        "guard_interval",
        "left",
        "log",
        "now",
        "owes",
        "plan",
        "replay",
        "result",
        "seconds",
        "session",
        "session_id",
        "sessions",
        "time_limit",
    )

    def __init__(
        self,
        plan: Plan,
        sessions: Sessions,
        session: Session,
        session_id: str,
        replay: Replay | None = None,
        now: Clock | None = None,
    ) -> None:
        if session.open is None:
            raise AssertionError("a run needs the session's open turn")
        self.plan = plan
        self.session = session
        self.session_id = session_id
        self.log: TurnLog = session.open
        self.result: Result | None = None
        self.causes: dict[str, BaseException] = {}
        self.checked: tuple[str, Verdict, bool] | None = None
        self.guard_interval: int | None = None
        self.owes = self.left = False
        self.time_limit: TimeLimit | None = None
        self.below: set[Run] | None = None
        if replay is None and len(self.log) > 1:
            restore_team(plan, self.log, session)
        self.replay = replay or Replay(plan, self.log, session)
        began, self.now = sessions.start_clock() if now is None else (now(), now)
        self._generation = forks.generation
        self._before = len(self.log)
        self._after: int | None = None
        self.sessions = sessions
        self._unwritten: list[Record] = []
        self._encoded: Sequence[Encoded] = ()
        self._begun: Sequence[Call] = ()
        self._begun_at = 0
        self._context: CallContext | None = None
        # The attributes that it was made of
        self._session_attributes: Mapping[str, str] = _NO_ATTRIBUTES
        self._prompt_attributes: Mapping[str, str] = _NO_ATTRIBUTES
        self._together: AttributeMerger | None = None
        self._written_before = _PAID if sessions.durable else _SHARED
        # Asked once: a log looks through its records for it.
        self._outlasts = sessions.durable and bool(self.log.workflow)
        self.seconds = seconds = plan.limits.seconds
        self.deadline = None if seconds is None else began + int(seconds * 1e9)

    def begin(self) -> Live | Result:
        """The first effect to carry out, or the result."""
        return self.replay.send(None)

    def take(self, effect: Effect, outcome: Any) -> Live | Result:
        """Takes an effect's outcome; the next effect to carry out, or the result.

        The turn fails if its time is over and there is more to carry out.
        """
        if isinstance(outcome, list):  # actions are written as each one ends
            self._begun = ()
            # Records have their time; of several, any may be the last.
            at = outcome[0]["ended"] if len(outcome) == 1 else self.now()
        else:
            self._unwritten.append(outcome)
            at = outcome["ended"]
        replay = self.replay
        replay.steps.append((effect, outcome))
        following = replay.send(outcome)
        if self.causes and isinstance(following, Failure):
            self._name_cause(following.error, outcome)
        if self.deadline is not None and at > self.deadline and isinstance(following, LIVE):
            following = self.fail(self.build_timeout_error())
        self.owes = isinstance(following, self._written_before) if self._unwritten else False
        return following

    def _name_cause(self, error: OrchestratorError, outcome: Any) -> None:
        # The turn fails with the first failed call, in the calls' order; see `Turn`.
        failed = [one for one in outcome if one.get("state") == "FAILURE"]
        cause = self.causes.get(failed[0]["id"]) if failed else None
        if cause is not None and cause.__traceback__ is not None:
            error.__cause__ = cause

    def fail(self, error: OrchestratorError, effect: Effect | None = None) -> Result:
        """Takes the failure of an effect that was begun, or could not be; it ends the turn."""
        if effect is not None:
            self.replay.steps.append((effect, None))
        result = self.replay.throw(error)
        if effect is not None and isinstance(result, Failure):
            result.begun = True
        return result

    def build_timeout_error(self) -> LimitExceeded:
        """The error of a turn whose time is over."""
        return LimitExceeded(
            f"the turn took longer than its limit of {self.seconds} seconds; raise "
            "the limit 'seconds', or find out from the trace what is slow",
            limit="seconds",
        )

    def new_records(self) -> list[Record]:
        """The records that this invocation has written; later ones may have added others."""
        return self.log.records[self._before : self._after]

    @property
    def record_count(self) -> int:
        """How many records the caller knew of: those up to the last results that it brought."""
        return count_known_records(self.log, self._before) if self._before > 1 else 0

    @property
    def suspends_on_unknown(self) -> bool:
        """Whether a call whose outcome nobody knows suspends the turn, instead of ending it."""
        return self.plan.features.unknown_outcomes == SUSPEND

    def intend(self, calls: list[Call]) -> None:
        """Writes down that calls are about to be carried out."""
        if self.sessions.durable:
            self.flush(*self.prepare_intent(calls))
        else:  # no later process could read it, but the next turn must know if this one stops
            self._expect_outcomes(calls)
            self._begun, self._begun_at = calls, len(self._unwritten)

    def prepare_intent(self, calls: list[Call]) -> tuple[Record, ...]:
        """What `intend` writes last."""
        self._expect_outcomes(calls)
        return (build_intent(calls),)

    def _expect_outcomes(self, calls: list[Call]) -> None:
        self._together = AttributeMerger(self.session.attributes, calls) if len(calls) > 1 else None

    def record_action(self, record: Record) -> None:
        """Writes one action's outcome down, at once."""
        self.prepare_action(record)
        if self.sessions.durable:
            self.flush()

    def prepare_action(self, record: Record) -> tuple[Record, ...]:
        """Takes one action's outcome, which is not written yet; `record_action` writes no more."""
        self._unwritten.append(record)
        if "attributes" in record:
            if self._together is not None:
                record["attributes"] = self._together.add(record["id"], record["attributes"])
            self.session.attributes = record["attributes"]
        return ()

    def context(self) -> CallContext:
        """What the turn's executors may know; attributes change only by what they return."""
        session, prompt = self.session.attributes, self.replay.turn.prompt_attributes
        if (
            self._context is None
            or self._session_attributes is not session
            or self._prompt_attributes is not prompt
        ):
            self._context = self._build_context()
            self._session_attributes, self._prompt_attributes = session, prompt
        return self._context

    def _build_context(self) -> CallContext:
        plan, turn = self.plan, self.replay.turn
        return CallContext(
            plan.identity,
            self.session_id,
            turn.question,
            _protect(self.session.attributes),
            _protect(turn.prompt_attributes),
            plan.limits.result_bytes,
            plan.limits.action_seconds,
            tuple(map(decode_file, turn.start.files)),
            plan.tenant_key,
        )

    def finish(self, result: Result) -> None:
        """Writes the turn's end, or its suspension, and takes the turn into the history."""
        self.flush(*self.prepare_end(result))
        self.note_end(result)

    def prepare_end(self, result: Result) -> tuple[Record, ...]:
        """What `finish` writes last."""
        self.result = result
        # By the clock of all processes: the session is idle from here on.
        at = self.sessions.clock()
        if isinstance(result, ControlReturn):
            return (build_suspend_record(result, at),)
        end = build_end_record(result, at)
        turn = self.replay.turn
        if turn.question != self.log.start["question"]:
            end["question"] = turn.question  # as the guardrail let it be read
        kept_open = turn.unremembered or (turn.start.closing and isinstance(result, Failure))
        if self.log.ends_session and not kept_open:  # whoever asked for it has been written down
            return end, build_closed_record("ended", at)
        return (end,)

    def note_end(self, result: Result) -> None:
        """Takes the turn into the history, when its end is written."""
        if isinstance(result, ControlReturn):
            return
        turn = self.replay.turn
        if self.plan.routing is not None:
            add_routed_turns(self.replay, self.log, result)
        if not (isinstance(result, Failure) and self._has_failed_in_actions()):
            self.log.transcript = turn.defer_transcript(result)

    def memory_work(self, result: Result) -> Iterator[Callable[[], None]]:
        """What is to be done in the agent's memory before `finish`; each piece may block."""
        memory, more = self.plan.features.memory, self.log.start.get("with", {})
        if memory is None or "memory_id" not in more:
            return iter(())
        from orchestrator.engine.run.memory_work import iter_memory_work

        return iter_memory_work(self, result, memory, more["memory_id"])

    def _has_failed_in_actions(self) -> bool:
        # The turn knows less than its journal then, from which its transcript is made instead.
        effect, outcome = self.replay.steps[-1] if self.replay.steps else (None, None)
        return isinstance(effect, Dispatch) and outcome is None

    def cancel(self) -> None:
        """Writes that the caller stopped the turn before its end, or that this process left it."""
        if self.log.end or self.log.suspend_record:
            return  # it was stopped when all was written
        # Its transcript is made from what was written, which may be more than `turn` knows.
        if self.left or self.sessions.leaving:
            self.flush(build_left_record(self.log.workflow))
            self.sessions.forget(self.session)
        else:
            self.flush(build_cancelled_record(self.sessions.clock()))

    def close(self) -> None:
        """Ends the time limit, and gives the session back."""
        self._end_limit()
        self._after = len(self.log)
        if self._generation == forks.generation:  # else a turn of this process may have it
            self.sessions.release(self.session)

    @property
    def is_inherited(self) -> bool:
        """Whether it is driven in the process that this one was forked from."""
        return self._generation != forks.generation

    def _end_limit(self) -> None:
        if self.time_limit is not None:
            self.time_limit.end()
            self.time_limit = None

    def flush(self, *last: Record) -> None:
        """Writes what has not been written, and `last`."""
        records = self.collect(*last)
        if not records:
            return
        try:
            self.write(records)
        except SessionConflict:
            self._unwritten = []  # the journal is another's now
            raise
        except Exception as error:
            actions = [it for it in self._unwritten if it["kind"] == "action"]
            if actions:
                raise self._build_unwritten_error(actions, error) from error
            raise
        self.note_written()

    def collect(self, *last: Record) -> list[Record]:
        """What `flush` writes."""
        if self._begun:  # the intent of calls that the turn stopped in, which no journal has yet
            self._unwritten.insert(self._begun_at, build_intent(self._begun))
            self._begun = ()
        # Outcomes that could not be written stay, for the turn's end; `last` only announces.
        return [*self._unwritten, *last]

    def note_written(self) -> None:
        """Notes that all was written that had not been."""
        self._unwritten = []
        self._encoded = ()

    def writes_little(self, given: Sequence[Any]) -> bool:
        """Whether the next work that writes is one small append; `given` are its arguments."""
        if self.replay.feed.is_interrupted:
            return False
        written = [it for one in given if (it := _find_written(one)) is not None]
        encode = self.sessions.encode_record
        if encode is None:
            return are_small(self._unwritten, written)
        try:  # nobody changes these any more: the store need not encode them
            self._encoded = [(record, encode(record)) for record in self._unwritten]
        except (TypeError, ValueError, RecursionError):
            return False
        return are_small(*written, beside=sum([len(text) for _, text in self._encoded]))

    def _build_unwritten_error(self, actions: list[Record], error: Exception) -> OrchestratorError:
        begun = [*self.log.records, *self._unwritten]
        names = {
            call["id"]: call["name"]
            for record in begun
            if record["kind"] == "intent" and record.get("branch", "") == self.replay.path
            for call in record["calls"]
        }
        outcomes = [
            f"{names.get(it['id'], it['id'])!r} "
            + ("failed, and may have taken effect" if it.get("state") else "took effect")
            for it in actions
        ]
        why = error.message if isinstance(error, OrchestratorError) else type(error).__name__
        return ActionOutcomeUnknown(
            f"{', '.join(outcomes)}, but the journal could not be written ({why}). The session's "
            "next request finds the outcome unknown, and carries out again only what is idempotent",
            resource=names.get(actions[0]["id"], ""),
        )

    def write(self, records: list[Record]) -> None:
        """Appends records to the journal.

        A workflow's turn, for which nobody may be there to ask again, waits until a store that is
        away is back; the time of its whole team stands still meanwhile.
        """
        if self._generation != forks.generation:
            raise self._build_inherited_error()
        if not self._outlasts:
            self.sessions.write(self.session, records, self._encoded)
            return
        from orchestrator.sessions.outages import write_when_back

        if away := write_when_back(self.sessions, self.session, records, self._encoded):
            self.give_time(away)

    def give_time(self, nanoseconds: int) -> None:
        """Gives its team so much more time: that of an outage is nobody's."""
        for run in (self, *(self.below or ())):
            if run.deadline is not None:
                run.deadline += nanoseconds

    def prepare_append(self, records: list[Record]) -> Append:
        """The append that `write` makes."""
        if self._generation != forks.generation:
            raise self._build_inherited_error()
        return self.sessions.prepare_append(self.session, records, encoded=self._encoded)

    def _build_inherited_error(self) -> SessionBusy:
        return SessionBusy(
            f"the turn of session {self.session_id!r} is that of the process which this one was "
            "forked from, and goes on there"
        )


# Shared by the turns that have none: each container in flight costs time in garbage collections.
_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


def _protect(attributes: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(attributes) if attributes else _NO_ATTRIBUTES


def _find_written(given: Any) -> Any:
    # What is written of something that a work is given: all of a record, or of a turn's end.
    if isinstance(given, dict):
        return given
    if isinstance(given, ControlReturn):
        return given.invocation_inputs
    if isinstance(given, _ENDS):
        return build_end_record(given, 0)
    return None  # an effect, for one, of which a record is among the unwritten


def count_known_records(log: TurnLog, upto: int) -> int:
    """Up to which of the first `upto` records the caller knew a turn when it went on with it."""
    records = log.records
    for place in range(upto, 1, -1):
        if records[place - 1]["kind"] == "returned":
            return place
    return 0
