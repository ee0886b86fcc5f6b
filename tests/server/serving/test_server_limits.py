"""How much a server takes at once, and for how long."""

from __future__ import annotations

import http.client
import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError, EventStreamError
from server_requests import API_KEY, ID, Raw, now, send, write_keys
from server_requests import client as signed_client
from serving_support import Start, WaitingModel, client, invoke, text_of, write_agent
from uvicorn.server import ServerState as UvicornState
from waiting import until

from orchestrator.server import serving
from orchestrator.server.json_logs import JsonFormatter
from orchestrator.server.protocols import http1
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.server.uvicorn_config import build_config
from orchestrator.testing import ScriptedModel


@pytest.fixture
def serve_with(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Serves with some settings, in this process."""
    with ExitStack() as stack:

        def serve_with(models: Any = None, **settings: Any) -> str:
            state = ServerState(Settings(port=0, **settings), models=models)
            world = stack.enter_context(state)
            return stack.enter_context(serve_in_thread(world))

        yield serve_with


def raw(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def test_a_body_that_is_too_large(serve_with: Callable[..., str]) -> None:
    url = serve_with(body_bytes=1000)
    assert send(url, body=b'{"maxResults": 1}' + b" " * 900).status == 200
    answer = send(url, body=b'{"maxResults": 1}' + b" " * 1000)
    assert (answer.status, answer.error) == (413, "RequestEntityTooLargeException")
    with pytest.raises(ClientError) as error:
        client(url, "bedrock-agent").create_agent(agentName="a", instruction="x" * 1500)
    assert error.value.response["Error"]["Code"] == "RequestEntityTooLargeException"
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413


def test_a_body_that_grows_too_large(serve_with: Callable[..., str]) -> None:
    url = serve_with(body_bytes=1000)
    with closing(raw(url)) as connection:
        connection.sendall(
            b"POST /agents/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"200\r\n" + b" " * 512 + b"\r\n"
            + b"200\r\n" + b" " * 512 + b"\r\n"
        )  # fmt: skip
        assert b" 413 " in connection.recv(4096).splitlines()[0]


@pytest.mark.parametrize("length", ["1001", "9" * 19, "9" * 20])
def test_a_body_that_is_said_to_be_too_large_is_not_waited_for(
    serve_with: Callable[..., str], length: str
) -> None:
    url = serve_with(body_bytes=1000, body_seconds=60.0)
    with closing(raw(url)) as connection:
        connection.settimeout(30)
        head = f"POST /agents/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        connection.sendall(head.encode() + b"{}")
        assert b" 413 " in connection.recv(4096).splitlines()[0]


def test_a_large_body_over_the_limit_is_answered_still(serve_with: Callable[..., str]) -> None:
    url = serve_with(body_bytes=1_000_000)
    answer = send(url, body=b" " * 20_000_000)
    assert answer.error == "RequestEntityTooLargeException"


def test_a_body_that_does_not_come(serve_with: Callable[..., str]) -> None:
    url = serve_with(body_seconds=0.2)
    with closing(raw(url)) as connection:
        connection.sendall(
            b"POST /agents/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"
        )
        got = connection.recv(4096)
        assert b" 408 " in got.splitlines()[0] and b"RequestTimeoutException" in got


@pytest.mark.parametrize("sent", [b"", b"POST /agents/ HTTP/1.1\r\nHo"])
def test_a_head_that_does_not_come(
    serve_with: Callable[..., str], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http1, "HEAD_SECONDS", 0.2)
    with closing(raw(serve_with())) as connection:
        end_with(connection, sent)


def end_with(connection: socket.socket, sent: bytes) -> None:
    """Sends something, and waits until the server has ended the connection without an answer."""
    try:
        connection.sendall(sent)
        assert connection.recv(4096) == b""
    except ConnectionError:
        pass  # it was ended before that was sent


@pytest.fixture
def connection(serve_with: Callable[..., str]) -> Iterator[http.client.HTTPConnection]:
    parts = urlsplit(serve_with())
    with closing(http.client.HTTPConnection(parts.netloc, timeout=60)) as connection:
        yield connection


def ask(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/v1/models")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (200, None)
    assert answer.getheader("Server") is None
    answer.read()


def test_a_connection_is_used_again_and_again(connection: http.client.HTTPConnection) -> None:
    for _ in range(3):
        ask(connection)


def test_who_was_answered_may_be_idle_for_longer_than_a_head_may_take(
    connection: http.client.HTTPConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(connection)
    monkeypatch.setattr(http1, "HEAD_SECONDS", 0.2)
    with closing(raw(f"http://{connection.host}:{connection.port}")) as stranger:
        end_with(stranger, b"")  # who came later, and has asked for nothing
    used = connection.sock
    ask(connection)
    assert connection.sock is used
    end_with(used, b"GET /v1/mod")


def test_so_may_who_sends_the_body_after_the_answer(
    serve_with: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve_with()
    request = f"GET /ping HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Length: 2\r\n\r\n"
    monkeypatch.setattr(http1, "HEAD_SECONDS", 0.2)
    with closing(raw(url)) as client:
        client.sendall(request.encode())
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"{}")
        with closing(raw(url)) as stranger:
            end_with(stranger, b"")  # who came later, and has asked for nothing
        client.sendall(request.encode() + b"{}")
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_who_is_idle_for_too_long(
    serve_with: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.2)
    parts = urlsplit(serve_with())
    with closing(http.client.HTTPConnection(parts.netloc, timeout=60)) as connection:
        ask(connection)
        assert connection.sock.recv(4096) == b""


def test_an_answer_that_is_not_read_keeps_no_place(
    serve_with: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "STALL_SECONDS", 0.2)
    url = serve_with({"*": ScriptedModel(["x" * 20_000_000])}, concurrency=1)
    body = b'{"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}'
    head = f"POST /model/any/converse HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    with closing(raw(url)) as connection:
        connection.sendall(head.encode() + b"\r\nContent-Type: application/json\r\n\r\n" + body)
        connection.recv(1)  # the answer has begun, and is not read any further
        until(lambda: send(url, "GET", "/v1/models", b"").status == 200)


def test_an_answer_that_is_not_read_keeps_no_connection(
    serve_with: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.2)
    made: list[http1.Protocol] = []
    begin, end = http1.Protocol.connection_made, http1.Protocol.connection_lost

    def note_begin(self: http1.Protocol, transport: Any) -> None:
        # Little enough is left for the loop that it never asks the writer to pause.
        kept = transport.get_extra_info("socket")
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        made.append(self)
        begin(self, transport)

    def note_end(self: http1.Protocol, error: Exception | None) -> None:
        made.remove(self)
        end(self, error)

    monkeypatch.setattr(http1.Protocol, "connection_made", note_begin)
    monkeypatch.setattr(http1.Protocol, "connection_lost", note_end)
    url = serve_with({"*": ScriptedModel(["x" * 60_000])})
    body = b'{"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}'
    head = f"POST /model/any/converse HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    parts = urlsplit(url)
    with closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((parts.hostname, parts.port))
        connection.sendall(head.encode() + b"\r\nContent-Type: application/json\r\n\r\n" + body)
        connection.recv(1)
        until(lambda: not made)


class Reader:
    """A connection and a loop for a protocol: how much is unread, and what happens later."""

    def __init__(self) -> None:
        self.unread = 0
        self.aborted = self.closing = False
        self.later: list[tuple[float, Callable[[], object]]] = []

    def call_later(self, seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
        one = (seconds, lambda: function(*arguments))
        self.later.append(one)
        return SimpleNamespace(cancel=lambda: self.later.remove(one))

    def wait(self, *, read: int) -> None:
        """The client reads so much, and the time is up."""
        self.unread -= read
        (one,) = (it for it in self.later if it[0] == http1.STALL_SECONDS)
        self.later.remove(one)
        one[1]()

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.aborted = True

    def get_extra_info(self, name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True


def test_who_reads_slowly_is_waited_for() -> None:
    reader: Any = Reader()
    protocol = http1.Protocol(build_config(None), UvicornState(), {}, reader)
    protocol.connection_made(reader)
    reader.unread = 1_000_000
    protocol.pause_writing()
    for _ in range(5):
        reader.wait(read=16_384)
    protocol.resume_writing()
    assert all(seconds != http1.STALL_SECONDS for seconds, _ in reader.later)
    protocol.pause_writing()
    assert not reader.aborted
    reader.wait(read=16_383)
    assert reader.aborted


def test_who_has_not_read_when_the_connection_closes_is_waited_for_too() -> None:
    reader: Any = Reader()
    protocol = http1.Protocol(build_config(None), UvicornState(), {}, reader)
    protocol.connection_made(reader)
    reader.unread = 40_000
    protocol.transport.close()
    reader.wait(read=20_000)
    protocol.pause_writing()
    protocol.resume_writing()
    assert not reader.aborted
    reader.wait(read=0)
    assert reader.aborted


def test_more_at_once_than_the_limit(
    serve_with: Callable[..., str], model: WaitingModel, tmp_path: Path
) -> None:
    url = serve_with(concurrency=1, agents=write_agent(tmp_path), model=model.spec)
    events = invoke(url)
    assert model.asked.wait(60)
    with pytest.raises(ClientError) as error:
        client(url, "bedrock-agent").list_agents()
    assert error.value.response["Error"]["Code"] == "ThrottlingException"
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
    assert send(url, "GET", "/ping", b"").status == 200
    model.go.set()
    assert text_of(events) == "All is well."
    assert client(url, "bedrock-agent").list_agents()["agentSummaries"]


def test_a_turn_that_takes_too_long(
    serve_with: Callable[..., str], model: WaitingModel, tmp_path: Path
) -> None:
    url = serve_with(turn_seconds=0.3, agents=write_agent(tmp_path), model=model.spec)
    with pytest.raises(EventStreamError, match=r"0\.3 seconds") as error:
        text_of(invoke(url))
    assert error.value.response["Error"]["Code"] == "serviceQuotaExceededException"


def test_a_line_for_each_request_without_what_is_in_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orchestrator.server.access")
    secret = "the-users-own-words"
    with ServerState(Settings(port=0)) as world, serve_in_thread(world) as url:
        answer: Raw = send(
            url,
            path=f"/agents/AAAAAAAAAA/agentAliases/BBBBBBBBBB/sessions/s-1/text?a={secret}",
            body=f'{{"inputText": "{secret}"}}'.encode(),
            headers={"Authorization": secret, "Cookie": secret},
        )
    (record,) = caplog.records  # written by the server's end
    line = record.getMessage()
    assert json.loads(JsonFormatter().format(record))["error"] == "ResourceNotFoundException"
    method, path, status, took, request_id, tenant, error = line.split()
    assert (method, status, tenant, error) == ("POST", "404", "-", "ResourceNotFoundException")
    assert path == "/agents/AAAAAAAAAA/agentAliases/BBBBBBBBBB/sessions/s-1/text"
    assert took.endswith("ms") and request_id == answer.headers["x-amzn-requestid"]


def waiting(url: str, key_id: str, stack: ExitStack, body: bytes = b"{") -> socket.socket:
    """A request that is said to be signed with a key, and whose body does not come whole."""
    stamp = f"{now():%Y%m%dT%H%M%SZ}"
    connection = stack.enter_context(closing(raw(url)))
    connection.sendall(
        f"POST /agents/ HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nX-Amz-Date: {stamp}\r\n"
        "Authorization: AWS4-HMAC-SHA256 "
        f"Credential={key_id}/{stamp[:8]}/us-east-1/bedrock/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=00\r\n"
        f"Content-Length: {len(body) + 1}\r\n\r\n".encode()
        + body
    )
    return connection


def test_strangers_are_not_waited_for(serve_with: Callable[..., str], tmp_path: Path) -> None:
    url = serve_with(keys=write_keys(tmp_path))
    with ExitStack() as stack:
        got = waiting(url, "AKIDNOBODY", stack).recv(4096)
    assert b" 403 " in got.splitlines()[0] and b"UnrecognizedClientException" in got


def test_who_knows_an_id_of_a_key_keeps_nobody_out(
    serve_with: Callable[..., str], tmp_path: Path
) -> None:
    url = serve_with(keys=write_keys(tmp_path), concurrency=2)
    with ExitStack() as stack:
        strangers = [waiting(url, ID, stack) for _ in range(2)]
        assert signed_client(url).create_agent(agentName="mine")["agent"]["agentName"] == "mine"
        assert len(signed_client(url).list_agents()["agentSummaries"]) == 1
        assert send(url, headers={"Authorization": f"Bearer {API_KEY}"}).status == 200
        # The first of them made room.
        got = strangers[0].recv(4096)
    assert b" 429 " in got.splitlines()[0] and b"ThrottlingException" in got


def test_bodies_of_strangers_take_no_memory_from_callers(
    serve_with: Callable[..., str], tmp_path: Path
) -> None:
    url = serve_with(keys=write_keys(tmp_path), body_bytes=1000)
    with ExitStack() as stack:
        for _ in range(8):
            waiting(url, ID, stack, b" " * 999)
        for name in ("one", "two", "three"):
            made = signed_client(url).create_agent(agentName=name)
            assert made["agent"]["agentName"] == name


def test_options_set_limits_and_what_arns_name(start: Start) -> None:
    url = start(
        *("--region", "eu-central-1", "--account", "123456789012"),
        *("--body-bytes", 300, "--concurrency", 5, "--turn-seconds", 60),
    ).url
    made = client(url, "bedrock-agent").create_agent(agentName="a")["agent"]
    assert made["agentArn"].startswith("arn:aws:bedrock:eu-central-1:123456789012:agent/")
    assert send(url, body=b" " * 301).error == "RequestEntityTooLargeException"
