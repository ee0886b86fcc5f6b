"""The driver's backend for an event loop; imported when it is first used: asyncio takes time."""

from __future__ import annotations

import asyncio
import types
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Sequence,
)
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.engine.effects import CallModel
from orchestrator.engine.run.driver import (
    BranchEnded,
    Emit,
    Progress,
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
from orchestrator.engine.run.outcomes import StreamChecked, StreamedCall
from orchestrator.sessions import Record
from orchestrator.support.threads import in_thread

T = TypeVar("T")

_FAIR = 32  # pieces of a stream after which others have their turn


def run_turn(run: Run) -> Coroutine[Any, Any, None]:
    """Runs an invocation to its result, which `run.result` then holds."""
    return drive(run, _BACKEND)


async def watch_turn(run: Run, *, listen: bool) -> AsyncGenerator[Update, None]:
    """Runs an invocation to its result, and yields its updates; closing it stops the turn.

    Unless it listens, it yields no more than that the first effect is to be carried out.
    """
    work = drive(run, _BACKEND, hand_to_caller, listen)
    resume: Callable[[Any], Any] = work.send
    value: Any = None
    while True:
        try:
            item = resume(value)
        except (StopIteration, _Closed):
            return
        try:
            if isinstance(item, (str, Progress, BranchEnded, StreamChecked)):
                resume, value = work.send, (yield item)
            else:  # what the driver waits for is for the loop to see
                resume, value = work.send, await _suspend(item)
        except GeneratorExit:
            resume, value = work.throw, _Closed()
        except BaseException as error:  # it was cancelled
            resume, value = work.throw, error


class _Closed(BaseException):
    """Thrown into a driver whose updates nobody takes any more."""

    # A `GeneratorExit` would close the coroutines that it waits for; these could not wait, then,
    # for what they have to stop.


@types.coroutine
def _suspend(waits_for: Any) -> Generator[Any, Any, Any]:
    return (yield waits_for)


class _EventLoop:
    """See `Backend`. What a blocking store has to do is done in a thread."""

    async def complete(self, run: Run, effect: CallModel) -> Record:
        stage, began = effect.stage, run.now()
        reply = await self.in_time(run, stage.model.acomplete(run.request(effect)))
        parser = stage.new_parser()
        if parser.blocking:
            work = self.run_blocking(run.model_record, effect, reply, parser, began)
            return await self.in_time(run, work)
        return run.model_record(effect, reply, parser, began)

    async def stream(self, run: Run, call: StreamedCall, emit: Emit) -> Record:
        async def do(function: Callable[..., T], *arguments: Any) -> T:
            if call.may_block:
                return await self.in_time(run, self.run_blocking(function, *arguments))
            return function(*arguments)

        async with aclosing(call.model.astream(call.request)) as items:  # type: ignore[type-var]
            pieces = 0
            while (item := await self._next_item(run, items)) is not None:
                for text in await do(call.take, item):
                    await emit(text)
                pieces += 1
                if pieces % _FAIR == 0:  # a server may send faster than this loop reads
                    await asyncio.sleep(0)
        for text in await do(call.rest):
            await emit(text)
        return await do(call.record)

    async def _next_item(self, run: Run, items: AsyncIterator[T]) -> T | None:
        following: Any = items.__anext__()
        try:
            return await self.in_time(run, following)
        except StopAsyncIteration:
            return None

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
        if run.deadline is None:
            return await _resume(work, waits_for)
        limit = asyncio.timeout(max(run.deadline - run.now(), 0) / 1e9)
        try:
            async with limit:
                return await _resume(work, waits_for)
        except TimeoutError:
            if limit.expired():
                raise run.build_timeout_error() from None
            raise

    async def write(self, run: Run, work: Callable[..., T], *arguments: Any) -> T:
        # One lane a session: its records are written in order, and a slow disk stops no loop.
        lanes = run.sessions.lanes
        if lanes is None:
            return work(*arguments)
        if run.writes_little(arguments):
            reserved = lanes.reserve(run.session.key)
            if reserved is not None:
                with reserved:
                    return work(*arguments)
        return await lanes.do(run.session.key, partial(work, *arguments))

    def perform(self, run: Run, call: Call, context: CallContext) -> Coroutine[Any, Any, Record]:
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
                await take(await _perform(run, call, context))

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


async def _perform(run: Run, call: Call, context: CallContext) -> Record:
    # An executor with `acall` runs in the loop; any other one blocks, and gets a thread.
    acall = getattr(run.plan.catalog.executor(call.operation), "acall", None)
    seconds = run.plan.limits.action_seconds
    began = run.now()
    limit: asyncio.Timeout | None = None
    blocking = None
    try:
        if acall is not None:
            work: Coroutine[Any, Any, ActionResult] = acall(call, context)
            try:
                waits_for = work.send(None)
            except StopIteration as stop:  # it had nothing to wait for: no timer is needed
                return action_record(call, stop.value, began, run.now())
        async with asyncio.timeout(seconds) as limit:
            if acall is None:
                blocking = in_thread(partial(perform, run, call, context))
                return await asyncio.wrap_future(blocking)
            return action_record(call, await _resume(work, waits_for), began, run.now())
    except TimeoutError as error:
        if limit is not None and limit.expired():
            return build_late_record(run, call, began, blocking)
        return build_failed_action_record(run, call, error, began)
    except Exception as error:  # whatever an executor raises is its outcome
        return build_failed_action_record(run, call, error, began)


@types.coroutine
def _resume(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that was run until it first waited."""
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # it was cancelled
                waits_for = work.throw(error)
            else:
                waits_for = work.send(sent)
    except StopIteration as stop:
        result: T = stop.value
        return result
