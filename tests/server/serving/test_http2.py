"""HTTP/2 with prior knowledge, on the port of HTTP/1.1."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from botocore.eventstream import EventStreamBuffer
from h2.errors import ErrorCodes
from http2_client import PREFACE, http2
from left_out import sampled
from server_requests import send
from serving_support import AGENT_ID, ALIAS_ID, Start, WaitingModel, write_agent

from orchestrator.models import Model
from orchestrator.models.base import ModelReply, ModelRequest
from orchestrator.server.fair_loop import _goes_last, go_last
from orchestrator.server.protocols.http1 import Protocol
from orchestrator.server.protocols.request_head import build_response_headers
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

JSON = (b"content-type", b"application/json")
CONVERSE = b'{"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}'

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves with some settings, in this process."""
    with ExitStack() as stack:

        def serve(models: dict[str, Any] | None = None, **settings: Any) -> str:
            state = stack.enter_context(ServerState(Settings(port=0, **settings), models=models))
            return stack.enter_context(serve_in_thread(state))

        yield serve


def invoke_path(session_id: str) -> str:
    return f"/agents/{AGENT_ID}/agentAliases/{ALIAS_ID}/sessions/{session_id}/text"


def events_of(body: bytes) -> list[str]:
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    return [str(event.headers[":event-type"]) for event in buffer]


def text_of(body: bytes) -> str:
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    (chunk,) = [event for event in buffer if event.headers[":event-type"] == "chunk"]
    text: str = json.loads(chunk.payload)["bytes"]
    return text


def test_both_protocols_have_one_port(serve: Serve) -> None:
    url = serve()
    with http2(url) as client:
        for _ in range(3):
            answer = client.request("GET", "/v1/models")
            assert (answer.status, answer.json) == (200, {"object": "list", "data": []})
            assert "date" in answer.headers and len(answer.headers["x-amzn-requestid"]) == 36
            assert not {"connection", "server", "transfer-encoding"} & answer.headers.keys()
        one = send(url, "GET", "/v1/models", b"")
        assert one.body == answer.body
        made = client.request("POST", "/agents/", b'{"maxResults": 1}', JSON)
        assert (made.status, made.json) == (200, {"agentSummaries": []})


@pytest.mark.parametrize("piece", [1, 7, 23, 24, 25])
def test_the_first_bytes_may_come_one_by_one(serve: Serve, piece: int) -> None:
    whole = PREFACE + b"\0\0\0\4\0\0\0\0\0"
    with closing(_connect(serve())) as raw:
        for start in range(0, len(whole), piece):
            raw.sendall(whole[start : start + piece])
        assert raw.recv(9)[3:5] == b"\4\0"  # the server's settings


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


@pytest.mark.parametrize("method", [b"POST", b"PROPFIND", b"PRI"])
def test_methods_that_begin_like_it_are_of_http1(serve: Serve, method: bytes) -> None:
    with closing(_connect(serve())) as raw:
        for byte in method + b" / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n":
            raw.sendall(bytes([byte]))
        assert raw.recv(4096).startswith(b"HTTP/1.1 40")


def test_events_leave_as_they_come(
    serve: Serve, model: WaitingModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = serve(agents=write_agent(tmp_path), model=model.spec)
    body = json.dumps({"inputText": "Is all well?", "enableTrace": True}).encode()
    with http2(url) as client:
        turn = client.ask("POST", invoke_path("s-1"), body, JSON)
        client.read_until(lambda: client.answer(turn).body)
        assert client.answer(turn).headers[":status"] == "200"
        assert set(events_of(client.answer(turn).body)) == {"trace"}  # the model has not answered
        # Meanwhile others are answered.
        assert client.request("GET", "/v1/models").status == 200
        model.go.set()
        answer = client.finish(turn)
    assert text_of(answer.body) == "QWxsIGlzIHdlbGwu"  # "All is well."
    assert answer.headers["content-type"] == "application/vnd.amazon.eventstream"
    caplog.clear()  # the trace names the model, and AWS has none of such a name


def test_a_hundred_requests_at_once(serve: Serve) -> None:
    url = serve({"*": ScriptedModel([f"answer {number}" for number in range(100)])})
    with http2(url) as client:
        asked = [
            client.ask("POST", "/model/any/converse", CONVERSE, JSON, (b"x-n", b"%d" % number))
            for number in range(100)
        ]
        answers = [client.finish(stream) for stream in asked]
    texts = {answer.json["output"]["message"]["content"][0]["text"] for answer in answers}
    assert texts == {f"answer {number}" for number in range(100)}


def test_an_answer_that_is_larger_than_all_buffers(serve: Serve) -> None:
    text = "0123456789" * 800_000
    url = serve({"*": ScriptedModel([text])})
    with http2(url, window=2**31 - 1) as client:
        client.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        client.flush()
        asked = client.ask("POST", "/model/any/converse", CONVERSE, JSON)
        # Nothing is read until all that the sockets hold has been written.
        assert send(url, "GET", "/ping", b"").status == 200
        answer = client.finish(asked)
    assert answer.json["output"]["message"]["content"] == [{"text": text}]


def test_an_answer_comes_as_the_client_has_room_for_it(serve: Serve) -> None:
    with http2(serve(), window=0) as client:
        client.reads_windows = False
        asked = client.ask("GET", "/v1/models")
        answer = client.answer(asked)
        client.read_until(lambda: answer.headers)
        assert client.request("HEAD", "/v1/models").body == b""  # needs no room
        assert not answer.body
        for size in range(1, 4):
            client.h2.increment_flow_control_window(1, asked)
            client.flush()
            client.read_until(lambda size=size: len(answer.body) == size)  # type: ignore[misc]
        assert answer.body == b'{"o'
        client.h2.increment_flow_control_window(1000, asked)
        client.flush()
        assert client.finish(asked).json == {"object": "list", "data": []}


def test_a_body_that_is_larger_than_the_window(serve: Serve) -> None:
    url = serve()
    with http2(url) as client:
        body = b'{"maxResults": 1' + b" " * 5_000_000 + b"}"
        for _ in range(2):
            assert client.request("POST", "/agents/", body, JSON).status == 200


def test_a_body_that_nobody_reads_is_stopped(serve: Serve) -> None:
    with http2(serve(body_bytes=1000)) as client:
        answer = client.request("POST", "/agents/", b" " * 5_000_000, JSON)
        assert answer.headers["x-amzn-errortype"] == "RequestEntityTooLargeException"
        assert (answer.status, answer.reset) in ((413, ErrorCodes.NO_ERROR), (413, None))
        assert client.request("POST", "/agents/", b"{}", JSON).status == 200


def test_who_waits_to_be_asked_for_the_body_is_asked(serve: Serve) -> None:
    with http2(serve()) as client:
        head = client.head("POST", "/agents/", JSON, (b"expect", b"100-continue"))
        asked = client.begin(head, end=False)
        client.read_until(lambda: client.answer(asked).continues)
        client.h2.send_data(asked, b"{}", end_stream=True)
        client.flush()
        assert client.finish(asked).status == 200


class Endless(Model):
    """A model that never answers; it notes who was asked, and who waits no more."""

    model_id = "endless"

    def __init__(self) -> None:
        self.asked, self.stopped = threading.Semaphore(0), threading.Event()

    def complete(self, request: ModelRequest) -> ModelReply:
        raise AssertionError("a server does not block")

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        self.asked.release()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        raise AssertionError("it was never set")


@pytest.mark.parametrize("way", ["reset", "close"])
def test_a_client_that_goes_stops_what_was_asked_of_the_model(serve: Serve, way: str) -> None:
    model = Endless()
    url = serve({"*": model})
    with http2(url) as other, http2(url) as client:
        asked = client.ask("POST", "/model/any/converse", CONVERSE, JSON)
        assert model.asked.acquire(timeout=60)
        assert not model.stopped.is_set()
        if way == "reset":
            client.h2.reset_stream(asked, ErrorCodes.CANCEL)
            client.flush()
            assert client.request("GET", "/ping").status == 200  # the connection goes on
        else:
            client.close()
        assert model.stopped.wait(60)
        assert other.request("GET", "/ping").status == 200


def test_a_client_may_say_goodbye_and_wait_for_its_answer(
    serve: Serve, model: WaitingModel, tmp_path: Path
) -> None:
    url = serve(agents=write_agent(tmp_path), model=model.spec)
    with http2(url) as client:
        turn = client.ask("POST", invoke_path("s-1"), b'{"inputText": "Hello"}', JSON)
        assert model.asked.wait(60)
        client.send(b"\0\0\x08\x07\0\0\0\0\0" + bytes(8))
        model.go.set()
        assert text_of(client.finish(turn).body) == "QWxsIGlzIHdlbGwu"
        assert client.read_to_end() is None  # and then the connection is closed


@pytest.mark.parametrize("workers", sampled([1, 2]))
def test_a_server_that_is_to_end_says_so_and_finishes(
    start: Start, model: WaitingModel, tmp_path: Path, workers: int
) -> None:
    server = start(
        *("--agents", write_agent(tmp_path), "--model", model.spec, "--shutdown-seconds", 60),
        *("--state", tmp_path / "sessions.sqlite", "--workers", workers),
    )
    with http2(server.url) as client, ThreadPoolExecutor() as threads:
        turn = client.ask("POST", invoke_path("s-1"), b'{"inputText": "Hello"}', JSON)
        assert model.asked.wait(60)
        server.signal()
        client.read_until(lambda: client.goodbye is not None)
        assert client.goodbye == ErrorCodes.NO_ERROR
        late = client.finish(client.begin(client.head("GET", "/ping")))
        assert late.reset == ErrorCodes.REFUSED_STREAM  # to be asked of another server
        model.go.set()
        assert text_of(client.finish(turn).body) == "QWxsIGlzIHdlbGwu"
        client.read_to_end()
        assert threads.submit(server.end).result(60)[0] == 0


@pytest.mark.exhaustive
def test_an_idle_connection_ends_with_its_server(start: Start) -> None:
    server = start()
    with http2(server.url) as client:
        assert client.request("GET", "/ping").status == 200
        server.signal()
        assert client.read_to_end() == ErrorCodes.NO_ERROR
    assert server.end()[0] == 0


@contextmanager
def running(app: Any) -> Iterator[str]:
    """Serves an ASGI application as the server is served; gives its URL."""
    loop = "orchestrator.server.fair_loop:FairEventLoop"
    config = uvicorn.Config(app, http=Protocol, loop=loop, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def test_who_goes_last_makes_nobody_else_of_the_connection_go_last() -> None:
    """What a task writes, and the reading that waits for it, are in the task's context."""
    last: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        last.append(_goes_last.get())
        await go_last()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(10_000_000)})

    with running(app) as url, http2(url, window=2**31 - 1) as client:
        client.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        client.flush()
        for _ in range(3):
            assert len(client.request("GET", "/").body) == 10_000_000
    assert last == [False, False, False]


def test_an_application_that_fails_fails_its_own_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/late":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] != "/well":
            raise RuntimeError("it fails")
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    with running(app) as url, http2(url) as client:
        first, late = client.request("GET", "/first"), client.request("GET", "/late")
        assert (first.status, first.body) == (500, b"Internal Server Error")
        assert (late.status, late.reset) == (200, ErrorCodes.INTERNAL_ERROR)
        assert client.request("GET", "/well").status == 204
    failures = [it for it in caplog.records if it.name == "orchestrator.server"]
    assert [it.getMessage() for it in failures] == 2 * ["Exception in ASGI application"]


@pytest.mark.parametrize("value", [b"a\r\nx: y", b"a\nb", b"a\0", b"\x7f"])
def test_an_answers_header_is_one_line(value: bytes) -> None:
    for line in ((b"x-name", value), (value, b"x")):
        with pytest.raises(ValueError, match="control characters"):
            build_response_headers(200, [line])
