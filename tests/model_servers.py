"""A loopback HTTP server that answers from a script, and the wire formats to write it in."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event
from typing import Any

from loopback import Served


@dataclass
class Answer:
    """One HTTP response; pieces are sent as chunks, and `cut` leaves out the last chunk."""

    body: bytes | Iterable[bytes] = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    body: bytes
    peer: int = 0

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


class Loopback(Served):
    """Serves `answers` to POSTs in order, the last one again and again."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.asked: list[Asked] = []
        # What a GET is answered with, and the paths of those that came.
        self.listing = Answer(b"", 501)
        self.listed: list[str] = []
        self.hung_up = Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _handler(self) -> type[_Handler]:
        return type("Handler", (_Handler,), {"loopback": self})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each body waits 40 ms for the client's acknowledgement
    loopback: Loopback

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.loopback.listed.append(self.path)
        self._try_send(self.loopback.listing)

    def do_POST(self) -> None:
        loopback = self.loopback
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        loopback.asked.append(Asked(self.path, headers, body, self.client_address[1]))
        index = min(len(loopback.asked), len(loopback.answers)) - 1
        self._try_send(loopback.answers[index])

    def _try_send(self, answer: Answer) -> None:
        try:
            self._send(answer)
        except OSError:
            self.loopback.hung_up.set()
            self.close_connection = True

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if isinstance(answer.body, bytes):
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in answer.body:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        if answer.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One message of AWS's event stream encoding (application/vnd.amazon.eventstream)."""
    encoded = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(encoded) + len(payload), len(encoded))
    prelude += struct.pack(">I", zlib.crc32(prelude))
    message = prelude + encoded + payload
    return message + struct.pack(">I", zlib.crc32(message))


def event(kind: str, payload: dict[str, Any]) -> bytes:
    headers = {
        ":message-type": "event",
        ":event-type": kind,
        ":content-type": "application/json",
    }
    return frame(headers, json.dumps(payload).encode())


def failure(kind: str, message: str) -> bytes:
    headers = {
        ":message-type": "exception",
        ":exception-type": kind,
        ":content-type": "application/json",
    }
    return frame(headers, json.dumps({"message": message}).encode())


def aws_stream(*frames: bytes, cut: bool = False) -> Answer:
    return Answer(
        list(frames), headers={"Content-Type": "application/vnd.amazon.eventstream"}, cut=cut
    )


def aws_error(code: str, message: str, status: int = 400) -> Answer:
    return Answer(
        json.dumps({"message": message}).encode(),
        status,
        {"x-amzn-ErrorType": code, "x-amzn-RequestId": "req-1", "Content-Type": "application/json"},
    )


def sse(*chunks: Any, cut: bool = False, done: bool = True) -> Answer:
    pieces = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    if done and not cut:
        pieces.append(b"data: [DONE]\n\n")
    return Answer(pieces, headers={"Content-Type": "text/event-stream"}, cut=cut)


def json_answer(value: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(
        json.dumps(value).encode(), status, {"Content-Type": "application/json", **headers}
    )
