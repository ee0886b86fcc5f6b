"""Measuring CPU time fairly: floor and engine in alternation, in one process, garbage included."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

Work = Callable[[], object]


def settle() -> None:
    """Takes what is there already out of the garbage collector's way, for both sides alike."""
    gc.collect()
    gc.freeze()


def batch(work: Work, count: int) -> float:
    """CPU microseconds of one run of `work`, from a batch of `count`."""
    began = time.process_time_ns()
    for _ in range(count):
        work()
    return (time.process_time_ns() - began) / count / 1000


def compare(
    sides: dict[str, Work], *, count: int, rounds: int, before: Work = lambda: None
) -> dict[str, float]:
    """The median of `rounds` batches of each side, the sides in alternation.

    Args:
        sides: What to measure, by name.
        count: Runs a batch.
        rounds: Batches of each side; at least seven.
        before: Called before each batch, outside of the measured time.

    Returns:
        CPU microseconds of one run, by name.
    """
    found: dict[str, list[float]] = {name: [] for name in sides}
    for work in sides.values():  # warm up
        before()
        batch(work, count)
    for _ in range(rounds):
        for name, work in sides.items():
            before()
            settle()
            found[name].append(batch(work, count))
    return {name: statistics.median(times) for name, times in found.items()}
