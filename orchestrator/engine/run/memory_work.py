"""What a turn's end leaves to do in the agent's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.engine.plan import Memory
from orchestrator.engine.results import ControlReturn, Result
from orchestrator.errors import OrchestratorError
from orchestrator.memory.summaries import build_summary

if TYPE_CHECKING:
    from orchestrator.engine.run.invocation import Run


def iter_memory_work(
    run: Run, result: Result, memory: Memory, memory_id: str
) -> Iterator[Callable[[], None]]:
    """What is to be done in the memory before `Run.finish`; each piece may block.

    Should this process stop between the two, a summary is kept again from the journal's
    record of it, in the place of the same one.
    """
    if "closing" not in run.log.start["with"]:
        # A session is idle from here on; that it is was noted when its turn began, at least.
        yield partial(_touch, run, memory, memory_id)
    if not isinstance(result, ControlReturn):
        yield from _iter_summary_work(run, memory, memory_id)


def _touch(run: Run, memory: Memory, memory_id: str) -> None:
    with suppress(OrchestratorError):
        memory.store.touch(run.plan.owner, memory_id, run.session_id, run.sessions.clock())


def _iter_summary_work(run: Run, memory: Memory, memory_id: str) -> Iterator[Callable[[], None]]:
    topics = run.replay.turn.topics
    if topics is None:
        return
    run.flush()
    if not topics:
        yield partial(memory.store.settle, run.plan.owner, run.session_id)
        return
    summary = build_summary(
        memory_id,
        run.session_id,
        topics,
        started=run.session.started,
        now=run.sessions.clock(),
        storage_days=memory.storage_days,
    )
    yield partial(memory.store.add, run.plan.owner, summary)
