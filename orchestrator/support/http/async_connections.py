"""Connections of an event loop: one protocol each, a plain list of idle ones, a bound for all."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from typing import cast

from orchestrator.support.http.connections import Address, Waits
from orchestrator.support.http.failures import (
    ConnectFailed,
    ConnectTimedOut,
    Disconnected,
    ReadTimedOut,
    TLSFailed,
)
from orchestrator.support.http.fairness import FREE, give_way
from orchestrator.support.http.messages import ResponseReader
from orchestrator.support.reply_bounds import ReplyBounds

# Bytes that wait for their reader; a server that is faster has to wait, too.
_HIGH = 131_072


class AsyncConnections:
    """Connections to one server, for the tasks of one event loop.

    At most `most` are open at once; further requests wait for one. They end with their loop: it
    closes, as it shuts down, the generators that began on it.
    """

    def __init__(self, address: Address, waits: Waits, most: int) -> None:
        """Opens nothing yet."""
        self._address = address
        self._waits = waits
        self._turns = asyncio.Semaphore(most)
        self._idle: list[_Connection] = []
        self._closing: AsyncIterator[None] | None = None

    async def send(self, request: bytes, bounds: ReplyBounds, *, streamed: bool) -> AsyncResponse:
        """The response to a request; read to its end unless it is `streamed` and no error.

        Raises:
            HTTPFailure: There is none.
            OrchestratorError: The response is not within its bounds.
        """
        bounds.check_time()
        await self._wait_for_turn(bounds)
        try:
            connection = self._take_idle() or await self._connect(bounds)
        except BaseException:
            self._turns.release()
            raise
        response = AsyncResponse(self, connection, bounds, self._waits.read)
        try:
            await response._send(request)
            if not (streamed and response.status < 300):
                response.content = await _read_all(response)
        except BaseException:
            response.close()
            raise
        return response

    async def _wait_for_turn(self, bounds: ReplyBounds) -> None:
        if not self._turns.locked():
            await self._turns.acquire()
            return
        try:
            async with asyncio.timeout(_left(bounds)):
                await self._turns.acquire()
        except TimeoutError:
            bounds.check_time()
            raise ConnectTimedOut("no connection became free in time") from None

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.spoilt:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: _Connection) -> None:
        if connection.spoilt:
            connection.abort()
        else:
            self._idle.append(connection)

    async def _connect(self, bounds: ReplyBounds) -> _Connection:
        if self._closing is None:
            self._closing = self._close_at_end()
            await anext(self._closing)
        loop = asyncio.get_running_loop()
        host, port, tls = self._address
        left = _left(bounds)
        wait = self._waits.connect if left is None else min(self._waits.connect, left)
        try:
            async with asyncio.timeout(wait):
                _, made = await loop.create_connection(_Connection, host, port, ssl=tls)
        except TimeoutError:
            bounds.check_time()
            raise ConnectTimedOut("no connection in time") from None
        except ssl.SSLError as error:
            raise TLSFailed(type(error).__name__) from None
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(type(error).__name__) from None
        return made

    async def _close_at_end(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            while self._idle:
                self._idle.pop().abort()
            await asyncio.sleep(0)  # a transport closes its socket in the loop's next round


async def _read_all(response: AsyncResponse) -> bytes:
    pieces = []
    while piece := await response.read():
        pieces.append(piece)
    return b"".join(pieces)


def _left(bounds: ReplyBounds) -> float | None:
    return None if bounds.ends is None else max(bounds.ends - time.monotonic(), 0.0)


class _Connection(asyncio.Protocol):
    """What came over one connection, for the one task that reads it."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._pieces: list[bytes] = []
        self._size = 0
        self._paused = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def spoilt(self) -> bool:
        """Whether it has ended, or said something that nobody asked for."""
        return self._ended or bool(self._pieces) or self.transport.is_closing()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _HIGH and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._wake()

    # What the task calls.

    async def receive(self, seconds: float) -> bytes:
        """What came; empty at the connection's end.

        Raises:
            TimeoutError: Nothing came for so long.
        """
        if not self._pieces and not self._ended:
            await self._wait(seconds)
        pieces, self._pieces, self._size = self._pieces, [], 0
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def stop_timer(self) -> None:
        """Forgets the time-out of the response that was read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abort(self) -> None:
        """Ends the connection at once."""
        self.stop_timer()
        self.transport.abort()

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        # One timer for all waits of a response, which looks when it goes off whether it is time: a
        # timer for each of a stream's tokens would cost as much as the token.
        self._until = loop.time() + seconds
        if self._timer is None or self._timer.when() > self._until:
            self.stop_timer()
            self._timer = loop.call_at(self._until, self._look_at_time)
        self._waiter = loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _look_at_time(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._until - 0.001:  # timers may go off a little early
            waiter.set_exception(TimeoutError())
        else:
            self._timer = loop.call_at(self._until, self._look_at_time)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class AsyncResponse:
    """A response, whole or with its body still to come.

    Attributes:
        content: The body of a whole response.
    """

    def __init__(
        self, pool: AsyncConnections, connection: _Connection, bounds: ReplyBounds, wait: float
    ) -> None:
        self.content = b""
        self._pool = pool
        self._connection: _Connection | None = connection
        self._bounds = bounds
        self._wait = wait
        self._reader = ResponseReader()
        self._first = b""  # what of the body came with the head
        self._count = 0  # bytes that came

    @property
    def status(self) -> int:
        """The status."""
        return self._reader.status

    @property
    def headers(self) -> dict[str, str]:
        """The header fields by their names in small letters."""
        return self._reader.headers

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end.

        Raises:
            HTTPFailure: It does not come to its end.
            OrchestratorError: It is not within its bounds.
        """
        piece, self._first = self._first, b""
        while not piece and not self._reader.complete:
            piece = await self._receive()
        if piece:
            self._bounds.take(len(piece))
        else:
            self.close()
        return piece

    def close(self) -> None:
        """Keeps the connection of a response that was read to its end, and ends any other."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.stop_timer()
        if self._reader.complete and self._reader.reusable:
            self._pool._keep(connection)
        else:
            connection.abort()
        self._pool._turns.release()

    async def _send(self, request: bytes) -> None:
        assert self._connection is not None
        self._connection.transport.write(request)
        while not self._reader.status:
            self._first += await self._receive()

    async def _receive(self) -> bytes:
        connection, bounds, wait = self._connection, self._bounds, self._wait
        if connection is None:
            raise Disconnected("the response is closed")
        if self._count > FREE:
            await give_way()
        if bounds.ends is not None:
            bounds.check_time()
            wait = max(min(wait, bounds.ends - time.monotonic()), 0.001)
        try:
            data = await connection.receive(wait)
        except TimeoutError:
            bounds.check_time()
            raise ReadTimedOut("the server sends nothing") from None
        self._count += len(data)
        if data:
            return self._reader.feed(data)
        self._reader.finish()
        return b""
