"""Connections of event loops: a plain list of idle ones for each loop, and a bound for all."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from threading import Lock
from weakref import WeakKeyDictionary, WeakSet, ref

from orchestrator.support.http.connections import ERROR_BYTES, Address, Waits
from orchestrator.support.http.failures import (
    ConnectFailed,
    ConnectTimedOut,
    Disconnected,
    ReadTimedOut,
    TLSFailed,
)
from orchestrator.support.http.fairness import FREE, give_way
from orchestrator.support.http.messages import ResponseReader
from orchestrator.support.http.protocol import Connection
from orchestrator.support.http.sockets import close_in_children
from orchestrator.support.reply_bounds import ReplyBounds


class LoopConnections:
    """`AsyncConnections` to one server for every event loop that asks, in whatever thread.

    They belong to their loop. When it is closed without having shut down, nobody else keeps them:
    they end as soon as they are collected as garbage.
    """

    def __init__(self, address: Address, waits: Waits, most: int) -> None:
        """Opens nothing yet; see `AsyncConnections`."""
        self._parts = address, waits, most
        # A pool is kept by its connections, and they by their loop.
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[AsyncConnections]] = (
            WeakKeyDictionary()
        )
        self._lock = Lock()

    def get(self) -> AsyncConnections:
        """Those of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            known = self._pools.get(loop)
            pool = None if known is None else known()
            if pool is None:
                pool = AsyncConnections(*self._parts)
                self._pools[loop] = ref(pool)
        return pool


class AsyncConnections:
    """Connections to one server, for the tasks of one event loop.

    At most `most` are open at once; further requests wait for one. They end as their loop shuts
    down: it closes the generators that began on it.
    """

    def __init__(self, address: Address, waits: Waits, most: int) -> None:
        """Opens nothing yet."""
        self._address = address
        self._waits = waits
        self._turns = asyncio.Semaphore(most)
        self._idle: list[Connection] = []
        self._open: WeakSet[Connection] = WeakSet()
        self._closing: AsyncIterator[None] | None = None
        close_in_children(self)

    async def send(self, request: bytes, bounds: ReplyBounds, *, streamed: bool) -> AsyncResponse:
        """The response to a request, as `Connections.send` has it.

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
            if response.status >= 300:
                await response._read_error()
            elif not (streamed and response.status == 200):
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
            async with asyncio.timeout(bounds.compute_time_left()):
                await self._turns.acquire()
        except TimeoutError:
            bounds.check_time()
            raise ConnectTimedOut("no connection became free in time") from None

    def close_inherited(self) -> None:
        """Closes, in a forked process, what its parent has open."""
        self._idle.clear()
        for connection in self._open:
            connection.close_inherited()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable():
                return connection
            connection.abort()
        return None

    def _keep(self, connection: Connection) -> None:
        if connection.is_reusable():
            self._idle.append(connection)
        else:
            connection.abort()

    async def _connect(self, bounds: ReplyBounds) -> Connection:
        if self._closing is None:
            self._closing = _close_at_end(self._idle)
            await anext(self._closing)
        left = bounds.compute_time_left()
        wait = self._waits.connect if left is None else min(self._waits.connect, left)
        connection = Connection(self)
        self._open.add(connection)
        try:
            async with asyncio.timeout(wait):
                await connection.open(self._address)
        except BaseException as error:
            connection.abort()  # which may have come about, and too late
            if isinstance(error, TimeoutError):
                bounds.check_time()
                raise ConnectTimedOut("no connection in time") from None
            if isinstance(error, ssl.SSLError):
                raise TLSFailed(type(error).__name__) from None
            if isinstance(error, OSError | UnicodeError):
                raise ConnectFailed(type(error).__name__) from None
            raise
        return connection


async def _close_at_end(idle: list[Connection]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if idle:
            while idle:
                idle.pop().abort()
            await asyncio.sleep(0)  # a transport closes its socket in the loop's next round


async def _read_all(response: AsyncResponse) -> bytes:
    pieces = []
    while piece := await response.read():
        pieces.append(piece)
    return b"".join(pieces)


class AsyncResponse:
    """A response, whole or with its body still to come.

    Attributes:
        content: The body of a whole response.
    """

    def __init__(
        self, pool: AsyncConnections, connection: Connection, bounds: ReplyBounds, wait: float
    ) -> None:
        self.content = b""
        self._pool = pool
        self._connection: Connection | None = connection
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
        piece = await self._read()
        self._bounds.take(len(piece))
        return piece

    async def _read(self) -> bytes:
        piece, self._first = self._first, b""
        while not piece and not self._reader.complete:
            piece = await self._receive()
        if not piece:
            self.close()
        return piece

    async def _read_error(self) -> None:
        while len(self.content) < ERROR_BYTES and (piece := await self._read()):
            self.content += piece
        self.close()

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
        self._connection.write(request)
        while not self._reader.status:
            self._first += await self._receive()

    async def _receive(self) -> bytes:
        connection, bounds, wait = self._connection, self._bounds, self._wait
        if connection is None:
            raise Disconnected("the response is closed")
        if self._count > FREE:
            await give_way()
        elif connection.has_data:
            await asyncio.sleep(0)  # what came at once is looked at piece by piece
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
