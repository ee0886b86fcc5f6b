"""One request over HTTP/2: its part of the connection, as the two callables of an ASGI server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from starlette.types import ASGIApp, Message, Scope

from orchestrator.server.protocols.request_head import build_response_headers
from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.server")

# A client that reads slower than one piece in so many seconds has gone, as far as it matters here:
# its request would hold one of the places at once for ever.
STALL_SECONDS = 60.0
PIECE_BYTES = 16_384

Headers = Iterable[tuple[bytes, bytes]]


class Connection(Protocol):
    """What a stream needs of its connection."""

    def send_headers(self, stream_id: int, headers: Headers) -> None:
        """Sends the headers of an answer, or of a part before it."""

    def send_data(self, stream_id: int, data: bytes, *, end: bool) -> int:
        """Sends what the client has room for; how many bytes that is. `end` is for the last one."""
        ...

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Lets the client send so many more bytes of the body."""

    def reset(self, stream_id: int, *, failed: bool) -> None:
        """Ends the stream in both directions."""

    def finish(self, stream_id: int) -> None:
        """Forgets the stream: nothing more is done for it."""


class Http2Stream:
    """A request and its answer."""

    def __init__(self, id: int, scope: Scope, connection: Connection) -> None:
        self.id = id
        self.scope = scope
        self._connection = connection
        self._body = bytearray()
        self._unread = 0  # bytes of the body, with padding, that the client gets no room for yet
        self._more_body = True
        self._gone = False  # whether nobody waits for the answer any more
        self._started = self._complete = False
        self._news = asyncio.Event()  # for `receive`
        self._room = asyncio.Event()  # for `send`
        self._awaits_continue = (b"expect", b"100-continue") in scope["headers"]

    # -- what the connection tells it -----------------------------------------------------------

    def add_body(self, data: bytes, size: int) -> None:
        """Takes a piece of the body; `size` is that of its frame."""
        self._body += data
        self._unread += size
        self._news.set()

    def end_body(self) -> None:
        """Takes note that the body is whole."""
        self._more_body = False
        self._news.set()

    def disconnect(self) -> None:
        """Takes note that the client has gone, or wants no answer."""
        self._gone = True
        self._news.set()
        self._room.set()

    def wake(self) -> None:
        """Takes note that there may be room to send."""
        self._room.set()

    # -- ASGI -----------------------------------------------------------------------------------

    async def run(self, app: ASGIApp) -> None:
        """Has the application answer."""
        try:
            # Reset together with the request: there was nothing to begin.
            if not self._gone:
                await app(self.scope, self._receive, self._send)
            if not self._gone and not self._complete:
                raise RuntimeError("the application returned without completing the response")
        except BaseException as error:
            _log.error("Exception in ASGI application", exc_info=error)
            self._fail()
        finally:
            self._acknowledge()
            self._connection.finish(self.id)

    def _fail(self) -> None:
        if self._gone or self._complete:
            return
        if self._started:
            self._reset(failed=True)
            return
        text = b"Internal Server Error"
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        self._connection.send_headers(self.id, build_response_headers(500, headers))
        if self._connection.send_data(self.id, text, end=True) < len(text):
            self._reset(failed=True)

    def _reset(self, *, failed: bool) -> None:
        self._connection.reset(self.id, failed=failed)
        self.disconnect()

    async def _receive(self) -> Message:
        if self._awaits_continue:
            self._awaits_continue = False
            if not self._gone and not self._started:
                self._connection.send_headers(self.id, build_response_headers(100, ()))
        if not self._gone and not self._complete:
            await self._news.wait()
            self._news.clear()
        if self._gone or self._complete:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        self._acknowledge()
        return {"type": "http.request", "body": body, "more_body": self._more_body}

    def _acknowledge(self) -> None:
        size, self._unread = self._unread, 0
        if size:
            self._connection.acknowledge(self.id, size)

    async def _send(self, message: Message) -> None:
        if self._gone:
            return
        expected = "http.response.body" if self._started else "http.response.start"
        if self._complete or message["type"] != expected:
            raise RuntimeError(f"an unexpected ASGI message {message['type']!r}")
        if not self._started:
            headers = build_response_headers(message["status"], message.get("headers", ()))
            self._connection.send_headers(self.id, headers)
            self._started = True
            return
        body = b"" if self.scope["method"] == "HEAD" else message.get("body", b"")
        await self._send_body(body, end=not message.get("more_body", False))

    async def _send_body(self, body: bytes, *, end: bool) -> None:
        if not body and not end:
            return
        for start in range(0, len(body) or 1, PIECE_BYTES):
            piece = body[start : start + PIECE_BYTES]
            await self._send_piece(piece, end=end and start + len(piece) == len(body))
        if end and not self._gone:
            self._complete = True
            self._news.set()
            # What is still to come of the request's body has no reader (RFC 9113, section 8.1).
            if self._more_body:
                self._connection.reset(self.id, failed=False)

    async def _send_piece(self, piece: bytes, *, end: bool) -> None:
        sent = self._connection.send_data(self.id, piece, end=end)
        if sent == len(piece):
            return
        try:
            async with asyncio.timeout(STALL_SECONDS):
                while not self._gone and sent < len(piece):
                    self._room.clear()
                    await self._room.wait()
                    if not self._gone:
                        sent += self._connection.send_data(self.id, piece[sent:], end=end)
        except TimeoutError:
            self._reset(failed=True)
