"""Connecting, on an event loop, to whichever of a host's addresses takes it first (RFC 8305).

asyncio has the same, but loses a socket that connects just as whoever waits for it is cancelled:
it stays open until it is collected as garbage.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

# Seconds until the next address is tried, too.
_ATTEMPT_DELAY = 0.25


async def connect(host: str, port: int) -> socket.socket:
    """A connected socket.

    Raises:
        OSError: There is no such host, or none of its addresses takes it.
    """
    loop = asyncio.get_running_loop()
    tries: list[asyncio.Task[socket.socket]] = []
    try:
        for address in _interleave(await _find_addresses(loop, host, port)):
            tries.append(loop.create_task(_connect_to(loop, address)))
            if (sock := await _wait_for_one(tries, _ATTEMPT_DELAY)) is not None:
                return sock
        while not all(it.done() for it in tries):
            if (sock := await _wait_for_one(tries, None)) is not None:
                return sock
        for failed in tries:
            failed.result()
        raise OSError("the host has no address")
    finally:
        for it in tries:
            it.cancel()
            it.add_done_callback(_close_lost)


async def _find_addresses(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> Sequence[tuple[Any, ...]]:
    with suppress(socket.gaierror):  # needs no thread
        kind = socket.SOCK_STREAM
        return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
    return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _interleave(addresses: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    families: dict[Any, list[tuple[Any, ...]]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    return [it for row in zip_longest(*families.values()) for it in row if it is not None]


async def _connect_to(loop: asyncio.AbstractEventLoop, address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, place = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, place)
    except BaseException:
        sock.close()
        raise
    return sock


async def _wait_for_one(
    tries: list[asyncio.Task[socket.socket]], seconds: float | None
) -> socket.socket | None:
    # What is taken from `tries` is not closed at the end.
    pending = [it for it in tries if not it.done()]
    await asyncio.wait(pending, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for it in tries:
        if it.done() and not it.cancelled() and it.exception() is None:
            tries.remove(it)
            return it.result()
    return None


def _close_lost(done: asyncio.Task[socket.socket]) -> None:
    if not done.cancelled() and done.exception() is None:
        done.result().close()
