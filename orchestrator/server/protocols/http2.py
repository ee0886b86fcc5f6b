"""HTTP/2 without TLS, for clients that speak it from the first byte ("prior knowledge").

AWS's SDK for JavaScript does: its clients of the two runtimes know no other protocol. `h2` reads
and writes the frames. What it leaves to its users is here: flow control in both directions, and
limits for what a client can make the server do. (Uvicorn's own HTTP/2 counts none of it, and its
library is a young one in Zig.)

| what a client does | what happens |
|---|---|
| has over 100 streams | GOAWAY |
| opens streams faster than the work for those that it reset ends | REFUSED_STREAM |
| sends frames that carry no request, headers or frames that are too large | `frame_gate`: GOAWAY |
| sends no whole headers, or has no stream, for 20 seconds | GOAWAY |
| gives no room for an answer, or does not read it, for 60 seconds | its stream is reset |
| does not read what it has caused | nothing more of it is read, until it does |
| lets a body wait | flow control: it is given room for what the application has read |
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, StreamClosedError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from orchestrator.server.protocols.frame_gate import HEAD_BYTES, FloodError, FrameGate
from orchestrator.server.protocols.http2_stream import Headers, Http2Stream
from orchestrator.server.protocols.request_head import MalformedRequest, build_scope

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# As many as clients expect before they are told.
_STREAMS = 100
# With those that were reset and whose work has not ended yet.
_TASKS = 200
# Bytes of bodies that wait to be read.
_STREAM_WINDOW, _CONNECTION_WINDOW = 262_144, 1_048_576
# `h2` goes through all that it is given before anything can be said against it.
_SLICE_BYTES = 16_384
# Of headers that the client remembers. A client may ask for gigabytes, which are searched one by
# one for each header.
_TABLE_BYTES = 4_096
# Seconds in which a client may read why its connection ends.
_LAST_WORDS = 1.0

_CONFIG = H2Configuration(client_side=False, header_encoding=None, validate_outbound_headers=False)


class _Connection(H2Connection):
    MAX_CLOSED_STREAMS = 1_000
    DEFAULT_MAX_HEADER_LIST_SIZE = HEAD_BYTES


class Http2Protocol(asyncio.Protocol):
    """A connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
        idle_seconds: float,
    ) -> None:
        self._app: Any = config.loaded_app
        self._server = server_state
        self._loop = loop
        self._idle_seconds = idle_seconds
        # What a request does changes the context of its task, and must not change that of others.
        self._context = contextvars.copy_context()
        self._common: dict[str, Any] = {
            "asgi": {"version": config.asgi_version, "spec_version": "2.3"},
            "scheme": "http",
            "root_path": config.root_path,
            "state": app_state,
        }
        self._h2 = _Connection(_CONFIG)
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: _STREAMS,
                SettingCodes.MAX_HEADER_LIST_SIZE: HEAD_BYTES,
                SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
            },
        )
        self._gate = FrameGate(loop.time)
        self._streams: dict[int, Http2Stream] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False  # whether the client does not read
        self._leaving = False  # whether it was told that no more requests are taken
        self._ended = False  # whether nothing more is read, and nothing but the end written

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Says what this server allows."""
        self._transport = transport
        self._server.connections.add(self)  # type: ignore[arg-type]
        self._common["server"] = get_local_addr(transport)
        self._common["client"] = get_remote_addr(transport)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_CONNECTION_WINDOW - 65_535)
        self._flush()
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        """Reads frames."""
        for start in range(0, len(data), _SLICE_BYTES):
            if not self._ended:
                self._read(data[start : start + _SLICE_BYTES])
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells all requests that their client has gone."""
        self._server.connections.discard(self)
        self._ended = True
        self._disconnect_all()
        self._update_timer()

    def pause_writing(self) -> None:
        """Reads no more from a client that does not read: most of what it sends is answered."""
        self._paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Goes on with everything."""
        self._paused = False
        # The reader is called in the context that it was set in, and begins the tasks of requests.
        self._context.copy().run(self._transport.resume_reading)
        self._wake_all()

    def shutdown(self) -> None:
        """Takes no more requests; uvicorn calls it when the server is to end."""
        self._say_goodbye()
        self._close_if_done()

    # -- what comes in --------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        try:
            for event in self._h2.receive_data(self._gate.pass_on(data)):
                self._handle(event)
        except FloodError:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)
        except H2Error:
            # It has written a GOAWAY that says what is wrong.
            self._flush()
            self._end(None)
        else:
            self._flush()

    def _handle(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._open(event)
        elif isinstance(event, RemoteSettingsChanged):
            encoder = self._h2.encoder
            encoder.header_table_size = min(encoder.header_table_size, _TABLE_BYTES)
            self._wake_all()
        elif isinstance(event, WindowUpdated) and not event.stream_id:
            self._wake_all()
        else:
            stream = self._streams.get(getattr(event, "stream_id", 0) or 0)
            if stream is not None:
                _pass_to_stream(stream, event)
            elif isinstance(event, DataReceived):
                # Its request was refused.
                self.acknowledge(event.stream_id, event.flow_controlled_length)

    def _open(self, event: RequestReceived) -> None:
        self._gate.refund()
        id = event.stream_id
        if self._leaving or len(self._streams) >= _TASKS:
            self._try(lambda: self._h2.reset_stream(id, ErrorCodes.REFUSED_STREAM))
            return
        try:
            has_body = event.stream_ended is None
            scope = build_scope(event.headers, self._common, has_body=has_body)
        except MalformedRequest:
            self._try(lambda: self._h2.reset_stream(id, ErrorCodes.PROTOCOL_ERROR))
            return
        stream = self._streams[id] = Http2Stream(id, scope, self)
        task = self._loop.create_task(stream.run(self._app), context=self._context.copy())
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    # -- what goes out; `http2_stream.Connection` -------------------------------------------------

    def send_headers(self, stream_id: int, headers: Headers) -> None:
        """Sends the headers of an answer, or of a part before it."""
        headers = list(headers)
        if headers[0] != (b":status", b"100"):
            headers[1:1] = self._server.default_headers
        self._try(lambda: self._h2.send_headers(stream_id, headers))

    def send_data(self, stream_id: int, data: bytes, *, end: bool) -> int:
        """Sends what the client has room for; how many bytes that is. `end` is for the last one."""
        sent = 0
        while sent < len(data) and (room := self._find_room(stream_id)):
            piece = data[sent : sent + room]
            sent += len(piece)
            self._send_frame(stream_id, piece, end and sent == len(data))
        if end and not data:
            self._try(lambda: self._h2.end_stream(stream_id))
        return sent

    def _find_room(self, stream_id: int) -> int:
        if self._paused:
            return 0
        try:
            window = self._h2.local_flow_control_window(stream_id)
        except H2Error:
            return 0  # reset meanwhile, and its request is told so
        return max(0, min(window, self._h2.max_outbound_frame_size))

    def _send_frame(self, stream_id: int, piece: bytes, end: bool) -> None:
        self._try(lambda: self._h2.send_data(stream_id, piece, end_stream=end))
        self._gate.earn(len(piece))

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Lets the client send so many more bytes of the body."""
        self._try(lambda: self._h2.acknowledge_received_data(size, stream_id))

    def reset(self, stream_id: int, *, failed: bool) -> None:
        """Ends the stream in both directions."""
        code = ErrorCodes.INTERNAL_ERROR if failed else ErrorCodes.NO_ERROR
        self._try(lambda: self._h2.reset_stream(stream_id, code))

    def finish(self, stream_id: int) -> None:
        """Forgets the stream: nothing more is done for it."""
        self._streams.pop(stream_id, None)
        self._server.total_requests += 1
        self._close_if_done()
        self._update_timer()

    def _try(self, action: Callable[[], None]) -> None:
        """Sends something, unless the client has ended the stream or the connection meanwhile."""
        if self._ended:
            return
        try:
            action()
        except StreamClosedError:
            return
        self._flush()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    # -- ends -----------------------------------------------------------------------------------

    def _say_goodbye(self, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        # By hand: `h2` would send nothing more, and answers are still to come.
        if not self._leaving and not self._transport.is_closing():
            last = self._h2.highest_inbound_stream_id
            frame = GoAwayFrame(0, last_stream_id=last, error_code=code)
            self._transport.write(frame.serialize())
        self._leaving = True

    def _close_if_done(self) -> None:
        if (self._leaving or self._gate.goodbye) and not self._streams and not self._ended:
            self._ended = True
            self._transport.close()

    def _end(self, code: ErrorCodes | None) -> None:
        """Ends the connection, whatever it is in the middle of; `None` when that was said."""
        if code is not None:
            self._say_goodbye(code)
        self._disconnect_all()
        self._ended = True
        if not self._transport.is_closing():
            # To close a socket with something unread in it takes back what was sent.
            self._transport.write_eof()
            self._loop.call_later(_LAST_WORDS, self._transport.abort, context=self._context)

    def _disconnect_all(self) -> None:
        for stream in self._streams.values():
            stream.disconnect()

    def _wake_all(self) -> None:
        for stream in self._streams.values():
            stream.wake()

    def _update_timer(self) -> None:
        """Waits for a request while there is none, and for the rest of one that has begun."""
        if self._ended or (self._streams and not self._gate.in_head):
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None:
            self._timer = self._loop.call_later(
                self._idle_seconds, self._end, ErrorCodes.NO_ERROR, context=self._context
            )


def _pass_to_stream(stream: Http2Stream, event: Event) -> None:
    if isinstance(event, DataReceived):
        stream.add_body(event.data, event.flow_controlled_length)
    elif isinstance(event, StreamEnded):
        stream.end_body()
    elif isinstance(event, StreamReset):
        stream.disconnect()
    elif isinstance(event, WindowUpdated):
        stream.wake()
