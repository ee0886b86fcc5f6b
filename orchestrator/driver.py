"""Carries a turn's effects out: one driver for threads, one for an event loop.

Both are generators of progress: pieces of the answer as it streams, and each effect before and
after it was carried out. Draining one is a whole invocation; closing one stops the work and writes
down that the turn was cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

from orchestrator.actions import ReturnControl
from orchestrator.actions.base import ActionResult, Call, CallContext, Executor
from orchestrator.carrying import (
    action_record,
    failed_action,
    in_thread,
    retrieved_record,
    timed_out,
)
from orchestrator.effects import CallModel, Dispatch, Effect, Live, Retrieve
from orchestrator.errors import DependencyFailed, OrchestratorError
from orchestrator.message import clean
from orchestrator.models.base import ModelReply
from orchestrator.models.blocks import received
from orchestrator.parsers.base import ANSWER
from orchestrator.run import Run
from orchestrator.sessions import Record

__all__ = ["Progress", "adrive", "drive"]


@dataclass(slots=True)
class Progress:
    """An effect that is about to be carried out (`outcome` is `None`), or that was.

    Attributes:
        effect: The effect.
        outcome: Its outcome: a journal record, or a list of them for calls.
    """

    effect: Effect
    outcome: Any = None


def drive(run: Run, *, listen: bool) -> Generator[str | Progress, None, None]:
    """Runs an invocation to its result, which `run.result` then holds.

    Args:
        run: The invocation.
        listen: Whether to stream models and to yield progress.

    Yields:
        Pieces of the answer's text, and progress.
    """
    try:
        step = run.begin()
        while isinstance(step, (CallModel, Dispatch, Retrieve)):
            if listen:
                yield Progress(step)
            try:
                if listen and isinstance(step, CallModel):
                    outcome: Any = yield from _stream_model(run, step)
                else:
                    outcome = _carry_out(run, step)
            except OrchestratorError as error:
                step = run.fail(error, step)
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


async def adrive(run: Run, *, listen: bool) -> AsyncGenerator[str | Progress, None]:
    """`drive`, for an event loop."""
    try:
        step = run.begin()
        while isinstance(step, (CallModel, Dispatch, Retrieve)):
            if listen:
                yield Progress(step)
            try:
                if listen and isinstance(step, CallModel):
                    outcome: Any = None
                    async for item in _astream_model(run, step):
                        if isinstance(item, str):
                            yield item
                        else:
                            outcome = item
                else:
                    outcome = await _acarry_out(run, step)
            except OrchestratorError as error:
                step = run.fail(error, step)
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


def _carry_out(run: Run, effect: Live) -> Record | list[Record]:
    if isinstance(effect, CallModel):
        return _call_model(run, effect)
    return _dispatch(run, effect) if isinstance(effect, Dispatch) else _retrieve(run, effect)


async def _acarry_out(run: Run, effect: Live) -> Record | list[Record]:
    if isinstance(effect, CallModel):
        return await _acall_model(run, effect)
    if isinstance(effect, Dispatch):
        return await _adispatch(run, effect)
    return await asyncio.wrap_future(in_thread(partial(_retrieve, run, effect)))


def _call_model(run: Run, effect: CallModel) -> Record:
    stage, began = effect.stage, run.now()
    reply = stage.model.complete(run.request(effect))
    reply.content = received(reply.content)
    return run.model_record(effect, reply, stage.new_parser().finish(reply.content), began)


async def _acall_model(run: Run, effect: CallModel) -> Record:
    stage, began = effect.stage, run.now()
    reply = await stage.model.acomplete(run.request(effect))
    reply.content = received(reply.content)
    return run.model_record(effect, reply, stage.new_parser().finish(reply.content), began)


def _stream_model(run: Run, effect: CallModel) -> Generator[str, None, Record]:
    call = _ModelCall(run, effect)
    stream = effect.stage.model.stream(call.request)
    with contextlib.closing(stream):  # type: ignore[type-var]
        for item in stream:
            yield from call.take(item)
    return call.record(call.reply)


async def _astream_model(run: Run, effect: CallModel) -> AsyncGenerator[str | Record, None]:
    call = _ModelCall(run, effect)
    stream = effect.stage.model.astream(call.request)
    async with contextlib.aclosing(stream):  # type: ignore[type-var]
        async for item in stream:
            for text in call.take(item):
                yield text
    yield call.record(call.reply)


class _ModelCall:
    # One streamed model call: its request, its parser, and the reply when it is whole.
    __slots__ = ("_began", "_effect", "_parser", "_run", "reply", "request")

    def __init__(self, run: Run, effect: CallModel) -> None:
        self._run = run
        self._effect = effect
        self._parser = effect.stage.new_parser()
        self._began = run.now()
        self.request = run.request(effect)
        self.reply: ModelReply | None = None

    def take(self, item: str | ModelReply) -> list[str]:
        """Takes a streamed item; returns the pieces of the answer that may be shown."""
        if not isinstance(item, str):
            self.reply = item
            return []
        pieces = self._parser.feed(clean(item))
        if not self._effect.live:
            return []
        return [text for kind, text in pieces if kind == ANSWER]

    def record(self, reply: ModelReply | None) -> Record:
        """The journal record of the whole reply."""
        if reply is None:
            model_id = self._effect.stage.model.model_id
            raise DependencyFailed(
                f"the stream of model {model_id!r} ended before its reply was whole; try again",
                resource=model_id,
            )
        reply.content = received(reply.content)
        parsed = self._parser.finish(reply.content)
        return self._run.model_record(self._effect, reply, parsed, self._began)


def _retrieve(run: Run, effect: Retrieve) -> Record:
    began = run.now()
    base = run.plan.knowledge_bases[effect.knowledge_base_id]
    try:
        references = base.retrieve(effect.query)
    except OrchestratorError:
        raise
    except Exception as error:
        raise DependencyFailed(
            f"the knowledge base {effect.knowledge_base_id!r} raised {type(error).__name__}; its "
            "message is kept out of this one, see `__cause__`",
            resource=effect.knowledge_base_id,
        ) from error
    return retrieved_record(effect, references, (began, run.now()))


def _dispatch(run: Run, effect: Dispatch) -> list[Record]:
    known, calls = _to_do(run, effect)
    context = run.context()
    limits = run.plan.limits
    if len(calls) == 1 and limits.action_seconds is None:
        _note(run, known, _perform(run, calls[0], context))
    else:
        for start in range(0, len(calls), limits.parallel):
            for record in _together(run, calls[start : start + limits.parallel], context):
                _note(run, known, record)
    return [known[call.id] for call in effect.calls]


async def _adispatch(run: Run, effect: Dispatch) -> list[Record]:
    known, calls = _to_do(run, effect)
    context = run.context()
    if len(calls) == 1:
        _note(run, known, await _aperform(run, calls[0], context))
    else:
        gate = asyncio.Semaphore(run.plan.limits.parallel)

        async def perform(call: Call) -> None:
            async with gate:
                _note(run, known, await _aperform(run, call, context))

        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(perform(call))
        except BaseExceptionGroup as failed:  # only the journal's store can fail here
            raise failed.exceptions[0] from None
    return [known[call.id] for call in effect.calls]


def _to_do(run: Run, effect: Dispatch) -> tuple[dict[str, Record], list[Call]]:
    # What a stopped process left behind is known; the rest is written down as intended.
    known = run.replay.known_actions(effect)
    for lost in run.replay.lost_actions(effect, known, run.now()):
        _note(run, known, lost)
    calls = [call for call in effect.calls if call.id not in known]
    if calls:
        run.intend(calls)
    return known, calls


def _note(run: Run, known: dict[str, Record], record: Record) -> None:
    known[record["id"]] = record
    run.record_action(record)


def _executor(run: Run, call: Call) -> Executor:
    found = run.plan.catalog.executor(call.operation)
    if isinstance(found, ReturnControl):
        raise AssertionError("a call that is handed to the caller was dispatched")
    return found


def _perform(run: Run, call: Call, context: CallContext) -> Record:
    began = run.now()
    try:
        result = _executor(run, call).call(call, context)
    except Exception as error:  # whatever an executor raises is its outcome
        return failed_action(call, error, began, run.now())
    return action_record(call, result, began, run.now())


def _together(run: Run, calls: list[Call], context: CallContext) -> Iterator[Record]:
    # Blocking calls, each in a thread, in the order in which they end.
    seconds = run.plan.limits.action_seconds
    began = run.now()
    waiting = {in_thread(partial(_perform, run, call, context)): call for call in calls}
    deadline = None if seconds is None else time.monotonic() + seconds
    while waiting:
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        ended, _ = wait(waiting, left, FIRST_COMPLETED)
        for future in ended:
            del waiting[future]
            yield future.result()
        if not ended:
            for call in waiting.values():
                yield failed_action(call, timed_out(call, seconds), began, run.now())
            return


async def _aperform(run: Run, call: Call, context: CallContext) -> Record:
    acall = getattr(_executor(run, call), "acall", None)
    seconds = run.plan.limits.action_seconds
    began = run.now()
    try:
        async with asyncio.timeout(seconds) as limit:
            if acall is None:
                blocking = in_thread(partial(_perform, run, call, context))
                return await asyncio.wrap_future(blocking)
            result: ActionResult = await acall(call, context)
            return action_record(call, result, began, run.now())
    except TimeoutError as error:
        late = timed_out(call, seconds) if limit.expired() else error
        return failed_action(call, late, began, run.now())
    except Exception as error:  # whatever an executor raises is its outcome
        return failed_action(call, error, began, run.now())
