"""How many large bodies are read at once, also when clients do not wait for it."""

from __future__ import annotations

import asyncio
from threading import Event

from orchestrator.server.large_bodies import read_body
from orchestrator.support.safe_json import LARGE

WAIT = 60  # a bound for tests that hang, never a pause
BODY = b" " * (LARGE + 1)


def test_a_body_waits_for_the_thread_of_one_whose_client_has_gone() -> None:
    begun, over = Event(), Event()
    calls = []

    def read(body: bytes) -> int:
        calls.append(body)
        begun.set()
        over.wait(WAIT)
        return len(body)

    async def read_many() -> int:
        gone = [asyncio.create_task(read_body(read, BODY)) for _ in range(5)]
        assert await asyncio.to_thread(begun.wait, WAIT)
        for task in gone:
            task.cancel()
        await asyncio.wait(gone)
        following = asyncio.create_task(read_body(len, BODY))
        done, _ = await asyncio.wait([following], timeout=0)
        assert not done
        over.set()
        return await following

    try:
        assert asyncio.run(read_many()) == len(BODY)
    finally:
        over.set()
    assert len(calls) == 1


def test_a_small_body_is_read_at_once() -> None:
    async def read() -> int:
        reading = read_body(len, b"{}")
        try:
            reading.send(None)
        except StopIteration as ended:
            return int(ended.value)
        raise AssertionError("it waited")

    assert asyncio.run(read()) == 2
