"""The driver for threads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from functools import partial
from threading import RLock
from typing import Any

from orchestrator.actions.base import Call, CallContext
from orchestrator.engine.effects import (
    LIVE,
    Branch,
    CallModel,
    Collaborate,
    Dispatch,
    Guard,
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
from orchestrator.engine.run.driver.together import run_concurrently
from orchestrator.engine.run.invocation import Run
from orchestrator.models.blocks import normalise_blocks
from orchestrator.sessions import Record
from orchestrator.support.threads import in_thread

__all__ = ["drive"]


def drive(run: Run, *, listen: bool) -> Generator[Told, None, None]:
    """Runs an invocation to its result, which `run.result` then holds.

    Args:
        run: The invocation.
        listen: Whether to stream models and to yield progress.

    Yields:
        Pieces of the answer's text, and progress.
    """
    try:
        step = run.begin()  # a turn of another version of the agent stays as it is
        try:
            while isinstance(step, LIVE):
                if listen:
                    yield Progress(step, run)
                try:
                    if isinstance(step, CallModel):
                        if listen:
                            outcome: Any = yield from _stream_model(run, step)
                        else:
                            outcome = _call_model(run, step)
                    elif isinstance(step, Collaborate):
                        outcome = yield from _collaborate(run, step, listen=listen)
                    else:
                        outcome = _carry_out(run, step)
                except Exception as error:
                    step = run.fail(failure(step, error), step)
                    continue
                if listen:
                    yield Progress(step, run, outcome)
                step = run.advance(step, outcome)
            _finish(run, step)
        except BaseException:
            run.cancel()
            raise
    finally:
        run.close()


def _finish(run: Run, result: Result) -> None:
    if run.plan.memory_stage is not None:
        for work in run.memory_work(result):
            work()
    run.finish(result)


def _carry_out(
    run: Run, effect: Dispatch | Retrieve | Guard | Orchestrate
) -> Record | list[Record]:
    if isinstance(effect, Dispatch):
        return _dispatch(run, effect)
    if isinstance(effect, Orchestrate):
        return orchestrate(run, effect)
    return retrieve(run, effect) if isinstance(effect, Retrieve) else guard(run, effect)


def _call_model(run: Run, effect: CallModel) -> Record:
    stage, began = effect.stage, run.now()
    reply = stage.model.complete(run.request(effect))
    reply.content = normalise_blocks(reply.content)
    return run.model_record(effect, reply, stage.new_parser().finish(reply.content), began)


def _stream_model(run: Run, effect: CallModel) -> Generator[str, None, Record]:
    call = ModelCall(run, effect)
    stream = effect.stage.model.stream(call.request)
    with contextlib.closing(stream):  # type: ignore[type-var]
        for item in stream:
            yield from call.take(item)
    yield from call.rest()
    return call.record(call.reply)


def _collaborate(
    run: Run, effect: Collaborate, *, listen: bool
) -> Generator[Told, None, list[Record]]:
    known, lock = run.replay.take_known_branches(effect), RLock()
    prepare_branches(run, effect, known)
    left = [branch for branch in effect.branches if branch.id not in known]
    works = [_run_branch(run, branch, lock, effect, listen=listen) for branch in left]
    outcomes = yield from run_concurrently(works, most_at_once(run, effect))
    known.update(zip([branch.id for branch in left], outcomes, strict=True))
    return [known[branch.id] for branch in effect.branches]


def _run_branch(
    run: Run, branch: Branch, lock: Lock, effect: Collaborate, *, listen: bool
) -> Generator[Told, None, Record]:
    if stopped := build_skipped_record(run, branch, effect):
        return stopped
    if branch.collaborator.agent is None:
        record = run_remote_branch(run, branch)
        with lock:
            run.write([record])
    else:
        work = branch_run(run, branch, lock, effect)
        for item in drive(work, listen=listen):
            if effect.live or not isinstance(item, str):
                yield branch.forward(item)
        record = work.outcome
    if listen and "control" not in record:
        yield BranchEnded(effect, run, branch, record)
    return record


def _dispatch(run: Run, effect: Dispatch) -> list[Record]:
    known, calls = find_pending_calls(run, effect)
    context = run.context()
    limits = run.plan.limits
    if len(calls) == 1 and limits.action_seconds is None:
        record_outcome(run, known, perform(run, calls[0], context))
    else:
        for start in range(0, len(calls), limits.parallel):
            for record in _perform_concurrently(
                run, calls[start : start + limits.parallel], context
            ):
                record_outcome(run, known, record)
    return [*known.values()] if len(known) == 1 else [known[call.id] for call in effect.calls]


def _perform_concurrently(run: Run, calls: list[Call], context: CallContext) -> Iterator[Record]:
    # Blocking calls, each in a thread, in the order in which they end.
    seconds = run.plan.limits.action_seconds
    began = run.now()
    waiting = {in_thread(partial(perform, run, call, context)): call for call in calls}
    deadline = None if seconds is None else time.monotonic() + seconds
    while waiting:
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        ended, _ = wait(waiting, left, FIRST_COMPLETED)
        for future in ended:
            del waiting[future]
            yield future.result()
        if not ended:
            for call in waiting.values():
                yield build_failed_action_record(
                    run, call, build_timeout_error(call, seconds), began
                )
            return
