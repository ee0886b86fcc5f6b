"""The beginning and the end of an invocation, whichever way it is driven between them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import closing
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.engine.plan import Plan
from orchestrator.engine.results import ControlReturn, Failure
from orchestrator.engine.run.driver import UPDATES, Progress
from orchestrator.engine.run.input import Input
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.open_turn import open_turn
from orchestrator.engine.run.options import Options, may_block, read_options
from orchestrator.engine.run.restore import restore_history
from orchestrator.engine.run.threads import run_turn, watch_effects, watch_turn
from orchestrator.engine.run.turn_start import NewTurn, keep_plan
from orchestrator.engine.trace.reply import (
    Event,
    Reply,
    RunEvents,
    TextDelta,
    last_events,
    rebuild_reply,
    reply_of,
)
from orchestrator.errors import OrchestratorError, SessionBusy, TurnLeft
from orchestrator.sessions import Session, Sessions, session_label
from orchestrator.support.threads import as_awaitable, in_thread
from orchestrator.support.user_code import hide_causes

if TYPE_CHECKING:
    from concurrent.futures import Future

    from orchestrator.sessions.journal import Record
    from orchestrator.sessions.rows import Append
    from orchestrator.support.lanes import Lanes

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5  # seconds between tries to open a turn

CarryOut = Callable[[Progress, Callable[[], tuple[Progress | None, Any]]], Progress | None]
"""Has an effect carried out: gets the effect that is about to be, and what does it.

That returns the next effect, or `None` at the turn's end, and the outcome of this one, or `None`
when it failed. When it returns, the outcome is in the journal, unless the next effect writes it.
"""


def begin_run(
    plan: Plan, sessions: Sessions, session: Session, request: Input, begun: bool = False
) -> Run | Reply:
    """A run to be driven, or the reply of a turn that had ended already.

    With `begun`, its turn has begun in the session. The run releases the session; so does a failure
    here.
    """
    try:
        if session.last_unread is not None:
            restore_history(plan, session)
        if begun:
            finished = None
            keep_plan(plan, sessions)  # it was, but what is kept may have been forgotten meanwhile
        else:
            finished = open_turn(plan, sessions, session, request)
        if finished is None:
            if session.last_unread is not None:  # a turn was abandoned
                restore_history(plan, session)
            run = Run(plan, sessions, session, request.session_id)
            run.guard_interval = request.guard_interval
            return run
        reply = rebuild_reply(plan, session, finished, request.session_id)
    except BaseException:
        sessions.release(session)
        raise
    sessions.release(session)
    return reply


def read_input(
    plan: Plan, sessions: Sessions, question: str, session_id: str | None, options: Options
) -> Input:
    """The checked input of an invocation.

    It may wait for files and for a memory's sessions: `aopen_run` calls it in a thread then.
    """
    if session_id is None:
        import uuid

        session_id = str(uuid.uuid4())
    if options:
        request = read_options(question, session_id, options)
    else:
        request = Input(question, session_id)
    request.check(plan.limits)
    if request.more:
        request.check_options()
    if plan.features.memory is not None:
        from orchestrator.agent.close_sessions import close_before

        close_before(plan, sessions, request)
    return request


def open_run(
    plan: Plan, sessions: Sessions, question: str, session_id: str | None, options: Options
) -> Run | Reply:
    """Opens the turn of an invocation; see `begin_run`."""
    return open_request(plan, sessions, read_input(plan, sessions, question, session_id, options))


def open_request(plan: Plan, sessions: Sessions, request: Input) -> Run | Reply:
    """`open_run`, of an input that has been read."""
    return _open_when_free(plan.limits.session_wait, partial(_open, plan, sessions, request))


async def aopen_run(
    plan: Plan, sessions: Sessions, question: str, session_id: str | None, options: Options
) -> Run | Reply:
    """`open_run`, for an event loop."""
    if plan.features.memory is not None:  # its store may block
        opening = partial(open_run, plan, sessions, question, session_id, options)
        return await _open_in_thread(opening)
    if options and may_block(options):
        reading = partial(read_input, plan, sessions, question, session_id, options)
        request = await as_awaitable(in_thread(reading))
    else:
        request = read_input(plan, sessions, question, session_id, options)
    wait = plan.limits.session_wait
    if wait is not None:
        return await _aopen_when_free(wait, partial(_aopen_request, plan, sessions, request))
    # A store in memory does not block.
    if sessions.durable:
        return await _aopen_request(plan, sessions, request)
    return _open(plan, sessions, request)


async def _aopen_request(plan: Plan, sessions: Sessions, request: Input) -> Run | Reply:
    lanes = sessions.lanes
    if lanes is None:
        return _open(plan, sessions, request)
    return await _open_in_lane(lanes, _Opening(plan, sessions, request))


def _open(plan: Plan, sessions: Sessions, request: Input) -> Run | Reply:
    if sessions.durable:
        return _Opening(plan, sessions, request).open()
    label = session_label(plan.owner, request.session_id)
    return begin_run(plan, sessions, sessions.acquire(label, plan.idle_ttl), request)


class _Opening:
    """The opening of a turn in a durable store."""

    # Also a `SharedCall`.
    __slots__ = ("_new", "_plan", "_request", "_session", "_turn", "label", "opened", "sessions")

    def __init__(self, plan: Plan, sessions: Sessions, request: Input) -> None:
        self._plan, self.sessions, self._request = plan, sessions, request
        self._new = NewTurn(plan, sessions, request)
        self._session: Session | None = None
        self._turn: Record | None = None  # its first record, unless it is written
        self.label = session_label(plan.owner, request.session_id)
        self.opened: Run | Reply | None = None

    def is_small(self) -> bool:
        return self._request.is_small

    def begin_at_once(self) -> bool:
        """Begins the turn if that is one append to a reserved store; whether it did."""
        if self._new.is_simple:
            ttl, build = self._plan.idle_ttl, self._new.build
            self._session = self.sessions.begin_at_once(self.label, ttl, build)
        return self._session is not None

    def prepare(self) -> Append | None:
        started = None
        if self._new.is_simple:
            ttl, build = self._plan.idle_ttl, self._new.build
            started = self.sessions.prepare_turn(self.label, ttl, build)
        if started is None:
            return None
        self._session, self._turn, append = started
        return append

    def take(self, append: Append) -> Run | Reply:
        if self._session is None or self._turn is None:
            raise AssertionError("the turn was not prepared")
        try:
            self.sessions.take_append(self._session, [self._turn], append)
        except BaseException:
            self.sessions.abandon(self._session)
            raise
        return self.open()

    def drop(self) -> None:
        if self._session is not None:
            self.sessions.release(self._session)
            self._session = None

    def make(self) -> Run | Reply:
        return self.open()

    def open(self) -> Run | Reply:
        """Opens the turn, or what is left to do of it."""
        plan, new, session = self._plan, self._new, self._session
        if session is None:
            build = new.build if new.is_simple else None
            session = self.sessions.acquire(self.label, plan.idle_ttl, build)
        begun = new.is_open_in(session)
        self.opened = begin_run(plan, self.sessions, session, self._request, begun)
        return self.opened


def finish_run(run: Run) -> Reply:
    """The reply of a run that was driven to its end.

    Raises:
        OrchestratorError: The turn failed; `error.reply` holds what it had done.
    """
    reply = reply_of(run)
    error: OrchestratorError | None = None
    if isinstance(run.result, Failure):
        error = run.result.error
    elif isinstance(run.result, ControlReturn) and run.result.undecided:
        from orchestrator.engine.undecided_calls import build_undecided_error

        error = build_undecided_error(run.log, run.session_id)
    if error is not None:
        error.reply = reply
        hide_causes(error)
        raise error
    return reply


def events(
    open_run: Callable[[], Run | Reply], *, waits: bool = False
) -> Generator[Event | None, None, None]:
    """The events of an invocation. Closing the generator cancels the turn.

    With `waits`, yields `None` once the turn has begun, before anything is spent. After a
    `TurnLeft` that is thrown in, the turn stays open.
    """
    run = open_run()
    if isinstance(run, Reply):
        yield from _last_events(last_events(run), waits)
        return
    run_events = RunEvents(run)
    with closing(watch_turn(run)) as progress:
        try:
            for item in progress:
                if waits:
                    waits = False
                    yield None
                yield from run_events.of(item)
        except TurnLeft:
            run.left = True
            raise
    yield from _last_events(run_events.rest(partial(finish_run, run)), waits)


def complete(run: Run) -> Reply:
    """The reply of a run that is driven to its end here; raises as `finish_run` does."""
    run_turn(run)
    return finish_run(run)


def complete_in_steps(run: Run, carry_out: CarryOut) -> Reply:
    """The reply of a run whose effects are carried out, one after the other, in `carry_out`.

    Raises:
        OrchestratorError: The turn failed; `error.reply` holds what it had done.
        TurnLeft: `carry_out` raised it: the turn stays open, for another process to go on with.
    """
    with closing(watch_effects(run)) as updates:
        try:
            progress = next(updates, None)
            while progress is not None:
                progress = carry_out(progress, partial(_find_next_effect, updates))
        except TurnLeft:
            run.left = True
            raise
    return finish_run(run)


def _find_next_effect(updates: Iterator[Progress]) -> tuple[Progress | None, Any]:
    outcome = None
    for progress in updates:
        if progress.outcome is None:
            return progress, outcome
        outcome = progress.outcome
    return None, outcome


async def aevents(
    open_run: Callable[[], Awaitable[Run | Reply]],
    *,
    waits: bool = False,
    listen: bool = True,
    stream_text: bool = True,
) -> AsyncGenerator[Event | None, None]:
    """`events`, for an event loop; unless somebody listens, only those that end the turn.

    Unless with `stream_text`, the answer is told at its end, and a guardrail checks it once.
    """
    run = await open_run()
    if isinstance(run, Reply):
        for event in _last_events(last_events(run), waits):
            yield event
        return
    run.replay.turn.is_told_whole = not stream_text
    run_events = RunEvents(run)
    async with load_async_driver().WatchedTurn(run, listen=listen) as turn:
        try:
            for item in turn.steps:
                if isinstance(item, str):  # as `of` does, without the call: the usual piece
                    run_events.said.append(item)
                    yield TextDelta(item)
                    continue
                if not isinstance(item, UPDATES) and (item := await turn.wait(item)) is None:
                    break
                if waits:
                    waits = False
                    yield None
                for event in run_events.of(item) if listen else ():
                    yield event
        except TurnLeft:
            run.left = True
            raise
    rest = run_events.rest(partial(finish_run, run)) if listen else _end_events(run)
    for event in _last_events(rest, waits):
        yield event


def _last_events(rest: Iterator[Event], waits: bool) -> Iterator[Event | None]:
    # Whoever still waits for the turn to begin is told so before its end.
    if waits:
        yield None
    yield from rest


def _end_events(run: Run) -> Iterator[Event]:
    yield from last_events(finish_run(run))


def _open_when_free(seconds: float | None, open_run: Callable[[], Run | Reply]) -> Run | Reply:
    """Opens a turn, after at most so many seconds if another invocation has its session."""
    for pause in _list_pauses(seconds):
        try:
            return open_run()
        except SessionBusy:
            time.sleep(pause)
    return open_run()


async def _aopen_when_free(
    seconds: float | None, open_run: Callable[[], Awaitable[Run | Reply]]
) -> Run | Reply:
    """`_open_when_free`, for an event loop."""
    import asyncio

    for pause in _list_pauses(seconds):
        try:
            return await open_run()
        except SessionBusy:
            await asyncio.sleep(pause)
    return await open_run()


# Between the tries: whoever has the session may be another process, which tells nobody.
def _list_pauses(seconds: float | None) -> Iterator[float]:
    if seconds is None:
        return
    until, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while (left := until - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(1.5 * pause, _LONGEST_PAUSE)


async def _open_in_lane(lanes: Lanes, opening: _Opening) -> Run | Reply:
    """Opens a turn at once, or in the session's lane."""
    key = opening.sessions.key(opening.label)
    try:
        if lanes.can_share:
            return await lanes.do_together(key, opening, opening.is_small, opening.begin_at_once)
        return await lanes.do_soon(key, opening.open, opening.is_small, opening.begin_at_once)
    except BaseException:
        # The caller was cancelled, and nobody else knows of the turn.
        if opening.opened is not None:
            await lanes.do(key, partial(_discard_run, opening.opened))
        raise


async def _open_in_thread(open_run: Callable[[], Run | Reply]) -> Run | Reply:
    """Opens a turn in a thread, because that may take long."""
    opening = in_thread(open_run)
    try:
        return await as_awaitable(opening)
    except BaseException:
        # Nobody waits for the turn any more: it is discarded as soon as it is open.
        opening.add_done_callback(_discard_opened)
        raise


def _discard_opened(opening: Future[Run | Reply]) -> None:
    if opening.exception() is None:
        _discard_run(opening.result())


def _discard_run(run: Run | Reply) -> None:
    if isinstance(run, Run):
        try:
            run.cancel()
        finally:
            run.close()


@cache
def load_async_driver() -> ModuleType:
    """The driver for an event loop."""
    # Imported when it is first used, and not looked for again: asyncio takes its time.
    from orchestrator.engine.run import event_loop

    return event_loop
