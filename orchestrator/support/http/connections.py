"""Connections of threads that wait: kept ones first, as many idle ones as are worth keeping."""

from __future__ import annotations

import socket
import ssl
import time
import weakref
from contextlib import suppress
from typing import NamedTuple

from orchestrator.support.http.failures import (
    ConnectFailed,
    ConnectTimedOut,
    Disconnected,
    ReadTimedOut,
    TLSFailed,
)
from orchestrator.support.http.messages import ResponseReader
from orchestrator.support.http.sockets import close_in_children, is_readable
from orchestrator.support.reply_bounds import ReplyBounds

_PIECE = 65_536


class Address(NamedTuple):
    """Where a server listens; `tls` is how to speak to it over TLS, or `None`."""

    host: str
    port: int
    tls: ssl.SSLContext | None


class Waits(NamedTuple):
    """Seconds at most: for a connection, and for the next bytes of a response."""

    connect: float
    read: float


class Connections:
    """Connections to one server, for any number of threads.

    A connection that is in use belongs to one response; the most recently used idle one is taken
    first. One that the server has ended meanwhile is noticed before anything is sent.
    """

    def __init__(self, address: Address, waits: Waits, most_idle: int) -> None:
        """Opens nothing yet; keeps up to `most_idle` connections."""
        self._address = address
        self._waits = waits
        self._most_idle = most_idle
        self._idle: list[socket.socket] = []
        close_in_children(self)
        weakref.finalize(self, _close_all, self._idle)

    def send(self, request: bytes, bounds: ReplyBounds, *, streamed: bool) -> Response:
        """The response to a request; read to its end unless it is `streamed` and no error.

        Raises:
            HTTPFailure: There is none.
            OrchestratorError: The response is not within its bounds.
        """
        bounds.check_time()
        sock = self._take_idle() or self._connect(bounds)
        response = Response(self, sock, bounds, self._waits.read)
        try:
            response._send(request)
            if not (streamed and response.status < 300):
                response.content = b"".join(iter(response.read, b""))
        except BaseException:
            response.close()
            raise
        return response

    def close(self) -> None:
        """Closes the idle connections."""
        _close_all(self._idle)

    close_inherited = close

    def _take_idle(self) -> socket.socket | None:
        with suppress(IndexError):  # another thread may have taken the last one
            while True:
                sock = self._idle.pop()
                if not is_readable(sock):
                    return sock
                sock.close()
        return None

    def _keep(self, sock: socket.socket) -> None:
        if len(self._idle) < self._most_idle:
            self._idle.append(sock)
        else:
            sock.close()

    def _connect(self, bounds: ReplyBounds) -> socket.socket:
        host, port, tls = self._address
        wait = _shorten(self._waits.connect, bounds)
        try:
            sock = socket.create_connection((host, port), wait)
        except TimeoutError:
            bounds.check_time()
            raise ConnectTimedOut("no connection in time") from None
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(type(error).__name__) from None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return sock if tls is None else tls.wrap_socket(sock, server_hostname=host)
        except BaseException as error:
            sock.close()
            if isinstance(error, TimeoutError):
                bounds.check_time()
                raise ConnectTimedOut("no TLS handshake in time") from None
            if isinstance(error, OSError):
                raise TLSFailed(type(error).__name__) from None
            raise


def _close_all(idle: list[socket.socket]) -> None:
    while idle:
        idle.pop().close()


def _shorten(seconds: float, bounds: ReplyBounds) -> float:
    if bounds.ends is None:
        return seconds
    return max(min(seconds, bounds.ends - time.monotonic()), 0.001)


class Response:
    """A response, whole or with its body still to come.

    Attributes:
        content: The body of a whole response.
    """

    def __init__(
        self, pool: Connections, sock: socket.socket, bounds: ReplyBounds, wait: float
    ) -> None:
        self.content = b""
        self._pool = pool
        self._sock: socket.socket | None = sock
        self._bounds = bounds
        self._wait = wait
        self._reader = ResponseReader()
        self._first = b""  # what of the body came with the head

    @property
    def status(self) -> int:
        """The status."""
        return self._reader.status

    @property
    def headers(self) -> dict[str, str]:
        """The header fields by their names in small letters."""
        return self._reader.headers

    def read(self) -> bytes:
        """The next piece of the body; empty at its end.

        Raises:
            HTTPFailure: It does not come to its end.
            OrchestratorError: It is not within its bounds.
        """
        piece, self._first = self._first, b""
        while not piece and not self._reader.complete:
            piece = self._receive()
        if piece:
            self._bounds.take(len(piece))
        else:
            self.close()
        return piece

    def close(self) -> None:
        """Keeps the connection of a response that was read to its end, and closes any other."""
        sock, self._sock = self._sock, None
        if sock is None:
            return
        if self._reader.complete and self._reader.reusable:
            self._pool._keep(sock)
        else:
            sock.close()

    def _send(self, request: bytes) -> None:
        sock = self._sock
        assert sock is not None
        sock.settimeout(_shorten(self._wait, self._bounds))
        try:
            sock.sendall(request)
        except TimeoutError:
            self._bounds.check_time()
            raise ReadTimedOut("the server takes no more of the request") from None
        except BrokenPipeError:
            pass  # the server may have said why before it hung up
        except OSError as error:
            raise Disconnected(type(error).__name__) from None
        while not self._reader.status:
            self._first += self._receive()

    def _receive(self) -> bytes:
        sock, bounds = self._sock, self._bounds
        if sock is None:
            raise Disconnected("the response is closed")
        if bounds.ends is not None:
            bounds.check_time()
            sock.settimeout(_shorten(self._wait, bounds))
        try:
            data = sock.recv(_PIECE)
        except TimeoutError:
            bounds.check_time()
            raise ReadTimedOut("the server sends nothing") from None
        except OSError as error:
            raise Disconnected(type(error).__name__) from None
        if data:
            return self._reader.feed(data)
        self._reader.finish()
        return b""
