"""Generators that run side by side, each in a thread; what they yield comes as they yield it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import wait
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import Any, TypeVar, cast

from orchestrator.threads import in_thread

__all__ = ["side_by_side"]

Y = TypeVar("Y")
R = TypeVar("R")


def side_by_side(works: Sequence[Generator[Y, None, R]], most: int) -> Generator[Y, None, list[R]]:
    """Drains generators, at most `most` at the same time; their return values, in order.

    The first that raises stops the others at their next step. So does closing this generator,
    which then waits for them.
    """
    results: list[R] = []
    for start in range(0, len(works), most):
        some = works[start : start + most]
        if len(some) == 1:
            results.append((yield from some[0]))
        else:
            results += yield from _together(some)
    return results


def _together(works: Sequence[Generator[Y, None, R]]) -> Generator[Y, None, list[R]]:
    items: SimpleQueue[Any] = SimpleQueue()
    stopped = Event()
    futures = [in_thread(partial(_drain, work, items, stopped)) for work in works]
    running = len(futures)
    try:
        while running:
            item = items.get()
            if item is _ENDED:
                running -= 1
            else:
                yield item
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
