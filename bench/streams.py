"""Streamed tokens: through the parser alone, and through `astream` and `stream`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

from bench import floor, script, subject
from bench.harness import Row, compare
from bench.script import QUESTION
from orchestrator import parsers

SHORT, LONG = 2_000, 100_000


def stream(lengths: tuple[int, ...] = (SHORT, LONG), rounds: int = 15) -> list[Row]:
    """What a streamed token costs in a short answer and in a long one, beside the floor's."""
    return [row for length in lengths for row in _streamed(length, rounds)]


def _streamed(length: int, rounds: int) -> list[Row]:
    pieces = script.tokens(length)
    agent, ids = subject.engine(subject.Tokens(pieces), asynchronous=True), count()
    waiting = subject.engine(subject.Tokens(pieces, waits=True), asynchronous=True)
    runs = max(1, 10_000 // length)

    def block() -> None:
        for _ in agent.stream(QUESTION, f"s-{next(ids)}"):
            pass

    def parse() -> None:
        parser = parsers.new("tool_use", "ORCHESTRATION")
        for piece in pieces:
            parser.feed(piece)
        parser.finish()

    with asyncio.Runner() as loop:
        awaited: dict[str, Any] = {
            "floor": lambda: _drain(floor.astream([], QUESTION, pieces)),
            "engine": lambda: _drain(agent.astream(QUESTION, f"s-{next(ids)}")),
            "waiting": lambda: _drain(waiting.astream(QUESTION, f"s-{next(ids)}")),
        }
        times = compare(awaited, count=runs, rounds=rounds, loop=loop)
    times |= compare({"block": block, "parse": parse}, count=runs, rounds=rounds)
    base, engine, waited, block_, parsed = (
        times[name] / length for name in ("floor", "engine", "waiting", "block", "parse")
    )
    of = f"token of {length:,}"
    return [
        (f"{of}, floor", base, "µs", None, "one generator over a model's Converse events"),
        (f"{of}, `astream`", engine / base, "x floor", 4.0, f"{engine:.2f} µs, as `TextDelta`"),
        (f"{of}, `astream`, waited for", waited, "µs", None, "a step of the event loop for each"),
        (f"{of}, `stream`", block_, "µs", None, "as `TextDelta`"),
        (f"{of}, parser alone", parsed, "µs", 2.0, ""),
    ]


async def _drain(items: AsyncIterator[object]) -> None:
    async for _ in items:
        pass
