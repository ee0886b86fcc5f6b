"""The driver for an event loop; imported when it is first used, because asyncio takes its time."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import AsyncGenerator, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.driver.shared import (
    ModelCall,
    Progress,
    action_record,
    executor_of,
    failed_action,
    failure,
    note,
    perform,
    retrieve,
    timed_out,
    to_do,
)
from orchestrator.effects import LIVE, CallModel, Dispatch, Retrieve
from orchestrator.models.blocks import received
from orchestrator.run import Run
from orchestrator.sessions import Record
from orchestrator.threads import in_thread

__all__ = ["adrive"]

T = TypeVar("T")


async def adrive(run: Run, *, listen: bool) -> AsyncGenerator[str | Progress, None]:
    """`drive`, for an event loop."""
    try:
        step = run.begin()  # a turn of another version of the agent stays as it is
        try:
            while isinstance(step, LIVE):
                if listen:
                    yield Progress(step)
                try:
                    if not isinstance(step, CallModel):
                        outcome: Any = await _acarry_out(run, step)
                    elif listen:
                        outcome = None
                        async for item in _astream_model(run, step):
                            if isinstance(item, str):
                                yield item
                            else:
                                outcome = item
                    else:
                        outcome = await _acall_model(run, step)
                except Exception as error:
                    step = run.fail(failure(step, error), step)
                    continue
                if listen:
                    yield Progress(step, outcome)
                step = run.advance(step, outcome)
            run.finish(step)
        except BaseException:
            run.cancel()
            raise
    finally:
        run.close()


async def _acarry_out(run: Run, effect: Dispatch | Retrieve) -> Record | list[Record]:
    if isinstance(effect, Dispatch):
        return await _adispatch(run, effect)
    return await asyncio.wrap_future(in_thread(partial(retrieve, run, effect)))


async def _acall_model(run: Run, effect: CallModel) -> Record:
    stage, began = effect.stage, run.now()
    reply = await stage.model.acomplete(run.request(effect))
    reply.content = received(reply.content)
    return run.model_record(effect, reply, stage.new_parser().finish(reply.content), began)


async def _astream_model(run: Run, effect: CallModel) -> AsyncGenerator[str | Record, None]:
    call = ModelCall(run, effect)
    stream = effect.stage.model.astream(call.request)
    async with contextlib.aclosing(stream):  # type: ignore[type-var]
        async for item in stream:
            for text in call.take(item):
                yield text
    yield call.record(call.reply)


async def _adispatch(run: Run, effect: Dispatch) -> list[Record]:
    known, calls = to_do(run, effect)
    context = run.context()
    if len(calls) == 1:
        note(run, known, await _aperform(run, calls[0], context))
    else:
        gate = asyncio.Semaphore(run.plan.limits.parallel)

        async def gated(call: Call) -> None:
            async with gate:
                note(run, known, await _aperform(run, call, context))

        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(gated(call))
        except BaseExceptionGroup as failed:  # only the journal's store can fail here
            raise failed.exceptions[0] from None
    return [known[call.id] for call in effect.calls]


async def _aperform(run: Run, call: Call, context: CallContext) -> Record:
    acall = getattr(executor_of(run, call), "acall", None)
    seconds = run.plan.limits.action_seconds
    began = run.now()
    limit: asyncio.Timeout | None = None
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
            return action_record(call, await _rest(work, waits_for), began, run.now())
    except TimeoutError as error:
        late = timed_out(call, seconds) if limit is not None and limit.expired() else error
        return failed_action(run, call, late, began)
    except Exception as error:  # whatever an executor raises is its outcome
        return failed_action(run, call, error, began)


@types.coroutine
def _rest(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
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
