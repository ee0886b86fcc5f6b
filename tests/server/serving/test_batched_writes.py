"""What a response consists of comes as one packet; what is large comes at once."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

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


def test_a_small_response_comes_whole() -> None:
    with ServerState(Settings(port=0)) as state, serve_in_thread(state) as url:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as client:
            client.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            response = client.recv(65_536)
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and body
