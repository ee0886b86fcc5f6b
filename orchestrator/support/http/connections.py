"""Connections of threads that wait: kept ones first, as many idle ones as are worth keeping."""

from __future__ import annotations

import socket
import ssl
import time
import weakref
from contextlib import suppress
from threading import Semaphore
from typing import NamedTuple

from orchestrator.support.http.failures import (
    ConnectFailed,
    ConnectTimedOut,
    Disconnected,
    ReadTimedOut,
    TLSFailed,
)
from orchestrator.support.http.messages import ResponseReader
from orchestrator.support.http.proxies import Proxy, TunnelReader, encode_connect
from orchestrator.support.http.sockets import close_in_children, is_readable
from orchestrator.support.reply_bounds import ReplyBounds

_PIECE = 65_536
# What of an error's body is read: it says why, and is no reply.
ERROR_BYTES = 65_536


class Address(NamedTuple):
    """Where a server listens; `tls` is how to speak to it over TLS, or `None`.

    A proxy tunnels what is spoken over TLS, and forwards other requests, whose targets say whereto.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    proxy: Proxy | None = None

    @property
    def first(self) -> tuple[str, int]:
        """Where to connect to."""
        return (self.host, self.port) if self.proxy is None else self.proxy[:2]


class Waits(NamedTuple):
    """Seconds at most: for a connection, and for the next bytes of a response."""

    connect: float
    read: float


class Connections:
    """Connections to one server, for any number of threads.

    At most `most` are open at once; further requests wait for one. A connection that is in use
    belongs to one response; the most recently used idle one is taken first. One that the server
    has ended meanwhile is noticed before anything is sent.
    """

    def __init__(self, address: Address, waits: Waits, most: int) -> None:
        """Opens nothing yet."""
        self._address = address
        self._waits = waits
        self._most = most
        self._turns = Semaphore(most)
        self._idle: list[socket.socket] = []
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        close_in_children(self)
        weakref.finalize(self, _close_all, self._idle)

    def send(self, request: bytes, bounds: ReplyBounds, *, streamed: bool) -> Response:
        """The response to a request; read to its end unless it is `streamed` and has status 200.

        Of an error's body the beginning is read, whatever the reply may take.

        Raises:
            HTTPFailure: There is none.
            OrchestratorError: The response is not within its bounds.
        """
        bounds.check_time()
        if not self._turns.acquire(timeout=bounds.compute_time_left()):
            bounds.check_time()
            raise ConnectTimedOut("no connection became free in time")
        try:
            sock = self._take_idle() or self._connect(bounds)
        except BaseException:
            self._turns.release()
            raise
        response = Response(self, sock, bounds, self._waits.read)
        try:
            response._send(request)
            if response.status >= 300:
                response._read_error()
            elif not (streamed and response.status == 200):
                response.content = b"".join(iter(response.read, b""))
        except BaseException:
            response.close()
            raise
        return response

    def close(self) -> None:
        """Closes the idle connections."""
        _close_all(self._idle)

    def close_inherited(self) -> None:
        """Closes, in a forked process, what its parent has open: none of its threads is there."""
        self._idle.clear()
        for sock in self._open:
            sock.close()
        self._turns = Semaphore(self._most)

    def _take_idle(self) -> socket.socket | None:
        with suppress(IndexError):  # another thread may have taken the last one
            while True:
                sock = self._idle.pop()
                if not is_readable(sock):
                    return sock
                sock.close()
        return None

    def _keep(self, sock: socket.socket) -> None:
        self._idle.append(sock)

    def _connect(self, bounds: ReplyBounds) -> socket.socket:
        wait = _shorten(self._waits.connect, bounds)
        try:
            sock = socket.create_connection(self._address.first, wait)
        except TimeoutError:
            bounds.check_time()
            raise ConnectTimedOut("no connection in time") from None
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(type(error).__name__) from None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock = self._secure(sock, bounds)
            self._open.add(sock)
            return sock
        except BaseException as error:
            sock.close()
            if isinstance(error, TimeoutError):
                bounds.check_time()
                raise ConnectTimedOut("no tunnel or TLS handshake in time") from None
            if isinstance(error, OSError):
                raise TLSFailed(type(error).__name__) from None
            raise

    def _secure(self, sock: socket.socket, bounds: ReplyBounds) -> socket.socket:
        host, port, tls, proxy = self._address
        if tls is None:
            return sock
        if proxy is not None:
            sock.sendall(encode_connect(proxy, host, port))
            tunnel = TunnelReader()
            while not tunnel.is_open:
                bounds.check_time()
                tunnel.feed(sock.recv(_PIECE))
        return tls.wrap_socket(sock, server_hostname=host)


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
        piece = self._read()
        self._bounds.take(len(piece))
        return piece

    def _read(self) -> bytes:
        piece, self._first = self._first, b""
        while not piece and not self._reader.complete:
            piece = self._receive()
        if not piece:
            self.close()
        return piece

    def _read_error(self) -> None:
        while len(self.content) < ERROR_BYTES and (piece := self._read()):
            self.content += piece
        self.close()

    def close(self) -> None:
        """Keeps the connection of a response that was read to its end, and closes any other."""
        sock, self._sock = self._sock, None
        if sock is None:
            return
        if self._reader.complete and self._reader.reusable:
            self._pool._keep(sock)
        else:
            sock.close()
        self._pool._turns.release()

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
