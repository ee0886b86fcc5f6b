"""The driver for an event loop; imported when it is first used, because asyncio takes its time."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from threading import RLock
from typing import Any, TypeVar

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.engine.effects import (
    LIVE,
    Branch,
    CallModel,
    Collaborate,
    Dispatch,
    Effect,
    Guard,
    Live,
    Orchestrate,
    Result,
    Retrieve,
)
from orchestrator.engine.iterations import (
    branch_run,
    build_skipped_record,
    most_at_once,
    prepare_branches,
)
from orchestrator.engine.run.branches import Lock
from orchestrator.engine.run.driver.shared import (
    BranchEnded,
    ModelCall,
    Progress,
    Told,
    action_record,
    build_failed_action_record,
    build_timeout_error,
    failure,
    find_pending_calls,
    guard,
    orchestrate,
    perform,
    record_outcome,
    retrieve,
    run_remote_branch,
)
from orchestrator.engine.run.invocation import Run
from orchestrator.models.base import ModelReply
from orchestrator.models.blocks import normalise_blocks
from orchestrator.sessions import Record
from orchestrator.support.threads import in_thread

__all__ = ["adrive", "arun"]

T = TypeVar("T")


async def arun(run: Run) -> None:
    """Runs an invocation to its result, where nobody listens: `adrive` without its generator.

    An event loop keeps a list of its generators, and so has work with each.
    """
    blocks = run.sessions.durable
    try:
        step = run.begin()  # a turn of another version of the agent stays as it is
        try:
            while isinstance(step, LIVE):
                try:
                    if isinstance(step, CallModel):
                        outcome: Any = await _acall_model(run, step)
                    else:
                        outcome = await _arun_effect(run, step)
                except Exception as error:
                    step = run.fail(failure(step, error), step)
                    continue
                step = await _advance(run, step, outcome) if blocks else run.advance(step, outcome)
            await _finish(run, step)
        except BaseException:
            await _run_in_lane(run, run.cancel)
            raise
    finally:
        run.close()


def _arun_effect(run: Run, effect: Live) -> Coroutine[Any, Any, Any]:
    """Carries an effect out, and tells nothing of it."""
    if isinstance(effect, CallModel):
        return _acall_model(run, effect)
    if isinstance(effect, Collaborate):
        return _drain(_acollaborate(run, effect, False))
    return _acarry_out(run, effect)


async def _drain(items: AsyncGenerator[Any, None]) -> Any:
    last = None
    async with contextlib.aclosing(items):
        async for item in items:
            last = item
    return last


async def adrive(run: Run, *, listen: bool) -> AsyncGenerator[Told, None]:
    """`drive`, for an event loop; what a blocking store has to do is done in a thread.

    When nobody listens it tells no more than that the first effect is to be carried out.
    """
    blocks, tells = run.sessions.durable, True
    try:
        step = run.begin()  # a turn of another version of the agent stays as it is
        try:
            while isinstance(step, LIVE):
                if tells:
                    tells = listen
                    yield Progress(step, run)
                try:
                    if not listen:
                        outcome = await _arun_effect(run, step)
                    elif isinstance(step, (CallModel, Collaborate)):
                        outcome = None
                        async with contextlib.aclosing(_astream_effect(run, step)) as items:
                            async for outcome in items:
                                if isinstance(outcome, (str, Progress, BranchEnded)):
                                    yield outcome
                    else:
                        outcome = await _acarry_out(run, step)
                except Exception as error:
                    step = run.fail(failure(step, error), step)
                    continue
                if listen:
                    yield Progress(step, run, outcome)
                step = await _advance(run, step, outcome) if blocks else run.advance(step, outcome)
            await _finish(run, step)
        except BaseException:
            await _run_in_lane(run, run.cancel)
            raise
    finally:
        run.close()


async def _advance(run: Run, effect: Effect, outcome: Any) -> Live | Result:
    following = run.take(effect, outcome)
    if run.owes(following):
        await _run_in_lane(run, run.flush)
    return run.in_time(following)


async def _finish(run: Run, result: Result) -> None:
    if run.plan.memory_stage is not None:
        works = run.memory_work(result)
        while (work := await _run_in_lane(run, next, works, None)) is not None:
            await _run_in_thread(work)
    if run.sessions.durable:
        await _run_in_lane(run, run.finish, result)
    else:
        run.finish(result)


async def _run_in_lane(run: Run, work: Callable[..., T], *arguments: Any) -> T:
    """Does what may write to the journal: in the session's lane, if its store blocks."""
    lanes = run.sessions.lanes
    if lanes is None:
        return work(*arguments)
    return await lanes.do(run.session.key, partial(work, *arguments))


def _astream_effect(
    run: Run, effect: CallModel | Collaborate
) -> AsyncGenerator[Told | Record | list[Record], None]:
    """What can be told of an effect while it is carried out, and its outcome at last."""
    if isinstance(effect, CallModel):
        return _items_in_time(run, _astream_model(run, effect))
    return _acollaborate(run, effect, True)


def _acarry_out(
    run: Run, effect: Dispatch | Retrieve | Guard | Orchestrate
) -> Coroutine[Any, Any, Record | list[Record]]:
    if isinstance(effect, Dispatch):
        return _adispatch(run, effect)
    if isinstance(effect, Retrieve):
        return _whole_in_time(run, _run_in_thread(retrieve, run, effect))
    if isinstance(effect, Orchestrate):
        return _whole_in_time(run, _run_in_thread(orchestrate, run, effect))
    return _whole_in_time(run, _run_in_thread(guard, run, effect))


async def _run_in_thread(function: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.wrap_future(in_thread(partial(function, *arguments)))


async def _acall_model(run: Run, effect: CallModel) -> Record:
    stage, began = effect.stage, run.now()
    work = stage.model.acomplete(run.request(effect))
    try:
        waits_for = work.send(None)
    except StopIteration as stop:  # it had nothing to wait for: no timer is needed
        reply: ModelReply = stop.value
    else:
        reply = await _in_time(run, work, waits_for)
    reply.content = normalise_blocks(reply.content)
    parser = stage.new_parser()
    if parser.blocking:
        parsed = await _whole_in_time(run, _run_in_thread(parser.finish, reply.content))
    else:
        parsed = parser.finish(reply.content)
    return run.model_record(effect, reply, parsed, began)


async def _astream_model(
    run: Run, effect: CallModel
) -> AsyncGenerator[Told | Record | list[Record], None]:
    call = ModelCall(run, effect)
    stream = effect.stage.model.astream(call.request)
    async with contextlib.aclosing(stream):  # type: ignore[type-var]
        async for item in stream:
            for text in (
                await _run_in_thread(call.take, item) if call.may_block else call.take(item)
            ):
                yield text
    if call.may_block:
        for text in await _run_in_thread(call.rest):
            yield text
        yield await _run_in_thread(call.record, call.reply)
    else:
        for text in call.rest():
            yield text
        yield call.record(call.reply)


async def _acollaborate(
    run: Run, effect: Collaborate, listen: bool
) -> AsyncGenerator[Told | Record | list[Record], None]:
    """Yields what collaborators do, and at last the list of their outcomes."""
    known, lock = run.replay.take_known_branches(effect), RLock()
    items: asyncio.Queue[Told | asyncio.Task[None]] = asyncio.Queue()
    gate = asyncio.Semaphore(most_at_once(run, effect))
    prepare_branches(run, effect, known)

    async def work(branch: Branch) -> None:
        async with gate:
            if stopped := build_skipped_record(run, branch, effect):
                known[branch.id] = stopped
                return
            record = await _arun_branch(run, branch, lock, effect, items if listen else None)
            known[branch.id] = record
            if listen and "control" not in record:
                items.put_nowait(BranchEnded(effect, run, branch, record))

    left = [branch for branch in effect.branches if branch.id not in known]
    tasks = [asyncio.create_task(work(branch)) for branch in left]
    for task in tasks:
        task.add_done_callback(items.put_nowait)
    try:
        running = len(tasks)
        while running:
            item = await items.get()
            if isinstance(item, asyncio.Task):
                running -= 1
                item.result()
            elif effect.live or not isinstance(item, str):
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    yield [known[branch.id] for branch in effect.branches]


async def _arun_branch(
    run: Run, branch: Branch, lock: Lock, effect: Collaborate, items: asyncio.Queue[Any] | None
) -> Record:
    if branch.collaborator.agent is None:
        record = await _whole_in_time(run, _run_in_thread(run_remote_branch, run, branch))
        await _run_in_lane(run, run.write, [record])
        return record
    work = branch_run(run, branch, lock, effect)
    if items is None:
        await arun(work)
        return work.outcome
    async with contextlib.aclosing(adrive(work, listen=True)) as progress:
        async for item in progress:
            items.put_nowait(branch.forward(item))
    return work.outcome


async def _adispatch(run: Run, effect: Dispatch) -> list[Record]:
    blocks = run.sessions.durable
    known, calls = (
        await _run_in_lane(run, find_pending_calls, run, effect)
        if blocks
        else find_pending_calls(run, effect)
    )
    context = run.context()
    if len(calls) == 1:
        record = await _aperform(run, calls[0], context)
        if blocks:
            await _run_in_lane(run, record_outcome, run, known, record)
        else:
            record_outcome(run, known, record)
    else:
        gate = asyncio.Semaphore(run.plan.limits.parallel)

        async def perform_gated(call: Call) -> None:
            async with gate:
                await _run_in_lane(
                    run, record_outcome, run, known, await _aperform(run, call, context)
                )

        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(perform_gated(call))
        except BaseExceptionGroup as failed:  # only the journal's store can fail here
            raise failed.exceptions[0] from None
    return [*known.values()] if len(known) == 1 else [known[call.id] for call in effect.calls]


async def _aperform(run: Run, call: Call, context: CallContext) -> Record:
    acall = getattr(run.plan.catalog.executor(call.operation), "acall", None)
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
            return action_record(call, await _resume(work, waits_for), began, run.now())
    except TimeoutError as error:
        late = (
            build_timeout_error(call, seconds) if limit is not None and limit.expired() else error
        )
        return build_failed_action_record(run, call, late, began)
    except Exception as error:  # whatever an executor raises is its outcome
        return build_failed_action_record(run, call, error, began)


async def _in_time(run: Run, work: Coroutine[Any, Any, T], waits_for: Any) -> T:
    """The rest of a coroutine that waits, as long as the turn's time is not over.

    Actions are not cut like that: each has a time of its own, and nobody would know its effect.

    Raises:
        LimitExceeded: The time was over before.
    """
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


async def _whole_in_time(run: Run, work: Coroutine[Any, Any, T]) -> T:
    try:
        waits_for = work.send(None)
    except StopIteration as stop:
        found: T = stop.value
        return found
    return await _in_time(run, work, waits_for)


async def _items_in_time(run: Run, items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    async with contextlib.aclosing(items):
        while True:
            try:
                item = await _whole_in_time(run, items.__anext__())
            except StopAsyncIteration:
                return
            yield item


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
