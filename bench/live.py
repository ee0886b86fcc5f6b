"""Sessions: long ones in a store, and many at once."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench import floor, subject
from bench.harness import Row, abatch, resident_bytes, settle
from bench.script import QUESTION
from orchestrator import Agent

_WAIT = 0.05
_SQLITE_LIMIT = 19.0  # times the floor's turn, which has no store
_FLAT_LIMIT = 1.5


def session(turns: int = 500, rounds: int = 5) -> list[Row]:
    """A session of 500 turns in memory and in SQLite: the fifth turn and the last."""
    rows: list[Row] = []
    with asyncio.Runner() as loop:
        for store in ("memory", "SQLite"):
            for way in ("ainvoke", "invoke"):
                base, first, last = _early_and_late(loop, store, way, turns, rounds)
                limit = _SQLITE_LIMIT if (store, way) == ("SQLite", "ainvoke") else None
                name = f"{store}, `{way}`"
                rows += [
                    (f"turn 5, {name}", first / base, "x floor", limit, f"{first:.0f} µs"),
                    (
                        f"turn {turns}, {name}",
                        *(last / first, "x turn 5", _FLAT_LIMIT, f"{last:.0f} µs"),
                    ),
                ]
    return rows


def _early_and_late(
    loop: asyncio.Runner, store: str, way: str, turns: int, rounds: int
) -> tuple[float, float, float]:
    """CPU microseconds of the floor, of turns 4 to 7 and of the last five: medians."""
    floors, early, late = [], [], []
    plain = floor.Model()
    for _ in range(rounds):
        with _stored(store, way) as agent:
            settle()
            times = loop.run(_atimes(agent, turns)) if way == "ainvoke" else _times(agent, turns)
        floors.append(loop.run(abatch([lambda: floor.arun([], QUESTION, plain)] * 100)))
        early.append(statistics.median(times[3:7]))
        late.append(statistics.median(times[-5:]))
    return statistics.median(floors), statistics.median(early), statistics.median(late)


@contextmanager
def _stored(store: str, way: str) -> Iterator[Agent]:
    with tempfile.TemporaryDirectory() as folder:
        where = None if store == "memory" else Path(folder) / "sessions.sqlite"
        blocking = way == "invoke"
        limits = {"action_seconds": None} if blocking else {}
        yield subject.engine(subject.Script(), asynchronous=not blocking, sessions=where, **limits)


async def _atimes(agent: Agent, turns: int) -> list[float]:
    times = []
    for _ in range(turns):
        began = time.process_time_ns()
        await agent.ainvoke(QUESTION, "s-1")
        times.append((time.process_time_ns() - began) / 1000)
    return times


def _times(agent: Agent, turns: int) -> list[float]:
    times = []
    for _ in range(turns):
        began = time.process_time_ns()
        agent.invoke(QUESTION, "s-1")
        times.append((time.process_time_ns() - began) / 1000)
    return times


def concurrency(sessions: int = 200, bursts: int = 10) -> list[Row]:
    """200 sessions at once over a model that takes 50 ms a call, and what each then keeps.

    Memory is told for later bursts: the first ones also make room for the frames, tasks and
    pending work that all later ones use again.
    """
    agent = subject.engine(subject.Script(wait=_WAIT), asynchronous=True)
    ids = count()

    async def burst() -> float:
        began = time.perf_counter()
        await asyncio.gather(*(agent.ainvoke(QUESTION, f"s-{next(ids)}") for _ in range(sessions)))
        return time.perf_counter() - began

    async def main() -> tuple[list[float], float, float]:
        for _ in range(5):  # warm up
            await burst()
        settle()
        kept, before = len(gc.get_objects()), resident_bytes()
        walls = [await burst() for _ in range(bursts)]
        await asyncio.sleep(0)  # else the loop still has the last replies, with their traces
        gc.collect()
        many = bursts * sessions
        return (
            walls,
            (resident_bytes() - before) / many,
            (len(gc.get_objects()) - kept) / many,
        )

    walls, grown, containers = asyncio.run(main())
    wall, ideal = statistics.median(walls), 2 * _WAIT
    return [
        ("200 sessions at once", wall / ideal, "x ideal", 1.1, f"50 ms model, {wall:.3f} s"),
        ("memory of a live session", grown / 1024, "KB", 5.5, "resident, in later bursts"),
        ("objects of a live session", containers, "", 20.5, "that the garbage collector visits"),
    ]
