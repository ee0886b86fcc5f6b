"""The driver's backend for an event loop; imported when it is first used: asyncio takes time."""

from __future__ import annotations

import asyncio
import types
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Sequence,
)
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Self, TypeVar, cast

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.engine.effects import CallModel
from orchestrator.engine.run.driver import (
    UPDATES,
    Emit,
    Pending,
    Update,
    Work,
    build_failed_action_record,
    build_late_record,
    drive,
    hand_to_caller,
    perform,
)
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.model_calls import build_request, parse_reply, read_reply
from orchestrator.engine.run.outcomes import StreamChecked, StreamedCall
from orchestrator.engine.run.shared_writes import share_work
from orchestrator.engine.run.turn_records import action_record
from orchestrator.message import Block, clean
from orchestrator.models.base import ModelReply
from orchestrator.parsers.base import ANSWER
from orchestrator.sessions import Record
from orchestrator.support.threads import in_thread
from orchestrator.support.time_limit import TimeLimit

T = TypeVar("T")

_FAIR = 32  # pieces of a stream after which others have their turn
_LONG = 32 * 1024  # characters of a reply that take as long to read as a thread takes to begin


def run_turn(run: Run) -> Coroutine[Any, Any, None]:
    """Runs an invocation to its result, which `run.result` then holds."""
    return drive(run, _BACKEND)


class WatchedTurn:
    """An invocation on its way to its result, for whoever takes its updates; leaving it stops it.

    It is no asynchronous generator, since there is one above it: a token that streams through one
    more pays for it, as much as the parser takes to read it.

    Attributes:
        steps: The updates, and what the driver waits for between them, which `wait` takes. Unless
            somebody listens, the only update is that the first effect is to be carried out.
    """

    __slots__ = ("_work", "steps")

    def __init__(self, run: Run, *, listen: bool) -> None:
        work = drive(run, _BACKEND, hand_to_caller, listen)
        self._work = cast("types.CoroutineType[Any, Any, None]", work)
        self.steps: Generator[Any, None, None] = work.__await__()

    def wait(self, waits_for: Any) -> Awaitable[Update | None]:
        """Has the event loop wait for what the driver waits for.

        Returns the next update; `None` when the turn has ended.
        """
        return _resume(self._work, waits_for, UPDATES)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        if not self._work.cr_suspended:  # it has ended
            return
        with suppress(_Closed, StopIteration):
            step: Any = self.steps.throw(_Closed())
            # What it still has to wait for is waited for; an update nobody takes any more.
            while isinstance(step, UPDATES) or (step := await self.wait(step)) is not None:
                step = self.steps.throw(_Closed())


class _Closed(BaseException):
    """Thrown into work that nobody waits for any more."""

    # A `GeneratorExit` would close the coroutines that it waits for; these could not wait, then,
    # for what they have to stop, and a model's stream would count as still being read.


class _EventLoop:
    """See `Backend`. What a blocking store has to do is done in a thread."""

    def complete(self, run: Run, effect: CallModel) -> Pending[Record]:
        stage, began = effect.stage, run.now()
        work: Coroutine[Any, Any, ModelReply] = stage.model.acomplete(
            build_request(run, effect, began)
        )
        try:
            waits_for = work.send(None)
        except StopIteration as stop:
            record = read_reply(run, effect, stop.value, began)
            return record if "ended" in record else self._parse(run, effect, record)
        return self._complete_later(run, effect, _resume(work, waits_for), began)

    async def _complete_later(
        self, run: Run, effect: CallModel, rest: Generator[Any, Any, ModelReply], began: int
    ) -> Record:
        reply = await _wait_in_time(run, _find_limit(run), rest)
        record = read_reply(run, effect, reply, began)
        if "ended" in record:
            return record
        parsed = self._parse(run, effect, record)
        return parsed if isinstance(parsed, dict) else await parsed

    def _parse(self, run: Run, effect: CallModel, record: Record) -> Pending[Record]:
        parser = effect.stage.new_parser()
        if parser.blocking or _is_long(record["content"]):
            return self.in_time(run, self.run_blocking(parse_reply, run, record, parser))
        return parse_reply(run, record, parser)

    async def stream(self, run: Run, call: StreamedCall, emit: Emit) -> Record:
        async def do(function: Callable[..., T], *arguments: Any) -> T:
            if call.may_block:
                return await self.in_time(run, self.run_blocking(function, *arguments))
            return function(*arguments)

        async with aclosing(call.model.astream(call.request)) as items:  # type: ignore[type-var]
            await self._show_pieces(run, _read_pieces(call, items, self.run_blocking), emit)
        for text in await do(call.rest):
            await emit(text)
        return await do(call.record)

    @types.coroutine
    def _show_pieces(
        self, run: Run, reading: Generator[Any, Any, Any], emit: Emit
    ) -> Generator[Any, Any, None]:
        """Emits the pieces of a reply, and waits for the others as long as the turn has time."""
        is_taken_here = emit is hand_to_caller
        left = _FAIR  # pieces that may still come without a wait between them
        limit: TimeLimit | None = None
        for step in reading:
            if not isinstance(step, _SHOWN):
                limit = limit or _find_limit(run)
                step = yield from _wait_in_time(run, limit, _resume(reading, step, _SHOWN))
                if step is None:
                    break
                left = _FAIR
            if step:
                if is_taken_here:  # as `emit` does, without a generator for each piece
                    yield step
                else:
                    yield from emit(step).__await__()
            left -= 1
            if not left:  # a server may send faster than this loop reads
                yield from asyncio.sleep(0).__await__()
                left = _FAIR

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        work = partial(function, *arguments)
        return await asyncio.wrap_future(in_thread(work, at_once=False))

    async def in_time(self, run: Run, work: Coroutine[Any, Any, T]) -> T:
        # Actions are not cut like that: each has a time of its own, and nobody would know its
        # effect.
        try:
            waits_for = work.send(None)
        except StopIteration as stop:  # it had nothing to wait for: no timer is needed
            result: T = stop.value
            return result
        limit = _begin_limit(run)  # of its own: others of this turn may wait beside it
        try:
            return await _wait_in_time(run, limit, _resume(work, waits_for))
        finally:
            if limit is not None:
                limit.end()

    def write(self, run: Run, work: Callable[..., T], *arguments: Any) -> Coroutine[Any, Any, T]:
        # One lane a session: its records are written one by one, and a slow disk stops no loop.
        lanes = run.sessions.lanes
        if lanes is None:
            return _call(work, *arguments)
        is_small = partial(run.writes_little, arguments)
        call: Any = share_work(run, work, arguments) if lanes.can_share else None
        if call is not None:
            return lanes.do_together(run.session.key, call, is_small)
        return lanes.do_soon(run.session.key, partial(work, *arguments), is_small)

    def perform(self, run: Run, call: Call, context: CallContext) -> Pending[Record]:
        # An executor with `acall` runs in the loop; any other one blocks, and gets a thread.
        began = run.now()
        acall = getattr(run.plan.catalog.executor(call.operation), "acall", None)
        if acall is None:
            return _perform_later(run, call, context, began, None)
        work: Coroutine[Any, Any, ActionResult] = acall(call, context)
        try:
            waits_for = work.send(None)
        except StopIteration as stop:  # it had nothing to wait for: no timer is needed
            return action_record(call, stop.value, began, run.now())
        except Exception as error:  # whatever an executor raises is its outcome
            return build_failed_action_record(run, call, error, began)
        return _perform_later(run, call, context, began, _resume(work, waits_for))

    async def perform_all(
        self,
        run: Run,
        calls: Sequence[Call],
        context: CallContext,
        take: Callable[[Record], Awaitable[None]],
    ) -> None:
        gate = asyncio.Semaphore(run.plan.limits.parallel)

        async def perform_gated(call: Call) -> None:
            async with gate:
                record = self.perform(run, call, context)
                await take(record if isinstance(record, dict) else await record)

        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(perform_gated(call))
        except BaseExceptionGroup as failed:  # only the journal's store can fail here
            raise failed.exceptions[0] from None

    async def run_side_by_side(self, works: Sequence[Work], most: int, emit: Emit | None) -> None:
        items: asyncio.Queue[Update | asyncio.Task[None]] = asyncio.Queue()
        gate = asyncio.Semaphore(most)

        async def put(update: Update) -> None:
            items.put_nowait(update)

        async def do(work: Work) -> None:
            async with gate:
                await work(put if emit is not None else None)

        tasks = [asyncio.create_task(do(work)) for work in works]
        for task in tasks:
            task.add_done_callback(items.put_nowait)
        try:
            running = len(tasks)
            while running:
                item = await items.get()
                if isinstance(item, asyncio.Task):
                    running -= 1
                    item.result()
                elif emit is not None:
                    await emit(item)
        finally:
            # Nobody may still write to the journal when the turn's own end is written.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


_BACKEND = _EventLoop()


async def _call(work: Callable[..., T], *arguments: Any) -> T:
    return work(*arguments)


async def _perform_later(
    run: Run,
    call: Call,
    context: CallContext,
    began: int,
    work: Coroutine[Any, Any, ActionResult] | None,
) -> Record:
    limit: asyncio.Timeout | None = None
    blocking = None
    try:
        async with asyncio.timeout(run.plan.limits.action_seconds) as limit:
            if work is None:
                blocking = in_thread(partial(perform, run, call, context))
                return await asyncio.wrap_future(blocking)
            return action_record(call, await work, began, run.now())
    except TimeoutError as error:
        if limit is not None and limit.expired():
            return build_late_record(run, call, began, blocking)
        return build_failed_action_record(run, call, error, began)
    except Exception as error:  # whatever an executor raises is its outcome
        return build_failed_action_record(run, call, error, began)


_SHOWN = (str, StreamChecked)
_SILENT = (("", ""),)  # what a parser says of a piece that it says nothing of


@types.coroutine
def _read_pieces(
    call: StreamedCall,
    items: AsyncIterator[str | ModelReply],
    run_blocking: Callable[..., Coroutine[Any, Any, Sequence[str | StreamChecked]]],
) -> Generator[Any, Any, None]:
    """What may be shown of a reply, empty texts for what may not, and what it waits for.

    So what is there already is taken without a coroutine, and without a timer.
    """
    following: Callable[[], Any] = items.__anext__
    feed, take, may_block = call.feed, call.take, call.may_block
    with suppress(StopAsyncIteration):
        while True:
            item = yield from following()
            if feed is not None and isinstance(item, str):
                for kind, text in feed(item if item.isascii() else clean(item)) or _SILENT:
                    yield text if kind == ANSWER else ""
            elif may_block:
                yield from (yield from run_blocking(take, item).__await__()) or ("",)
            else:
                yield from take(item) or ("",)


def _find_limit(run: Run) -> TimeLimit | None:
    # Of the waits for the turn's models, one after the other: one timer serves all of them. With
    # one for each, a token of a server's stream took nearly twice the time (measured).
    if run.time_limit is None:
        run.time_limit = _begin_limit(run)
    return run.time_limit


def _begin_limit(run: Run) -> TimeLimit | None:
    if run.deadline is None:
        return None
    left = max(run.deadline - run.now(), 0) / 1e9
    return TimeLimit(asyncio.get_running_loop().time() + left)


@types.coroutine
def _wait_in_time(
    run: Run, limit: TimeLimit | None, rest: Generator[Any, Any, T]
) -> Generator[Any, Any, T]:
    """Waits for a work; raises `LimitExceeded` when the turn's time is over before."""
    if limit is None:
        return (yield from rest)
    try:
        with limit:
            return (yield from rest)
    except TimeoutError:
        if limit.expired:
            raise run.build_timeout_error() from None
        raise


def _is_long(blocks: Sequence[Block]) -> bool:
    return sum(len(block.get("text", "")) for block in blocks) > _LONG


@types.coroutine
def _resume(
    work: Coroutine[Any, Any, T] | Generator[Any, Any, T],
    waits_for: Any,
    until: type | tuple[type, ...] = (),
) -> Generator[Any, Any, T]:
    """Runs the rest of a work that waits for `waits_for`; returns its result.

    With `until` it goes no further than to the next thing of these types that the work hands out,
    and returns that.
    """
    try:
        while not isinstance(waits_for, until):
            try:
                sent = yield waits_for
            except GeneratorExit:
                waits_for = _close(work)
            except BaseException as error:  # it was cancelled
                waits_for = work.throw(error)
            else:
                waits_for = work.send(sent)
    except StopIteration as stop:
        waits_for = stop.value
    reached: T = waits_for
    return reached


def _close(work: Coroutine[Any, Any, T] | Generator[Any, Any, T]) -> Any:
    try:
        return work.throw(_Closed())
    except _Closed:
        raise GeneratorExit from None
