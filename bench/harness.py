"""Measuring CPU time fairly: floor and engine in alternation, in one process, garbage included."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

# A row of a table: name, value, unit, limit, note. A limit of `None` is a figure for information.
Row = tuple[str, float, str, float | None, str]
Work = Callable[[], Any]
REPOSITORY = Path(__file__).resolve().parents[1]


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


async def abatch(works: Sequence[Callable[[], Awaitable[object]]]) -> float:
    """CPU microseconds of each of `works` in an event loop, one after another."""
    began = time.process_time_ns()
    for work in works:
        await work()
    return (time.process_time_ns() - began) / len(works) / 1000


def compare(
    sides: dict[str, Work],
    *,
    count: int,
    rounds: int,
    before: Work = lambda: None,
    loop: asyncio.Runner | None = None,
) -> dict[str, float]:
    """What each side takes in the quiet rounds: their median.

    The sides are measured in alternation, a batch of each in a round. Quiet is the half of the
    rounds that took the least in all: what else the machine did in the others is no concern here.

    Args:
        sides: What to measure, by name.
        count: Runs a batch.
        rounds: Batches of each side; at least seven.
        before: Called before each batch, outside of the measured time.
        loop: Where to await what the sides return; without one they are called alone.

    Returns:
        CPU microseconds of one run, by name.
    """

    def measure(work: Work) -> float:
        before()
        settle()
        if loop is None:
            return batch(work, count)
        return loop.run(abatch([work] * count))

    for work in sides.values():  # warm up
        measure(work)
    found = [{name: measure(work) for name, work in sides.items()} for _ in range(rounds)]
    found.sort(key=lambda it: sum(it.values()))
    quiet = found[: (len(found) + 1) // 2]
    return {name: statistics.median(it[name] for it in quiet) for name in sides}


def quiet_median(times: Sequence[float]) -> float:
    """The median of the half that took the least."""
    return statistics.median(sorted(times)[: (len(times) + 1) // 2])


def resident_bytes() -> int:
    """The memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if os.name == "posix" else 0
    return pages * resource.getpagesize()
