"""Clients of HTTP/2 that keep a server busy, fill its memory, or hold its places for nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hpack import Encoder
from http2_client import Http2Client, http2
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    ExtensionFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from server_requests import send
from waiting import until

from orchestrator.server.protocols import http1, http2_stream
from orchestrator.server.protocols import http2 as protocol
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

JSON = (b"content-type", b"application/json")
CONVERSE = b'{"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}'

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves with some settings; the server still works afterwards."""
    with ExitStack() as stack:

        def serve(models: dict[str, Any] | None = None, **settings: Any) -> str:
            state = stack.enter_context(ServerState(Settings(port=0, **settings), models=models))
            url = stack.enter_context(serve_in_thread(state))
            stack.callback(lambda: _check(url))
            return url

        yield serve


def _check(url: str) -> None:
    assert send(url, "GET", "/ping", b"").status == 200
    with http2(url) as client:
        assert client.request("GET", "/ping").status == 200


def small_data(size: int) -> Callable[[Http2Client], list[Frame]]:
    def frames(client: Http2Client) -> list[Frame]:
        stream = client.begin(client.head("POST", "/agents/"), end=False)
        return [DataFrame(stream, b" " * size)]

    return frames


def resets(client: Http2Client) -> list[Frame]:
    """Requests that are taken back at once (CVE-2023-44487)."""
    head = Encoder().encode(client.head("GET", "/v1/models"))
    return [
        frame
        for stream in range(1, 8000, 2)
        for frame in (
            HeadersFrame(stream, head, flags=["END_STREAM", "END_HEADERS"]),
            RstStreamFrame(stream, error_code=ErrorCodes.CANCEL),
        )
    ]


def windows_of_ended_streams(client: Http2Client) -> list[Frame]:
    client.request("GET", "/ping")
    return [WindowUpdateFrame(1, window_increment=1)]


FLOODS: dict[str, Callable[[Http2Client], list[Frame]]] = {
    "pings (CVE-2019-9512)": lambda _: [PingFrame(0, b"12345678")],
    "settings (CVE-2019-9515)": lambda _: [SettingsFrame(0, settings={1: 4096})],
    "priorities (CVE-2019-9513)": lambda _: [PriorityFrame(1, depends_on=0, stream_weight=1)],
    "unknown frames": lambda _: [ExtensionFrame(type=0xFA, stream_id=0, body=b"")],
    "windows": lambda _: [WindowUpdateFrame(0, window_increment=1)],
    "windows of ended streams": windows_of_ended_streams,
    "empty data (CVE-2019-9518)": small_data(0),
    "small data": small_data(1),
    "resets": resets,
}


@pytest.mark.parametrize("name", FLOODS)
def test_frames_that_carry_no_request_end(serve: Serve, name: str) -> None:
    with http2(serve()) as client:
        frames = FLOODS[name](client)
        times = max(1, 5000 // len(frames))
        client.send(b"".join(frame.serialize() for frame in frames) * times)
        assert client.read_to_end() == ErrorCodes.ENHANCE_YOUR_CALM


def test_what_is_taken_back_at_once_is_never_begun(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orchestrator.server.access")
    with http2(serve()) as client:
        client.send_frames(*resets(client)[:200])
        client.h2.highest_outbound_stream_id = 199
        assert client.request("GET", "/ping").status == 200
    until(lambda: caplog.messages)
    assert [line.split()[:2] for line in caplog.messages] == [["GET", "/ping"]]


def test_clients_that_use_what_they_get_are_no_flood(serve: Serve) -> None:
    """A client that opens both windows for every small event it reads."""
    url = serve({"*": ScriptedModel(["x" * 3_000_000])})
    with http2(url, window=200) as client:
        client.reads_windows = False
        asked = client.ask("POST", "/model/any/converse", CONVERSE, JSON)
        answer = client.answer(asked)
        for opened in range(200, 300_000, 200):
            client.read_until(lambda size=opened: len(answer.body) == size)  # type: ignore[misc]
            for stream in (None, asked):
                client.h2.increment_flow_control_window(200, stream)
            client.flush()
        client.read_until(lambda: len(answer.body) == 300_000)  # after 3,000 frames
        assert client.is_open


def head_frames(client: Http2Client, pieces: int, size: int) -> list[Frame]:
    head = Encoder().encode(client.head("GET", "/ping"))
    stream = client.h2.get_next_available_stream_id()
    rest = [ContinuationFrame(stream, b"\0\1a\1b" * (size // 5)) for _ in range(pieces)]
    return [HeadersFrame(stream, head), *rest]


@pytest.mark.parametrize(("pieces", "size"), [(10_000, 0), (9, 5), (3, 16_000)])
def test_headers_without_an_end(serve: Serve, pieces: int, size: int) -> None:
    with http2(serve()) as client:
        client.send_frames(*head_frames(client, pieces, size))
        assert client.read_to_end() == ErrorCodes.ENHANCE_YOUR_CALM


def test_headers_that_unfold_to_gigabytes(serve: Serve) -> None:
    """HPACK bomb (CVE-2016-6581): a large header, and a byte for each repetition of it."""
    with http2(serve()) as client:
        encoder = Encoder()
        head = encoder.encode([*client.head("GET", "/ping"), (b"x", b"y" * 3900)], huffman=False)
        bomb = head + b"\xbe" * 10_000
        client.send_frames(HeadersFrame(1, bomb, flags=["END_STREAM", "END_HEADERS"]))
        assert client.read_to_end() == ErrorCodes.ENHANCE_YOUR_CALM


def test_many_headers(serve: Serve) -> None:
    with http2(serve()) as client:
        many = [(b"x-%d" % number, b"") for number in range(5000)]
        client.begin(client.head("GET", "/ping", *many))
        assert client.read_to_end() == ErrorCodes.ENHANCE_YOUR_CALM


def test_a_frame_that_is_announced_as_16_megabytes(serve: Serve) -> None:
    with http2(serve()) as client:
        client.send(b"\xff\xff\xff\0\0\0\0\0\1")
        assert client.read_to_end() == ErrorCodes.ENHANCE_YOUR_CALM


def test_the_headers_that_a_client_remembers_are_few(serve: Serve) -> None:
    """Whatever it asks for: each is looked at for every header of an answer."""
    with http2(serve()) as client:
        client.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 2**32 - 1})
        client.flush()
        for _ in range(3):
            assert client.request("GET", "/v1/models").status == 200
        assert client.h2.decoder.header_table.maxsize == 4096


def test_more_streams_than_a_hundred(serve: Serve) -> None:
    with http2(serve()) as client:
        head = Encoder().encode(client.head("POST", "/agents/"))
        client.send_frames(
            *(HeadersFrame(1 + 2 * n, head, flags=["END_HEADERS"]) for n in range(101))
        )
        assert client.read_to_end() == ErrorCodes.PROTOCOL_ERROR


def test_streams_whose_work_has_not_ended(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_TASKS", 2)
    with http2(serve()) as client:
        waiting = [client.begin(client.head("POST", "/agents/"), end=False) for _ in range(2)]
        assert client.request("GET", "/ping").reset == ErrorCodes.REFUSED_STREAM
        client.h2.send_data(waiting[0], b"{}", end_stream=True)
        client.flush()
        assert client.finish(waiting[0]).status == 200
        assert client.request("GET", "/ping").status == 200


def test_an_answer_that_gets_no_room_keeps_no_place(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2_stream, "STALL_SECONDS", 0.2)
    url = serve(concurrency=1)
    with http2(url, window=0) as client:
        answer = client.finish(client.ask("GET", "/v1/models"))
        assert (answer.status, answer.body, answer.reset) == (200, b"", ErrorCodes.INTERNAL_ERROR)
        assert send(url, "GET", "/v1/models", b"").status == 200


def test_an_answer_that_is_not_read_keeps_no_place(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalls = Stalls()
    monkeypatch.setattr(http2_stream, "asyncio", stalls)
    url = serve({"*": ScriptedModel(["x" * 20_000_000])}, concurrency=1)
    with http2(url, window=2**31 - 1) as client:
        client.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        client.flush()
        client.ask("POST", "/model/any/converse", CONVERSE, JSON)
        until(lambda: send(url, "GET", "/v1/models", b"").status == 429)
        stalls.end()
        until(lambda: send(url, "GET", "/v1/models", b"").status != 429)


class Stalls:
    """Stands for `asyncio` where answers are sent: a test says when the time is up."""

    Event = asyncio.Event

    def __init__(self) -> None:
        self._over = False
        self._begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Timeout]] = []

    def timeout(self, seconds: float) -> asyncio.Timeout:
        assert seconds == http2_stream.STALL_SECONDS
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(0 if self._over else None)
        self._begun.append((loop, limit))
        return limit

    def end(self) -> None:
        self._over = True
        for loop, limit in self._begun:
            loop.call_soon_threadsafe(limit.reschedule, loop.time())


class Patience:
    """A number of seconds that becomes less: it is read when a wait begins."""

    seconds = 60.0

    def __radd__(self, now: float) -> float:
        return now + self.seconds


@pytest.mark.parametrize("begins", [True, False])
def test_a_connection_without_requests_ends(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    patience = Patience()
    monkeypatch.setattr(http1, "HEAD_SECONDS", patience)
    with http2(serve()) as client:
        assert client.request("GET", "/ping").status == 200
        patience.seconds = 0.2
        assert client.request("GET", "/ping").status == 200
        if begins:
            client.send_frames(*head_frames(client, 1, 5))
        assert client.read_to_end() == ErrorCodes.NO_ERROR


def test_headers_that_do_not_come_while_others_are_answered(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = Patience()
    monkeypatch.setattr(http1, "HEAD_SECONDS", patience)
    with http2(serve()) as client:
        assert client.request("GET", "/ping").status == 200
        expects = (b"expect", b"100-continue")
        asked = client.begin(client.head("POST", "/agents/", expects), end=False)
        client.read_until(lambda: client.answer(asked).continues)
        patience.seconds = 0.2
        (first,) = head_frames(client, 0, 0)
        client.send_frames(first)
        assert client.read_to_end() == ErrorCodes.NO_ERROR


def test_a_body_that_does_not_come(serve: Serve) -> None:
    with http2(serve(body_seconds=0.2)) as client:
        asked = client.begin(client.head("POST", "/agents/", JSON), end=False)
        answer = client.finish(asked)
        assert (answer.status, answer.headers["x-amzn-errortype"]) == (
            408,
            "RequestTimeoutException",
        )
        assert client.request("GET", "/ping").status == 200
