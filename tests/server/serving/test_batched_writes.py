"""What a response consists of comes as one packet; what is large comes at once."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

from orchestrator.server.fair_loop import FairEventLoop, go_last
from orchestrator.server.protocols.batched_writes import BatchedWrites
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState


class Transport:
    """Notes what is done with it."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.done


def batched() -> tuple[BatchedWrites, Transport]:
    transport = Transport()
    given: Any = transport
    return BatchedWrites(given, asyncio.get_running_loop()), transport


def test_what_is_written_in_one_step_is_one_write() -> None:
    async def write() -> list[Any]:
        writes, transport = batched()
        for piece in (b"head", b"", b"body"):
            writes.write(piece)
        assert transport.done == []
        await asyncio.sleep(0)
        writes.write(b"next")
        await asyncio.sleep(0)
        return transport.done

    assert asyncio.run(write()) == [b"headbody", b"next"]


def test_what_is_large_is_written_at_once_and_in_order() -> None:
    async def write() -> list[Any]:
        writes, transport = batched()
        writes.write(b"a")
        writes.write(b"b" * 65_536)
        assert [len(it) for it in transport.done] == [65_537]
        writes.write(b"c")
        await asyncio.sleep(0)
        return transport.done

    first, second = asyncio.run(write())
    assert (first[:2], second) == (b"ab", b"c")


def test_a_connection_is_closed_after_what_was_written() -> None:
    async def write() -> list[Any]:
        writes, transport = batched()
        writes.write(b"bye")
        writes.close()
        assert writes.is_closing()
        await asyncio.sleep(0)
        return transport.done

    assert asyncio.run(write()) == [b"bye", "closed"]


def test_what_a_busy_turn_writes_does_not_wait_for_the_steps_of_others() -> None:
    async def write() -> list[Any]:
        writes, transport = batched()

        async def work() -> None:
            await go_last()
            for _ in range(5):
                transport.done.append("step")
                await asyncio.sleep(0)

        async def answer() -> None:
            await go_last()
            transport.done.append("asked")
            writes.write(b"answer")
            await asyncio.sleep(0)

        await asyncio.gather(work(), work(), answer(), work(), work())
        return transport.done

    with asyncio.Runner(loop_factory=FairEventLoop) as runner:
        done = runner.run(write())
    assert done.index(b"answer") - done.index("asked") <= 2


def test_requests_that_come_together_are_answered_in_order() -> None:
    get = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    with ServerState(Settings(port=0)) as state, serve_in_thread(state) as url:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as client:
            client.sendall(get + get + last)
            answers = b""
            while piece := client.recv(65_536):
                answers += piece
    codes = [it[:3] for it in answers.split(b"HTTP/1.1 ")[1:]]
    assert codes[:2] == [b"200", b"200"] and len(codes) == 3 and codes[2] != b"200"


def test_a_small_response_comes_whole() -> None:
    with ServerState(Settings(port=0)) as state, serve_in_thread(state) as url:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as client:
            client.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            response = client.recv(65_536)
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and body
