"""A client of HTTP/2 that sends what it is told to, also what no client should."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

Header = tuple[bytes, bytes]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_CONFIG = H2Configuration(
    client_side=True,
    header_encoding=None,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)


class Answer:
    """What has come for a request.

    Attributes:
        reset: Why the server ended the stream, if it did.
    """

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""
        self.reset: ErrorCodes | int | None = None
        self.ended = self.continues = False

    @property
    def status(self) -> int:
        return int(self.headers[":status"])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_done(self) -> bool:
        return self.ended or self.reset is not None


class Http2Client:
    """One connection.

    Attributes:
        h2: What is known of it.
        goodbye: The server's GOAWAY, once it has come.
        is_open: Whether the server has not closed it.
    """

    def __init__(self, url: str, window: int | None = None) -> None:
        parts = urlsplit(url)
        self.authority = parts.netloc.encode()
        self.h2 = H2Connection(_CONFIG)
        self.goodbye: ErrorCodes | None = None
        self.is_open = True
        self.reads_windows = True
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers: dict[int, Answer] = {}
        self._unread = b""
        if window is not None:
            values = {SettingCodes.INITIAL_WINDOW_SIZE: window}
            self.h2.local_settings = Settings(client=True, initial_values=values)
        self.h2.initiate_connection()
        self.flush()

    def close(self) -> None:
        self._socket.close()

    def flush(self) -> None:
        self.send(self.h2.data_to_send())

    def send(self, data: bytes) -> None:
        """Sends bytes as they are; a server that has enough of them is no error."""
        with suppress(ConnectionError):
            self._socket.sendall(data)

    def send_frames(self, *frames: Frame) -> None:
        self.send(b"".join(frame.serialize() for frame in frames))

    # -- requests -------------------------------------------------------------------------------

    def head(
        self, method: str, path: str, *more: Header, authority: bytes | None = None
    ) -> list[Header]:
        return [
            (b":method", method.encode()),
            (b":scheme", b"http"),
            (b":authority", self.authority if authority is None else authority),
            (b":path", path.encode()),
            *more,
        ]

    def begin(self, head: list[Header], *, end: bool = True) -> int:
        """Sends the headers of a request; the number of its stream."""
        stream = self.h2.get_next_available_stream_id()
        self._answers[stream] = Answer()
        self.h2.send_headers(stream, head, end_stream=end)
        self.flush()
        return stream

    def ask(self, method: str, path: str, body: bytes = b"", *more: Header) -> int:
        """Sends a request; the number of its stream."""
        stream = self.begin(self.head(method, path, *more), end=not body)
        while body:
            room = self.h2.local_flow_control_window(stream)
            size = min(room, len(body), self.h2.max_outbound_frame_size)
            if not size:
                self._read()
                if self.answer(stream).is_done:
                    break
                continue
            self.h2.send_data(stream, body[:size], end_stream=size == len(body))
            self.flush()
            body = body[size:]
        return stream

    def request(self, method: str, path: str, body: bytes = b"", *more: Header) -> Answer:
        """Sends a request, and waits for its answer."""
        return self.finish(self.ask(method, path, body, *more))

    # -- answers --------------------------------------------------------------------------------

    def answer(self, stream: int) -> Answer:
        """What has come so far."""
        return self._answers[stream]

    def finish(self, stream: int) -> Answer:
        """The answer, once it is whole, or the server has ended its stream or the connection."""
        self.read_until(lambda: self.answer(stream).is_done)
        return self.answer(stream)

    def read_until(self, is_so: Callable[[], object]) -> None:
        while not is_so() and self.is_open:
            self._read()

    def read_to_end(self) -> ErrorCodes | None:
        """Reads until the server has closed the connection; why it did."""
        self.read_until(lambda: False)
        return self.goodbye

    def _read(self) -> None:
        try:
            data = self._socket.recv(65_536)
        except ConnectionError:
            data = b""
        self.is_open = bool(data)
        self._unread += data
        while len(self._unread) >= 9:
            end = 9 + int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < end:
                break
            frame, self._unread = self._unread[:end], self._unread[end:]
            # `h2` would read no more after it.
            if frame[3] == GoAwayFrame.type:
                self.goodbye = ErrorCodes(int.from_bytes(frame[13:17], "big"))
                continue
            for event in self.h2.receive_data(frame):
                self._note(event)
        self.flush()

    def _note(self, event: Event) -> None:
        answer = self._answers.get(getattr(event, "stream_id", 0) or 0)
        if answer is None:
            return
        if isinstance(event, ResponseReceived):
            answer.headers = {name.decode(): value.decode() for name, value in event.headers}
        elif isinstance(event, InformationalResponseReceived):
            answer.continues = True
        elif isinstance(event, DataReceived):
            answer.body += event.data
            if self.reads_windows:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            answer.ended = True
        elif isinstance(event, StreamReset):
            answer.reset = event.error_code


@contextmanager
def http2(url: str, window: int | None = None) -> Iterator[Http2Client]:
    """A connection; `window` is how many bytes of each answer may come at first."""
    client = Http2Client(url, window)
    try:
        yield client
    finally:
        client.close()
