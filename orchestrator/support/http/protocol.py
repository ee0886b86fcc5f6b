"""One connection of an event loop: what comes over it waits for the one task that reads it."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextvars import Context
from typing import cast

from orchestrator.support.http.addresses import connect
from orchestrator.support.http.connections import Address
from orchestrator.support.http.proxies import Proxy, TunnelReader, encode_connect
from orchestrator.support.http.sockets import is_readable

# Bytes that wait for their reader; a server that is faster has to wait, too.
_HIGH = 131_072
# Bytes that are looked at in one go. In the worst case, chunks of one byte, they take some
# milliseconds, and everything else in the event loop waits.
_PIECE = 16_384
# Seconds between two pieces of a proxy's answer; whoever opens the connection has a time for all.
_TUNNEL_SECONDS = 60.0


class Connection(asyncio.Protocol):
    """A connection, which one response uses at a time.

    What the event loop keeps for it, timers and handles, has a context of its own: that of the
    request that happened to open it would live on with its variables' values.
    """

    def __init__(self, pool: object) -> None:
        """Opens nothing yet; `pool` lives as long as the connection."""
        self._pool = pool
        self._context = Context()
        self._transport: asyncio.Transport | None = None
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """Keeps what came for `receive`."""
        size = len(data)
        if size <= _PIECE:
            self._pieces.append(data)
        else:
            self._pieces += [data[start : start + _PIECE] for start in range(0, size, _PIECE)]
        self._size += size
        if self._size > _HIGH and not self._paused:
            self._paused = True
            self._get_transport().pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Tells `receive` of the end."""
        self._ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """Tells `receive` of the end."""
        self._ended = True
        self._wake()

    # What the task calls.

    async def open(self, address: Address) -> None:
        """Connects.

        Raises:
            OSError: That is not possible.
        """
        await asyncio.get_running_loop().create_task(self._open(address), context=self._context)

    def write(self, data: bytes) -> None:
        """Sends bytes, as soon as the server takes them."""
        self._context.run(self._get_transport().write, data)

    @property
    def has_data(self) -> bool:
        """Whether something waits to be received."""
        return bool(self._pieces)

    async def receive(self, seconds: float) -> bytes:
        """A piece of what came; empty at the connection's end.

        Raises:
            TimeoutError: Nothing came for so long.
        """
        if not self._pieces:
            if not self._ended:
                await self._wait(seconds)
            if not self._pieces:
                return b""
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self._paused and not self._pieces:
            self._paused = False
            self._context.run(self._get_transport().resume_reading)
        return piece

    def stop_timer(self) -> None:
        """Forgets the time-out of the response that was read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abort(self) -> None:
        """Ends the connection at once."""
        self.stop_timer()
        if self._transport is not None:
            self._transport.abort()

    # What the pool asks between two responses.

    def is_reusable(self) -> bool:
        """Whether it is silent, and its last request was sent to the end."""
        transport = self._get_transport()
        if self._ended or self._pieces or transport.is_closing() or self._count_unsent():
            return False
        # An event loop that was busy with something else has not read yet what came.
        sock = transport.get_extra_info("socket")
        return sock is None or not is_readable(sock)

    def close_inherited(self) -> None:
        """Closes the socket in a forked process, whose event loop is its parent's, too.

        So nothing else may be touched: the parent's loop would stop listening.
        """
        self._ended = True
        if self._transport is not None:
            sock = getattr(self._transport.get_extra_info("socket"), "_sock", None)
            if sock is not None:
                sock.close()

    def _get_transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    async def _open(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        tls = address.tls if address.proxy is None else None
        sock = await connect(*address.first)
        name = None if tls is None else address.host
        await loop.create_connection(lambda: self, sock=sock, ssl=tls, server_hostname=name)
        if address.proxy is not None and address.tls is not None:
            await self._open_tunnel(loop, address.proxy, address)

    async def _open_tunnel(
        self, loop: asyncio.AbstractEventLoop, proxy: Proxy, address: Address
    ) -> None:
        transport, tunnel = self._get_transport(), TunnelReader()
        transport.write(encode_connect(proxy, address.host, address.port))
        while not tunnel.is_open:
            tunnel.feed(await self.receive(_TUNNEL_SECONDS))
        assert address.tls is not None
        self._transport = await loop.start_tls(
            transport, self, address.tls, server_hostname=address.host
        )
        self.stop_timer()

    def _count_unsent(self) -> int:
        transport = self._get_transport()
        # Over TLS that is what is not encrypted; the rest waits in the transport beneath.
        beneath = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
        return sum(it.get_write_buffer_size() for it in (transport, beneath) if it is not None)

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        # One timer for all waits of a response, which looks when it goes off whether it is time: a
        # timer for each of a stream's tokens would cost as much as the token.
        self._until = loop.time() + seconds
        if self._timer is None or self._timer.when() > self._until:
            self.stop_timer()
            self._start_timer(loop)
        self._waiter = loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _start_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_at(self._until, self._look_at_time, context=self._context)

    def _look_at_time(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._until - 0.001:  # timers may go off a little early
            waiter.set_exception(TimeoutError())
        else:
            self._start_timer(loop)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
