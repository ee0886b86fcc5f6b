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
    action_record,
    build_failed_action_record,
    build_late_record,
    drive,
    hand_to_caller,
    perform,
)
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.outcomes import StreamedCall
from orchestrator.models.base import ModelReply
from orchestrator.sessions import Record
from orchestrator.support.threads import in_thread

T = TypeVar("T")

_FAIR = 32  # pieces of a stream after which others have their turn


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
        work: Coroutine[Any, Any, ModelReply] = stage.model.acomplete(run.request(effect))
        try:
            waits_for = work.send(None)
        except StopIteration as stop:
            return self._read(run, effect, stop.value, began)
        rest = self._wait_in_time(run, _resume(work, waits_for))
        return self._complete_later(run, effect, rest, began)

    async def _complete_later(
        self, run: Run, effect: CallModel, work: Coroutine[Any, Any, ModelReply], began: int
    ) -> Record:
        record = self._read(run, effect, await work, began)
        return record if isinstance(record, dict) else await record

    def _read(self, run: Run, effect: CallModel, reply: ModelReply, began: int) -> Pending[Record]:
        record = run.model_record(effect, reply, began)
        if not run.needs_parser(effect, record):
            return run.end_call(record)
        parser = effect.stage.new_parser()
        if parser.blocking:
            return self.in_time(run, self.run_blocking(run.parse, record, parser))
        return run.parse(record, parser)

    async def stream(self, run: Run, call: StreamedCall, emit: Emit) -> Record:
        async def do(function: Callable[..., T], *arguments: Any) -> T:
            if may_block:
                return await self.in_time(run, self.run_blocking(function, *arguments))
            return function(*arguments)

        take, may_block = call.take, call.may_block
        async with aclosing(call.model.astream(call.request)) as items:  # type: ignore[type-var]
            unbroken = 0  # pieces that came without a wait between them
            reading = _read(items)
            for step in reading:
                if type(step) is not tuple:
                    step = await self._wait_in_time(run, _resume(reading, step, tuple))
                    if step is None:
                        break
                    unbroken = 0
                item = step[0]
                for text in await do(take, item) if may_block else take(item):
                    await emit(text)
                unbroken += 1
                if unbroken == _FAIR:  # a server may send faster than this loop reads
                    await asyncio.sleep(0)
                    unbroken = 0
        for text in await do(call.rest):
            await emit(text)
        return await do(call.record)

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
        return await self._wait_in_time(run, _resume(work, waits_for))

    async def _wait_in_time(self, run: Run, rest: Awaitable[T]) -> T:
        if run.deadline is None:
            return await rest
        limit = asyncio.timeout(max(run.deadline - run.now(), 0) / 1e9)
        try:
            async with limit:
                return await rest
        except TimeoutError:
            if limit.expired():
                raise run.build_timeout_error() from None
            raise

    async def write(self, run: Run, work: Callable[..., T], *arguments: Any) -> T:
        # One lane a session: its records are written in order, and a slow disk stops no loop.
        lanes = run.sessions.lanes
        if lanes is None:
            return work(*arguments)
        return await lanes.do(run.session.key, partial(work, *arguments))

    def perform(self, run: Run, call: Call, context: CallContext) -> Pending[Record]:
        return _perform(run, call, context)

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
                record = _perform(run, call, context)
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


def _perform(run: Run, call: Call, context: CallContext) -> Pending[Record]:
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


@types.coroutine
def _read(items: AsyncIterator[T]) -> Generator[Any, Any, None]:
    """The items, each in a tuple, and between them what the iterator waits for.

    So what is there already is taken without a coroutine, and without a timer.
    """
    following: Callable[[], Any] = items.__anext__
    with suppress(StopAsyncIteration):
        while True:
            yield ((yield from following()),)


@types.coroutine
def _resume(
    work: Coroutine[Any, Any, T] | Generator[Any, Any, T],
    waits_for: Any,
    until: type | tuple[type, ...] = (),
) -> Generator[Any, Any, T]:
    """The rest of a work that was run until it waited: its result.

    With `until` only what comes before it suspends with something of these types: that.
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
