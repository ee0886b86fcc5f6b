"""Row 16: requests that would use up a server's memory, connections or time."""

from __future__ import annotations

import gzip
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, closing
from select import select
from urllib.parse import urlsplit

import pytest
from server_requests import send

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState

MOST = 500_000


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that waits for a body for half a second, or as long as a test says."""
    seconds = getattr(request, "param", 0.5)
    settings = Settings(port=0, body_bytes=MOST, body_seconds=seconds, concurrency=40)
    with ServerState(settings) as world, serve_in_thread(world) as url:
        yield url


def started(url: str, head: bytes, rest: bytes = b"") -> socket.socket:
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=60)
    connection.sendall(b"POST /agents/ HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n" + rest)
    return connection


def status(connection: socket.socket) -> int:
    return int(connection.recv(200).split()[1])


def test_bodies_that_trickle_in_do_not_keep_their_places(url: str) -> None:
    with ExitStack() as stack:
        slow = [
            stack.enter_context(closing(started(url, b"Content-Length: 100\r\n")))
            for _ in range(40)
        ]
        assert {status(one) for one in slow} == {408}
        assert send(url).status == 200


@pytest.mark.parametrize("url", [120.0], indirect=True)  # so that nobody is late
def test_unknown_callers_hold_only_so_much(url: str) -> None:
    """Forty bodies that never end are not forty times the largest body in memory."""
    tracemalloc.start()
    with ExitStack() as stack:
        head = f"Content-Length: {MOST}\r\n".encode()
        many = [stack.enter_context(closing(started(url, head))) for _ in range(40)]
        for one in many:
            one.sendall(b" " * (MOST - 1))
        waiting = set(many)
        while len(waiting) > 8:
            answered, _, _ = select(waiting, [], [], 60)
            assert {status(one) for one in answered} == {429}
            waiting.difference_update(answered)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * MOST


@pytest.mark.parametrize("length", ["9" * 30, str(MOST + 1), "100000000000"])
def test_lengths_that_are_too_large_are_refused_unread(url: str, length: str) -> None:
    with closing(started(url, f"Content-Length: {length}\r\n".encode())) as connection:
        assert status(connection) in (400, 413)


def test_a_compressed_body_is_not_unpacked(url: str) -> None:
    body = gzip.compress(b'{"nextToken": "' + b"a" * 50_000_000 + b'"}')
    assert len(body) < MOST
    assert send(url, body=body, headers={"Content-Encoding": "gzip"}).status == 400


def test_a_head_without_end(url: str) -> None:
    with closing(started(url, b"X: " + b"a" * 100_000)) as connection:
        assert status(connection) == 400


@pytest.mark.usefixtures("no_collection")
def test_deeply_nested_json(url: str) -> None:
    assert send(url, body=b"[" * 200_000).status == 400
    assert send(url, body=b'{"a":' * 60_000 + b"1" + b"}" * 60_000).status in (200, 400)


@pytest.mark.parametrize(
    "folded",
    [
        b"X: a\r\n b\r\n",
        b"X: a\n\tTransfer-Encoding: chunked\r\n",
        b"Content-Length: 0\r\n 5\r\n",
        b"X:\r\n \r\n",
    ],
)
@pytest.mark.parametrize("second", [False, True])
def test_a_header_over_several_lines_is_refused(url: str, folded: bytes, second: bool) -> None:
    # The server would read one header where a proxy before it may have read two.
    whole = b"Content-Length: 2\r\n\r\n{}POST /agents/ HTTP/1.1\r\nHost: localhost\r\n"
    with closing(started(url, (whole if second else b"") + folded)) as connection:
        told = b""
        while piece := connection.recv(10_000):
            told += piece
    statuses = [it.split()[0] for it in told.split(b"HTTP/1.1 ")[1:]]
    assert statuses == ([b"200"] * second + [b"400"])
    assert b"several lines" in told


@pytest.mark.parametrize(
    ("sent", "told"),
    [(b"X: a\r\n b\r\n\r\n", b"several lines"), (b"X: " + b"a" * 20_000 + b"\r\n\r\n", b"16,384")],
    ids=["folded", "large"],
)
def test_so_is_one_after_a_body_that_came_late(url: str, sent: bytes, told: bytes) -> None:
    netloc = urlsplit(url).netloc.encode()
    head = b"GET /ping HTTP/1.1\r\nHost: " + netloc + b"\r\n"
    parts = urlsplit(url)
    with closing(socket.create_connection((parts.hostname, parts.port), timeout=60)) as client:
        client.sendall(head + b"Content-Length: 2\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"{}" + head + sent)
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ") and told in answer


def test_a_head_that_is_too_large_and_comes_at_once(url: str) -> None:
    with closing(started(url, b"X: " + b"a" * 16_384 + b"\r\n")) as connection:
        assert status(connection) == 400


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_body_with_such_lines_is_none_of_a_head(url: str, piece: int) -> None:
    body = b'{\r\n "maxResults":\n\t5}'
    head = f"POST /agents/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    sent = (head.encode() + body) * 2
    parts = urlsplit(url)
    with closing(socket.create_connection((parts.hostname, parts.port), timeout=60)) as one:
        for start in range(0, len(sent), piece):
            one.sendall(sent[start : start + piece])
        told = b""
        while told.count(b"agentSummaries") < 2:
            told += one.recv(10_000)
    assert told.count(b"HTTP/1.1 200") == 2


def test_a_request_whose_end_is_told_twice_is_refused_with_all_that_follows(url: str) -> None:
    hidden = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"
    # At once: what comes after the refusal may reset the connection before the answer is read.
    with closing(started(url, head, b"0\r\n\r\n" + hidden)) as connection:
        told = b""
        while piece := connection.recv(10_000):
            told += piece
    assert told.startswith(b"HTTP/1.1 400") and told.count(b"HTTP/1.1") == 1
    assert b"not both" in told
