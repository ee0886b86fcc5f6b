"""Many turns at once in one event loop, with a model that takes its time."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from bench import subject
from bench.harness import Row

_AT_ONCE = 64
_MODEL_SECONDS = 0.05
_SECONDS = 5.0
_TICK = 0.002


def together() -> list[Row]:
    """64 sessions in one event loop, each asking again when it is answered.

    A turn has two model calls of 50 ms and an action. Told are how much longer it takes, and how
    late the loop itself is.
    """
    rows: list[Row] = []
    for store in ("memory", "sqlite"):
        with tempfile.TemporaryDirectory() as folder:
            where = None if store == "memory" else Path(folder) / "sessions.sqlite"
            turns, lags = asyncio.run(_measured(where))
        took = statistics.quantiles(turns, n=100)
        late = statistics.quantiles(lags, n=100)
        overhead = [(took[place] - 2 * _MODEL_SECONDS) * 1000 for place in (49, 98)]
        rows += [
            (
                f"64 sessions, {store}",
                len(turns) / _SECONDS,
                "turns/s",
                None,
                f"beyond the models: median {overhead[0]:.1f} ms, p99 {overhead[1]:.1f} ms",
            ),
            (
                f"64 sessions, {store}: lateness of the event loop, p99",
                late[98] * 1000,
                "ms",
                None,
                f"median {late[49] * 1000:.2f} ms; wall clock",
            ),
        ]
    return rows


async def _measured(where: Path | None) -> tuple[list[float], list[float]]:
    model = subject.Script(wait=_MODEL_SECONDS)
    agent = subject.engine(model, asynchronous=True, sessions=where)
    turns: list[float] = []
    lags: list[float] = []
    end = time.perf_counter() + _SECONDS

    async def session(number: int) -> None:
        while (began := time.perf_counter()) < end:
            await agent.ainvoke("What is the weather in Paris?", f"s-{number}-{len(turns) // 640}")
            turns.append(time.perf_counter() - began)

    async def watch() -> None:
        while (began := time.perf_counter()) < end:
            await asyncio.sleep(_TICK)
            lags.append(time.perf_counter() - began - _TICK)

    await asyncio.gather(watch(), *map(session, range(_AT_ONCE)))
    return turns, lags
