"""Turns and their steps: through `ainvoke`, as servers ask, and through `invoke`."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable
from itertools import count
from typing import Any

from bench import floor, subject
from bench.harness import Row, compare, settle
from bench.script import QUESTION
from orchestrator import Agent, Reply

STEPS = 50


def turn(runs: int = 100, rounds: int = 45) -> list[Row]:
    """One turn of two model calls and one action that returns a dict, through `ainvoke`."""
    model, ids = subject.Script(), count()
    plain = floor.Model()
    sessions: dict[str, floor.Session] = {}
    agents: dict[str, Agent] = {}

    def run_floor() -> Awaitable[str]:
        return floor.arun(floor.new_session(sessions), QUESTION, plain)

    def run_engine(action: str = "async") -> Awaitable[Reply]:
        return agents[action].ainvoke(QUESTION, f"s-{next(ids)}")

    async def read_trace() -> object:
        return (await run_engine()).trace

    def reset() -> None:  # no sessions of the batches before
        sessions.clear()
        agents["async"] = subject.engine(model, asynchronous=True)
        agents["sync"] = subject.engine(model)

    with asyncio.Runner() as loop:
        times = compare(
            {
                "floor": run_floor,
                "engine": run_engine,
                "trace": read_trace,
                "thread": lambda: run_engine("sync"),
            },
            count=runs,
            rounds=rounds,
            before=reset,
            loop=loop,
        )
    base = times["floor"]
    return [
        ("turn, floor", base, "µs", None, "a plain loop of coroutines"),
        _beside("turn, `ainvoke`", times["engine"], base, 4.5),
        _beside("turn, `ainvoke`, trace read", times["trace"], base, 7.0),
        _beside("turn, `ainvoke`, sync action", times["thread"], base, None, "; it has a thread"),
    ]


def turn_blocking(runs: int = 100, rounds: int = 45) -> list[Row]:
    """The same turn through `invoke`, with a sync action."""
    model, ids = subject.Script(), count()
    plain = floor.Model()
    sessions: dict[str, floor.Session] = {}
    agents: dict[bool, Agent] = {}

    def run_floor() -> str:
        return floor.run(floor.new_session(sessions), QUESTION, plain)

    def run_engine(bounded: bool) -> Reply:
        return agents[bounded].invoke(QUESTION, f"s-{next(ids)}")

    def reset() -> None:
        sessions.clear()
        agents[False] = subject.engine(model, action_seconds=None)
        agents[True] = subject.engine(model)

    times = compare(
        {
            "floor": run_floor,
            "engine": lambda: run_engine(False),
            "thread": lambda: run_engine(True),
        },
        count=runs,
        rounds=rounds,
        before=reset,
    )
    base = times["floor"]
    thread = "; the default for blocking functions"
    return [
        ("turn, floor, blocking", base, "µs", None, "a plain loop"),
        _beside("turn, `invoke`", times["engine"], base, 5.0, "; without a time limit"),
        _beside("turn, `invoke`, action in a thread", times["thread"], base, None, thread),
    ]


def step(runs: int = 3, rounds: int = 45) -> list[Row]:
    """What each of the 50 steps of a turn costs, through `ainvoke`."""
    model, ids = subject.Script(STEPS), count()
    plain = floor.Model(STEPS)
    agents: dict[str, Agent] = {}

    def run_engine() -> Awaitable[Reply]:
        return agents["async"].ainvoke(QUESTION, f"s-{next(ids)}")

    def reset() -> None:
        agents["async"] = subject.engine(model, asynchronous=True)

    with asyncio.Runner() as loop:
        times = compare(
            {
                "once": lambda: floor.arun([], QUESTION, plain, encode=floor.EncodedOnce()),
                "dumps": lambda: floor.arun([], QUESTION, plain),
                "engine": run_engine,
            },
            count=runs,
            rounds=rounds,
            before=reset,
            loop=loop,
        )
    once, dumps, engine = (times[name] / STEPS for name in ("once", "dumps", "engine"))
    return [
        ("step of 50, floor", once, "µs", None, "it encodes each message once"),
        ("step of 50, floor with `json.dumps` of all", dumps, "µs", None, "before each model call"),
        _beside("step of 50", engine, once, 2.0),
    ]


def steps(rounds: int = 9) -> list[Row]:
    """A turn of 200 steps: what the last ten cost beside the first ten."""
    firsts, lasts = [], []
    for _ in range(rounds):
        model = _Stamped(steps=200)
        agent = subject.engine(model, asynchronous=True)
        settle()
        asyncio.run(agent.ainvoke(QUESTION, "s-1"))
        stamps = model.stamps
        firsts.append((stamps[10] - stamps[0]) / 10_000)
        lasts.append((stamps[200] - stamps[190]) / 10_000)
    first, last = statistics.median(firsts[1:]), statistics.median(lasts[1:])
    return [
        ("step 191-200 of a turn", last / first, "x step 1-10", 1.5, f"{first:.0f}, {last:.0f} µs")
    ]


class _Stamped(subject.Script):
    # Notes the CPU time of every call.
    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.stamps: list[int] = []

    def complete(self, request: Any) -> Any:
        self.stamps.append(time.process_time_ns())
        return super().complete(request)


def _beside(name: str, took: float, base: float, limit: float | None, more: str = "") -> Row:
    return (name, took / base, "x floor", limit, f"{took:.1f} µs{more}")
