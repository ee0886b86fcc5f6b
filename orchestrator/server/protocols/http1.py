"""HTTP/1.1, by uvicorn and h11, and the look at a connection's first bytes."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestrator.server.protocols.batched_writes import BatchedWrites
from orchestrator.server.protocols.http2 import PREFACE, Http2Protocol
from orchestrator.server.protocols.http2_stream import PIECE_BYTES, STALL_SECONDS

# Seconds for a request's head, over both protocols.
HEAD_SECONDS = 20.0
# Seconds between two requests, which uvicorn waits for. A request that is sent just as the server
# ends the connection is lost: balancers are to end it first, and AWS's and nginx do in 60 seconds.
IDLE_SECONDS = 75

# Of a request's head. What `h11` counts is what has come of one that is not whole.
_HEAD_BYTES = 16_384

_NEXT = re.compile(rb"\n(?:(?P<folded>[ \t])|\r?\n)")
"""What ends a head, or the first line of one that goes on in the next line."""


class _Connection(h11.Connection):
    """Looks at each head before it is read, wherever in the data it begins.

    Headers over several lines are refused, as RFC 9112 asks (section 5.2): whoever reads them
    otherwise than the server may see another request in them.
    """

    wrong = ""  # what is wrong with the last head
    _looked = 0  # how much of a head has been looked at

    def next_event(self) -> Any:
        """What comes next.

        Raises:
            RemoteProtocolError: It is no request, or one that is not taken.
        """
        if self.their_state is h11.IDLE and (wrong := self._find_wrong_head()):
            self.wrong = wrong
            raise h11.RemoteProtocolError(wrong)
        return super().next_event()

    def _find_wrong_head(self) -> str:
        head, _ = self.trailing_data
        found = _NEXT.search(head, self._looked)
        # What came before is not looked at again with every byte that comes.
        self._looked = 0 if found else max(len(head) - 2, 0)
        if found is not None and found["folded"] is not None:
            return "A header goes over several lines."
        if (found.start() if found else len(head)) > _HEAD_BYTES:
            return f"The headers have over {_HEAD_BYTES:,} bytes."
        return ""


class Protocol(H11Protocol):
    """HTTP/1.1, for clients that are at it: who sends no whole head within 20 seconds is cut off.

    Uvicorn waits for ever for the rest of a request's head, so that a few thousand clients that
    send a byte now and then would use up all connections ("slow loris"). It also waits for ever
    for a client to read its answer, whose request would hold one of the places at once.

    A client that begins with HTTP/2's preface (RFC 9113, section 3.3: "prior knowledge") has its
    connection handed to `Http2Protocol`.
    """

    _patience: asyncio.TimerHandle | None = None
    # The first bytes, while they may still be those of HTTP/2; `None` once that is known.
    _first: bytes | None = b""
    _reading: asyncio.TimerHandle | None = None  # while the client is to read

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = self._heads = _Connection(h11.SERVER, _HEAD_BYTES)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts waiting for the first request."""
        self._bare = transport
        batched: Any = BatchedWrites(transport, self.loop, self._await_last_reading)
        super().connection_made(batched)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        """Waits on, unless the data has a request's whole head."""
        if self._first is not None:
            data = self._first + data
            if self._may_be_http2(data):
                return
        super().data_received(data)
        self._update_timer()

    def _may_be_http2(self, data: bytes) -> bool:
        if data.startswith(PREFACE):
            self._switch(data)
            return True
        self._first = data if PREFACE.startswith(data) else None
        return self._first is not None

    def _switch(self, data: bytes) -> None:
        """Has another protocol go on with the connection."""
        self._cancel_timer()
        self.connections.discard(self)
        successor = Http2Protocol(
            self.config, self.server_state, self.app_state, self.loop, HEAD_SECONDS
        )
        self._bare.set_protocol(successor)
        successor.connection_made(self._bare)
        successor.data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Says what is wrong with a request's head, where that is known."""
        super().send_400_response(self._heads.wrong or msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Says nothing: the request is answered as it is, and has its line in the log.

        Uvicorn would have a library installed that the server has no use for.
        """

    def on_response_complete(self) -> None:
        """Waits for the next request, or the rest of what has come already."""
        super().on_response_complete()
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no longer."""
        super().connection_lost(exc)
        self._cancel_timer()
        self._end_reading()

    def pause_writing(self) -> None:
        """Waits until the client reads, as long as it does."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """Goes on with the answer."""
        super().resume_writing()
        self._end_reading()
        self._await_last_reading()

    def _await_last_reading(self) -> None:
        # A connection that was told to close does so when all is read.
        is_unread = self.transport.is_closing() and self.transport.get_write_buffer_size()
        if is_unread and self._reading is None:
            self._await_reading()

    def _await_reading(self) -> None:
        self._end_reading()
        unread = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(STALL_SECONDS, self._check_reading, unread)

    def _check_reading(self, before: int) -> None:
        self._reading = None
        if before - self.transport.get_write_buffer_size() < PIECE_BYTES:
            self.transport.abort()
        else:
            self._await_reading()

    def _end_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _update_timer(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_timer()
        elif self.cycle is not None and self._is_idle():
            self._cancel_timer()
            # After a body that came when its request had been answered, uvicorn would not wait.
            if self.timeout_keep_alive_task is None and not self.transport.is_closing():
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
        elif self._patience is None and not self.transport.is_closing():
            self._patience = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _is_idle(self) -> bool:
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _cancel_timer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
