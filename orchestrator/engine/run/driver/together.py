"""Generators that run side by side, each in a thread; what they yield comes as they yield it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import Any, TypeVar, cast

from orchestrator.support.threads import in_thread

__all__ = ["run_concurrently"]

Y = TypeVar("Y")
R = TypeVar("R")


def run_concurrently(
    works: Sequence[Generator[Y, None, R]], most: int
) -> Generator[Y, None, list[R]]:
    """Drains generators, at most `most` at the same time; their return values, in order.

    The first that raises stops the others at their next step. So does closing this generator,
    which then waits for them.
    """
    if most == 1 or len(works) == 1:
        results: list[R] = []
        for work in works:
            results.append((yield from work))
        return results
    return (yield from _run_in_threads(works, most))


def _run_in_threads(
    works: Sequence[Generator[Y, None, R]], most: int
) -> Generator[Y, None, list[R]]:
    items: SimpleQueue[Any] = SimpleQueue()
    stopped = Event()
    futures: list[Future[R | None]] = []

    def begin(more: int) -> int:
        for work in works[len(futures) : len(futures) + more]:
            futures.append(in_thread(partial(_drain, work, items, stopped)))
        return len(futures)

    begun, ended = begin(most), 0
    try:
        while ended < begun:
            item = items.get()
            if item is not _ENDED:
                yield item
                continue
            ended += 1
            if not stopped.is_set():
                begun = begin(1)
    finally:
        stopped.set()
        wait(futures)
    # All have ended: one that was stopped is so because another raised, or this one was closed.
    return cast("list[R]", [future.result() for future in futures])


_ENDED = object()


def _drain(work: Generator[Y, None, R], items: SimpleQueue[Any], stopped: Event) -> R | None:
    try:
        while not stopped.is_set():
            try:
                items.put(next(work))
            except StopIteration as stop:
                result: R = stop.value
                return result
        work.close()
        return None
    except BaseException:
        stopped.set()
        raise
    finally:
        items.put(_ENDED)
