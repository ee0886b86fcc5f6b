"""Carries a turn's effects out: one driver, for threads and for an event loop.

The driver is written once, as coroutines. What differs is in a `Backend`: how a model is asked, how
blocking work is waited for, and how work runs side by side. The backend for threads never suspends,
so its coroutines run to their end without an event loop; asyncio is not even imported.

Whoever listens gives an `Emit`. It takes pieces of the answer as they stream, and each effect
before and after it is carried out.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.engine.effects import (
    LIVE,
    Branch,
    Branches,
    CallModel,
    Dispatch,
    Effect,
    Guard,
    Live,
    Orchestrate,
    Retrieve,
)
from orchestrator.engine.results import Result
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.iterations import BranchTable
from orchestrator.engine.run.journal_feed import NO_FEED
from orchestrator.engine.run.lost_calls import (
    OutcomesUndecided,
    find_pending_calls,
    hand_over_undecided,
    record_outcome,
)
from orchestrator.engine.run.outcomes import (
    StreamChecked,
    StreamedCall,
    build_effect_error,
    guard,
    orchestrate,
    retrieve,
    run_remote_branch,
)
from orchestrator.engine.run.turn_records import action_record
from orchestrator.errors import ActionOutcomeUnknown, DependencyFailed, OrchestratorError
from orchestrator.sessions import Record
from orchestrator.support.threads import MOST_THREADS

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_DONE = (dict, list)  # an outcome that is there already: a record, or several

# Whoever wants telemetry has imported it, and set it up.
_TELEMETRY = "opentelemetry.trace"


@dataclass(slots=True, eq=False, repr=False)
class Progress:
    """An effect that is about to be carried out (`outcome` is `None`), or that was."""

    effect: Effect
    run: Run  # the run that it belongs to: the agent's own, or a collaborator's
    outcome: Any = None  # its outcome: a journal record, or a list of them for calls


@dataclass(slots=True, eq=False, repr=False)
class BranchEnded:
    """A collaborator that has ended its work, while others may still be at theirs."""

    effect: Branches
    run: Run
    branch: Branch
    record: Record


Update = str | Progress | BranchEnded | StreamChecked
"""What a driver emits while it runs a turn; a text is a piece of the answer."""

UPDATES = (str, Progress, BranchEnded, StreamChecked)

Emit = Callable[[Update], Awaitable[None]]
Work = Callable[[Emit | None], Coroutine[Any, Any, None]]
"""Work that runs beside other work, and emits what happens in it."""


Pending: TypeAlias = T | Coroutine[Any, Any, T]
"""What came of work that had nothing to wait for; else the rest of it, to be awaited at once.

A coroutine for each layer between the loop and a model, or an action, that answers at once took a
tenth of a step (measured).
"""


class Backend(Protocol):
    """How work is waited for: in this thread, or in an event loop."""

    def complete(self, run: Run, effect: CallModel) -> Pending[Record]:
        """Asks a model for a whole reply, as long as the turn's time is not over."""

    def stream(self, run: Run, call: StreamedCall, emit: Emit) -> Coroutine[Any, Any, Record]:
        """Asks a model for a reply in pieces, as long as the turn's time is not over."""

    def run_blocking(self, function: Callable[..., T], *arguments: Any) -> Coroutine[Any, Any, T]:
        """Calls a function that may block."""

    def in_time(self, run: Run, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Does work, as long as the turn's time is not over, where work can be cut short.

        Raises:
            LimitExceeded: The time was over before.
        """

    def write(self, run: Run, work: Callable[..., T], *arguments: Any) -> Coroutine[Any, Any, T]:
        """Does what may write to the journal."""

    def perform(self, run: Run, call: Call, context: CallContext) -> Pending[Record]:
        """Carries a call out, within the time that an action has; its record."""

    def perform_all(
        self,
        run: Run,
        calls: Sequence[Call],
        context: CallContext,
        take: Callable[[Record], Awaitable[None]],
    ) -> Coroutine[Any, Any, None]:
        """The same for several, `Limits.parallel` at the same time; `take` gets each record."""

    def run_side_by_side(
        self, works: Sequence[Work], most: int, emit: Emit | None
    ) -> Coroutine[Any, Any, None]:
        """Does works, at most `most` at the same time; what they emit, `emit` gets here.

        The first that raises stops the others. So does closing this coroutine, which then waits
        for them.
        """


@types.coroutine
def hand_to_caller(update: Update) -> Generator[Update, None, None]:
    """An `Emit` that suspends the driver, and hands the update to whoever runs it."""
    yield update


def drive(
    run: Run,
    backend: Backend,
    emit: Emit | None = None,
    listen: bool = True,
    whole: bool = False,
) -> Coroutine[Any, Any, None]:
    """Runs an invocation to its result, which `run.result` then holds.

    Closing the coroutine stops the work, and writes that the turn was cancelled. With `whole`,
    models answer whole, and what is emitted is the progress of the agent's own turn alone.
    """
    if not run.sessions.observers and _TELEMETRY not in sys.modules:
        return _drive(run, backend, emit, listen, whole)
    from orchestrator.engine.run.observation import watch_drive

    return watch_drive(partial(_drive, whole=whole), run, backend, emit, listen)


async def _drive(run: Run, backend: Backend, emit: Emit | None, listen: bool, whole: bool) -> None:
    try:
        step = run.begin()  # a turn of another version of the agent stays as it is
        try:
            while isinstance(step, LIVE):
                if emit is not None:
                    await emit(Progress(step, run))
                    # Whoever only waits for the turn to begin gets no more: from here on models
                    # answer whole, and nothing is made for a listener that is not there.
                    emit = emit if listen else None
                try:
                    outcome = _carry_out(run, step, backend, None if whole else emit)
                    if not isinstance(outcome, _DONE):
                        outcome = await outcome
                except OutcomesUndecided as stop:
                    run.replay.steps.append((step, None))
                    step = stop.control
                    continue
                except BaseException as error:
                    step = run.fail(build_effect_error(step, error), step)
                    continue
                if emit is not None:
                    await emit(Progress(step, run, outcome))
                step = run.take(step, outcome)
                # What was paid for is in the journal before the next effect is paid for.
                if run.owes:
                    await backend.write(run, run.flush)
            if run.sessions.durable or run.plan.memory_stage is not None:
                await _finish(run, step, backend)
            else:  # nothing blocks
                run.finish(step)
        except BaseException:
            await _cancel(run, backend)
            raise
    finally:
        run.close()


async def _cancel(run: Run, backend: Backend) -> None:
    # A forked process closes what its parent reads when it frees its memory.
    if not run.is_inherited:
        await backend.write(run, run.cancel)


async def _finish(run: Run, result: Result, backend: Backend) -> None:
    if run.plan.memory_stage is not None:
        works = run.memory_work(result)
        while (work := await backend.write(run, next, works, None)) is not None:
            await backend.run_blocking(work)
    await backend.write(run, run.finish, result)


def _carry_out(
    run: Run, effect: Live, backend: Backend, emit: Emit | None
) -> Pending[Record] | Pending[list[Record]]:
    if isinstance(effect, CallModel):
        if emit is None:
            return backend.complete(run, effect)
        return backend.stream(run, StreamedCall(run, effect), emit)
    if isinstance(effect, Dispatch):
        return _dispatch(run, effect, backend)
    if isinstance(effect, Branches):
        return _run_branches(run, effect, backend, emit)
    return backend.in_time(run, backend.run_blocking(_BLOCKING[type(effect)], run, effect))


_BLOCKING: dict[type[Live], Callable[[Run, Any], Record]] = {
    Retrieve: retrieve,
    Guard: guard,
    Orchestrate: orchestrate,
}


def _dispatch(run: Run, effect: Dispatch, backend: Backend) -> Pending[list[Record]]:
    # A store in memory does not block: its journal is written without a coroutine between. With
    # one for each write, a turn took a tenth longer (measured: `python -m bench turn`).
    if run.sessions.durable:
        return _dispatch_durably(run, effect, backend)
    calls = effect.calls
    if len(calls) != 1 or run.replay.feed is not NO_FEED:
        return _perform_all(run, effect, backend, *find_pending_calls(run, effect))
    run.intend(calls)
    record = backend.perform(run, calls[0], run.context())
    if not isinstance(record, dict):
        return _record_later(run, record)
    run.record_action(record)
    return [record]


async def _record_later(run: Run, work: Coroutine[Any, Any, Record]) -> list[Record]:
    record = await work
    run.record_action(record)
    return [record]


async def _dispatch_durably(run: Run, effect: Dispatch, backend: Backend) -> list[Record]:
    known: dict[str, Record] = {}
    calls = effect.calls
    if run.replay.feed.is_interrupted:  # else all calls are new, and their intent is one append
        known, calls = await backend.write(run, find_pending_calls, run, effect)
    else:
        await backend.write(run, run.intend, calls)
    if len(calls) != 1 or known:
        return await _perform_all(run, effect, backend, known, calls)
    record = backend.perform(run, calls[0], run.context())
    if not isinstance(record, dict):
        record = await record
    await backend.write(run, run.record_action, record)
    return [record]


async def _perform_all(
    run: Run, effect: Dispatch, backend: Backend, known: dict[str, Record], calls: Sequence[Call]
) -> list[Record]:
    take = partial(backend.write, run, record_outcome, run, known)
    await backend.perform_all(run, calls, run.context(), take)
    return [known[call.id] for call in effect.calls]


async def _run_branches(
    run: Run, effect: Branches, backend: Backend, emit: Emit | None
) -> list[Record]:
    table = BranchTable(run, effect)

    async def work(branch: Branch, emit: Emit | None) -> None:
        record = table.build_skipped_record(branch)
        if record is None:
            record = await _run_branch(run, effect, branch, table, backend, emit)
        if record is not None:
            table.records[branch.id] = record

    works = [partial(work, branch) for branch in table.list_open_branches()]
    await backend.run_side_by_side(works, table.most, emit)
    if table.lost:  # when the others have ended
        raise OutcomesUndecided(hand_over_undecided(run, table.lost))
    return table.list_records()


async def _run_branch(
    run: Run,
    effect: Branches,
    branch: Branch,
    table: BranchTable,
    backend: Backend,
    emit: Emit | None,
) -> Record | None:
    # `None` when somebody is to decide what became of it.
    if branch.collaborator.agent is None:
        record = await backend.write(run, table.intend, branch)
        if record is None:
            work = backend.run_blocking(run_remote_branch, run, branch)
            record = await backend.in_time(run, work)
        if not await backend.write(run, table.write, branch, record):
            return None
    else:
        below = table.open_run(branch)
        forward = emit and partial(_forward, effect, table.find_listener(branch), emit)
        await drive(below, backend, forward)
        record = below.outcome
    if emit is not None and "control" not in record:
        await emit(BranchEnded(effect, run, branch, record))
    return record


async def _forward(
    effect: Branches, hear: Callable[[str], None] | None, emit: Emit, update: Update
) -> None:
    if isinstance(update, str):
        if not effect.live:
            return
        if hear is not None:
            # Who listens gets the text at once, in order with all else that the iteration reports;
            # above it only counts that a text came.
            hear(update)
            update = ""
    await emit(update)


def build_failed_action_record(run: Run, call: Call, error: BaseException, began: int) -> Record:
    """The journal record of an action that raised: the turn fails with its error.

    The record has the message that others may read; the exception itself stays in this process.
    """
    ended = run.now()
    run.causes[call.id] = error.__cause__ or error
    if not isinstance(error, OrchestratorError):
        error = DependencyFailed(
            f"the executor of {call.operation.xml_name!r} raised {type(error).__name__}; an "
            "executor reports what the model can mend as a result with state 'REPROMPT'",
            resource=call.operation.xml_name,
        )
    record = action_record(call, ActionResult(error.message, "FAILURE"), began, ended)
    record["error"] = type(error).__name__
    return record


def build_late_record(run: Run, call: Call, began: int, blocking: Future[Record] | None) -> Record:
    """The journal record of an action that did not answer in time; whoever waited gives it up.

    `blocking` is the work of its thread, if it has one; what was not begun yet is cancelled, and
    what has ended meanwhile is known: the time may be over for whoever waited only.
    """
    if blocking is not None and blocking.done() and not blocking.cancelled():
        return blocking.result()
    name, seconds = call.operation.xml_name, run.plan.limits.action_seconds
    # Cancelling works only as long as no thread has begun the work: then nothing was done.
    if blocking is not None and blocking.cancel():
        error: OrchestratorError = DependencyFailed(
            f"{name!r} was not begun: no thread was free within {seconds} seconds. At most "
            f"{MOST_THREADS} actions block at the same time in one process",
            resource=name,
        )
    else:
        error = ActionOutcomeUnknown(
            f"{name!r} did not answer within {seconds} seconds; it may still take effect. Raise "
            "the limit 'action_seconds' if it needs longer",
            resource=name,
        )
    return build_failed_action_record(run, call, error, began)


def perform(run: Run, call: Call, context: CallContext) -> Record:
    """Carries a call out, in this thread."""
    began = run.now()
    try:
        result = run.plan.catalog.executor(call.operation).call(call, context)
    except Exception as error:  # whatever an executor raises is its outcome
        return build_failed_action_record(run, call, error, began)
    return action_record(call, result, began, run.now())
