"""The log of a server's processes: every line of stderr has the form that was asked for."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from serving_support import Start

UPGRADE = (
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
)


def answer(url: str, sent: bytes) -> bytes:
    """The first line of the answer to some bytes."""
    parts = urlsplit(url)
    with closing(socket.create_connection((parts.hostname, parts.port), timeout=60)) as connection:
        connection.sendall(sent)
        return connection.recv(4096).partition(b"\r\n")[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_no_request_has_a_line_of_the_same_form(
    start: Start, tmp_path: Path, workers: int
) -> None:
    kept = ("--state", tmp_path / "sessions.sqlite", "--workers", workers)
    server = start("--log-format", "json", *kept)
    assert answer(server.url, b"no request\r\n\r\n") == b"HTTP/1.1 400 Bad Request"
    assert answer(server.url, UPGRADE) == b"HTTP/1.1 200 OK"
    server.signal()
    code, log = server.end()
    records = [json.loads(line) for line in log.splitlines()]
    warnings = [it["message"] for it in records if it["level"] != "INFO"]
    assert (code, warnings) == (0, ["Invalid HTTP request received."])
