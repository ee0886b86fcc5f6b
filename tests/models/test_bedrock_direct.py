"""BedrockModel without boto3's way of a request: what it sends, its errors, and when boto3 asks."""

from __future__ import annotations

import asyncio
import functools
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pkgutil import resolve_name
from threading import Event, Thread
from typing import Any
from unittest.mock import MagicMock

import boto3
import botocore.auth
import botocore.handlers
import botocore.session
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError
from botocore.stub import Stubber
from loopback import Sent, Site, certificate
from model_requests import CLAUDE, TOOLS, ask, step, user
from model_servers import Answer, aws_error, aws_stream, event, failure, json_answer

from orchestrator.errors import AccessDenied, DependencyFailed, LimitExceeded, OrchestratorError
from orchestrator.models import BedrockModel, ModelReply
from orchestrator.models.base import Usage
from orchestrator.models.bedrock import direct, hooks

PROFILE = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.amazon.nova-lite-v1:0"
WHOLE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
}
DELTA = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "ok"}})
EVENTS = [DELTA, event("messageStop", {"stopReason": "end_turn"})]


@pytest.fixture(autouse=True)
def unhooked(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the hooks that tests of other services left in botocore."""
    own = [
        it
        for it in botocore.handlers.BUILTIN_HANDLERS
        if hooks._module_of(it[1]).startswith("botocore.")
    ]
    monkeypatch.setattr(botocore.handlers, "BUILTIN_HANDLERS", own)
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def complete(model: BedrockModel) -> ModelReply:
    return model.complete(ask())


def acomplete(model: BedrockModel) -> ModelReply:
    return asyncio.run(model.acomplete(ask()))


def stream(model: BedrockModel) -> ModelReply:
    return list(model.stream(ask()))[-1]  # type: ignore[return-value]


def astream(model: BedrockModel) -> ModelReply:
    async def collect() -> Any:
        return [item async for item in model.astream(ask())][-1]

    return asyncio.run(collect())


WAYS = pytest.mark.parametrize("way", [complete, acomplete, stream, astream])


def is_direct(model: BedrockModel) -> bool:
    return model._get_service() is not None


def answer_for(way: Any) -> Answer:
    return aws_stream(*EVENTS) if way in (stream, astream) else json_answer(WHOLE)


# What is sent


@WAYS
@pytest.mark.parametrize("model_id", [CLAUDE, PROFILE, "a b/ü%2F"])
@pytest.mark.parametrize("token", [None, "session/token+="])
def test_the_signature_is_that_of_what_arrives(serve, monkeypatch, way, model_id, token):
    for name, value in {"ACCESS_KEY_ID": "AK", "SECRET_ACCESS_KEY": "secret"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    server = serve(answer_for(way))
    model = BedrockModel(model_id, endpoint_url=server.url)
    assert way(model).text == "ok"
    assert is_direct(model)
    (asked,) = server.asked
    signed = asked.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    fields = {name: asked.headers[name] for name in signed.split(";")}
    assert {"content-type", "host", "x-amz-date"} <= fields.keys()
    assert asked.headers.get("x-amz-security-token") == token
    now = datetime.strptime(fields["x-amz-date"], "%Y%m%dT%H%M%SZ")
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: now)
    request = AWSRequest("POST", f"{server.url}{asked.path}", fields, asked.body)
    SigV4Auth(Credentials("AK", "secret", token), "bedrock", "eu-central-1").add_auth(request)
    assert request.headers["Authorization"] == asked.headers["authorization"]


@WAYS
def test_boto3_would_have_sent_the_same(serve, monkeypatch, way):
    server = serve(answer_for(way))
    model = BedrockModel(PROFILE, endpoint_url=server.url)
    request = ask(user("Hello"), *step(1), tools=TOOLS, inference={"topP": 0.5})
    monkeypatch.setattr(sys.modules[__name__], "ask", lambda: request)
    way(model)
    monkeypatch.setattr(direct, "is_patched", lambda: True)
    way(model)
    ours, theirs = server.asked
    assert (ours.path, ours.body) == (theirs.path, theirs.body)
    assert ours.headers.keys() == theirs.headers.keys()
    assert ours.headers["content-type"] == theirs.headers["content-type"]
    assert "bedrock-orchestrator" in ours.headers["user-agent"]
    assert ours.headers["amz-sdk-request"] == theirs.headers["amz-sdk-request"]


def test_credentials_are_asked_for_again_when_they_expire(serve, monkeypatch, tmp_path):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.delenv(f"AWS_{name}")
    ends = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    program = tmp_path / "credentials.py"
    program.write_text(
        "import json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "number = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (number + 1))\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'AK{number}', 'SecretAccessKey': 's',"
        f" 'SessionToken': 't', 'Expiration': {ends!r}}}))\n"
    )
    config = tmp_path / "config"
    config.write_text(f"[profile fresh]\ncredential_process = {sys.executable} {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    server = serve(json_answer(WHOLE))
    model = BedrockModel(CLAUDE, profile="fresh", endpoint_url=server.url)
    complete(model)
    complete(model)
    acomplete(model)
    assert is_direct(model)
    keys = [asked.headers["authorization"].partition("=")[2][:3] for asked in server.asked]
    assert len(set(keys)) == 3


@WAYS
@pytest.mark.parametrize("name", ["AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"])
@pytest.mark.parametrize("end", ["\n", "\u2028"])
def test_a_token_that_cannot_be_sent_is_an_error_of_the_credentials(
    serve, monkeypatch, way, name, end
):
    monkeypatch.setenv(name, f"secret-token{end}")
    server = serve(answer_for(way))
    model = BedrockModel(CLAUDE, endpoint_url=server.url.replace("http:", "https:"))
    if name == "AWS_SESSION_TOKEN":
        model = BedrockModel(CLAUDE, endpoint_url=server.url)
    with pytest.raises(AccessDenied, match="has a line's end or another character") as caught:
        way(model)
    assert "secret-token" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert not server.asked


@pytest.mark.parametrize("way", [acomplete, astream])
def test_a_refresh_of_credentials_that_hangs_takes_no_longer_than_the_turn(serve, monkeypatch, way):
    asked, done, refreshed = Event(), Event(), Event()

    def refresh() -> dict[str, str]:
        asked.set()
        done.wait(60)
        refreshed.set()
        return {**KEYS, "expiry_time": (now + timedelta(hours=1)).isoformat()}

    now = datetime.now(UTC)
    fresh = RefreshableCredentials("A", "B", "C", now + timedelta(hours=1), refresh, "slow")
    monkeypatch.setattr(botocore.session.Session, "get_credentials", lambda _: fresh)
    server = serve(answer_for(way))
    model = BedrockModel(CLAUDE, endpoint_url=f"{server.url}/{way.__name__}")
    assert way(model).text == "ok"
    assert is_direct(model)
    fresh._expiry_time = now
    try:
        for seconds in (0.2, 10.0, 60.0):  # as many as its thread needs to begin
            request = ask(seconds=seconds)
            with monkeypatch.context() as patched:
                patched.setattr(sys.modules[__name__], "ask", lambda request=request: request)
                with pytest.raises(LimitExceeded, match="seconds"):
                    way(model)
            if asked.is_set():
                break
        assert asked.is_set() and not refreshed.is_set()
        assert len(server.asked) == 1
    finally:
        done.set()


KEYS = {"access_key": "A", "secret_key": "B", "token": "C"}


def test_a_bearer_token_is_sent_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bearer-token")
    with over_tls(tmp_path, monkeypatch) as site:
        model = BedrockModel(CLAUDE, endpoint_url=site.url(scheme="https"))
        assert complete(model).text == "ok"
        assert is_direct(model)
        assert site.got[0].headers["authorization"] == "Bearer bearer-token"


# Answers


@WAYS
def test_whole_answers_are_what_boto3_makes_of_them(serve, monkeypatch, way):
    if way in (stream, astream):
        return
    use = {"toolUseId": "t1", "name": "f", "input": {"n": [1, None]}}
    contents: list[Any] = [
        [{"text": "a"}, {"toolUse": use}],
        [{"reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}}}],
        [{"reasoningContent": {"redactedContent": "c2VjcmV0"}}, {"text": "b"}],
        [{"toolUse": {**use, "type": "server_tool_use"}}],
        [{"text": "a", "unknown": 1}],
        [{"newKind": {"a": 1}}, {"text": "c"}],
        [{"text": None}],
        [],
        None,
    ]
    answers = [
        json_answer({**WHOLE, "output": {"message": {"role": "assistant", "content": content}}})
        for content in contents
    ]
    answers += [json_answer(value) for value in ({}, [], {"output": None}, "text")]
    odd: list[Any] = [None, [], {"inputTokens": "3"}, {"outputTokens": 2.7}, {"inputTokens": None}]
    answers += [json_answer({**WHOLE, "usage": usage}) for usage in odd]
    answers += [json_answer({**WHOLE, "stopReason": reason}) for reason in (None, 5)]
    answers += [Answer(json.dumps(WHOLE).replace("1,", "1e400,", 1).encode())]
    answers += [Answer(b"<html>"), Answer(b""), Answer(b"[" * 100_000)]
    for answer in answers:
        model = BedrockModel(CLAUDE, endpoint_url=serve(answer).url)
        ours = outcome(way, model)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(direct, "is_patched", lambda: True)
            assert outcome(way, model) == ours


def outcome(way: Any, model: BedrockModel) -> Any:
    try:
        return way(model)
    except OrchestratorError as error:
        return type(error), error.message


# Errors


class Raw:
    """Answers each connection's first request with the same bytes, and hangs up."""

    def __init__(self, data: bytes) -> None:
        self.count = 0
        self._data = data
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    @contextmanager
    def running(self) -> Iterator[Raw]:
        thread = Thread(target=self._serve, daemon=True)
        thread.start()
        yield self
        self._listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        self._listening.close()

    def _serve(self) -> None:
        try:
            while True:
                connection, _ = self._listening.accept()
                with connection:
                    got = b""
                    while b"\r\n\r\n{" not in got or not got.endswith(b"}"):
                        got += connection.recv(65_536) or b"\r\n\r\n{}"
                    self.count += 1
                    connection.sendall(self._data)
        except OSError:
            return


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\n"


@WAYS
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
    ids=["hung up", "cut in the head", "cut in a chunk", "another protocol"],
)
def test_what_breaks_off_is_tried_again_and_reported_as_by_boto3(
    monkeypatch, no_waiting, way, data
):
    with Raw(data).running() as server:
        model = BedrockModel(CLAUDE, endpoint_url=server.url, max_attempts=3)
        ours, count = outcome(way, model), server.count
        assert ours[0] is DependencyFailed
        if data != b"HTTP/1.1 200":  # which boto3 takes for a whole head
            monkeypatch.setattr(direct, "is_patched", lambda: True)
            assert outcome(way, model) == ours
            assert server.count == 2 * count
        assert count == (3 if b"chunked" not in data or way in (complete, acomplete) else 1)


@pytest.mark.parametrize("way", [complete, acomplete])
def test_an_answer_shorter_than_its_length_is_cut_for_boto3_too(monkeypatch, no_waiting, way):
    with Raw(b'HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"output":').running() as server:
        model = BedrockModel(CLAUDE, endpoint_url=server.url, max_attempts=3)
        ours = outcome(way, model)
        monkeypatch.setattr(direct, "is_patched", lambda: True)
        assert outcome(way, model) == ours
        assert "ConnectionClosedError" in ours[1]
        assert server.count == 6


@WAYS
@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nx-note: a\r\n b\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\n{}",
    ],
    ids=["folded field", "bare line ends", "two lengths"],
)
def test_an_answer_that_cannot_be_read_is_not_asked_for_again(no_waiting, way, data):
    with Raw(data).running() as server:
        model = BedrockModel(CLAUDE, endpoint_url=server.url, max_attempts=3)
        with pytest.raises(DependencyFailed, match="ResponseParserError"):
            way(model)
        assert server.count == 1
    assert not no_waiting


REFUSALS = [
    aws_error("ThrottlingException", "slow down", 429),
    aws_error("ServiceUnavailableException", "later", 503),
    aws_error("ValidationException", "no"),
    Answer(b"<html>Bad gateway</html>", 502, {"Content-Type": "text/html"}),
    Answer(b"", 301, {"Location": "http://127.0.0.1:9/elsewhere"}),
    Answer(b"", 307, {"Location": "/elsewhere"}),
    Answer(b"", 429),
    Answer(b'{"message": 5}', 400),
    Answer(b"[1]", 500),
    Answer(b"null", 404),
]


@WAYS
@pytest.mark.parametrize("answer", REFUSALS, ids=lambda answer: str(answer.status))
def test_refusals_are_tried_again_and_reported_as_by_boto3(
    serve, monkeypatch, no_waiting, way, answer
):
    server = serve(answer)
    model = BedrockModel(CLAUDE, endpoint_url=server.url, max_attempts=3)
    ours, count = outcome(way, model), len(server.asked)
    monkeypatch.setattr(direct, "is_patched", lambda: True)
    assert outcome(way, model) == ours
    assert issubclass(ours[0], OrchestratorError)
    assert len(server.asked) == 2 * count
    assert len({asked.path for asked in server.asked}) == 1


@pytest.mark.parametrize("way", [stream, astream])
@pytest.mark.parametrize("by_boto3", [False, True])
def test_an_exception_in_a_stream_has_the_requests_id(monkeypatch, serve, way, by_boto3):
    answer = aws_stream(DELTA, failure("modelStreamErrorException", "it stumbled"))
    answer.headers["x-amzn-RequestId"] = "req-7"
    model = BedrockModel(CLAUDE, endpoint_url=serve(answer).url)
    monkeypatch.setattr(direct, "is_patched", lambda: by_boto3)
    with pytest.raises(DependencyFailed, match=r"\(ModelStreamErrorException, request req-7\)"):
        way(model)


@WAYS
def test_a_throttled_call_is_answered_in_the_end(serve, no_waiting, way):
    server = serve(REFUSALS[0], REFUSALS[1], answer_for(way))
    assert way(BedrockModel(CLAUDE, endpoint_url=server.url)).text == "ok"
    assert [asked.headers["amz-sdk-request"] for asked in server.asked] == [
        f"attempt={number}; max=5" for number in (1, 2, 3)
    ]
    assert len({asked.headers["amz-sdk-invocation-id"] for asked in server.asked}) == 1
    assert len(no_waiting) == 2


@WAYS
def test_tries_use_up_botocores_quota(serve, no_waiting, way):
    server = serve(REFUSALS[0])
    model = BedrockModel(CLAUDE, endpoint_url=server.url, max_attempts=300)
    outcome(way, model)
    assert len(server.asked) == 101  # of 500, a throttled try costs 5


@WAYS
def test_a_server_that_says_nothing_is_given_up(way, no_waiting):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        model = BedrockModel(CLAUDE, endpoint_url=url, read_timeout=0.05, max_attempts=1)
        with pytest.raises(DependencyFailed, match="ReadTimeoutError"):
            way(model)


# TLS


@contextmanager
def over_tls(folder: Any, monkeypatch: pytest.MonkeyPatch, trusted: bool = True) -> Iterator[Site]:
    context, authority = certificate(folder, "localhost")
    if trusted:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    with Site(Sent(json.dumps(WHOLE).encode()), tls=context).running() as site:
        yield site


@pytest.mark.parametrize("way", [complete, acomplete])
def test_the_authority_of_the_environment_is_trusted(monkeypatch, tmp_path, way):
    with over_tls(tmp_path, monkeypatch) as site:
        model = BedrockModel(CLAUDE, endpoint_url=site.url(scheme="https"))
        assert way(model).text == "ok"
        assert is_direct(model)


@pytest.mark.parametrize("way", [complete, acomplete])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_no_other_authority_is_and_no_other_name(monkeypatch, tmp_path, no_waiting, way, host):
    with over_tls(tmp_path, monkeypatch, trusted=host == "127.0.0.1") as site:
        model = BedrockModel(CLAUDE, endpoint_url=site.url(host, "https"), max_attempts=1)
        with pytest.raises(DependencyFailed, match="SSLError"):
            way(model)
        assert is_direct(model)
        assert not site.got


# Connections


@WAYS
def test_a_connection_is_kept_for_the_next_call(serve, way):
    server = serve(answer_for(way))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)

    async def thrice() -> None:
        for _ in range(3):
            if way is acomplete:
                await model.acomplete(ask())
            else:
                assert [item async for item in model.astream(ask())]

    if way in (acomplete, astream):
        asyncio.run(thrice())
    else:
        for _ in range(3):
            way(model)
    assert len({asked.peer for asked in server.asked}) == 1


def test_a_connection_that_the_server_ended_is_not_used_again(serve, no_waiting):
    answer = json_answer(WHOLE, Connection="close")
    silent = json_answer(WHOLE)  # says nothing of hanging up, and does
    server = serve(answer, silent)
    model = BedrockModel(CLAUDE, endpoint_url=server.url)

    async def thrice() -> None:
        for _ in range(3):
            assert (await model.acomplete(ask())).text == "ok"

    asyncio.run(thrice())
    for _ in range(3):
        complete(model)
    assert len(server.asked) == 6
    assert not no_waiting


def test_no_more_connections_than_allowed_are_open_at_once(serve):
    server = serve(json_answer(WHOLE))
    model = BedrockModel(CLAUDE, endpoint_url=server.url, max_concurrency=3)

    async def many() -> list[ModelReply]:
        return await asyncio.gather(*(model.acomplete(ask()) for _ in range(20)))

    assert [reply.text for reply in asyncio.run(many())] == ["ok"] * 20
    assert len({asked.peer for asked in server.asked}) <= 3


def test_a_call_that_is_cancelled_hangs_up_and_leaves_its_place(serve):
    async def cancelled(server: Any, model: BedrockModel) -> None:
        task = asyncio.create_task(model.acomplete(ask()))
        while not server.asked:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await model.acomplete(ask())).text == "ok"

    def endless() -> Iterator[bytes]:
        while True:
            yield b" " * 1000

    server = serve(Answer(endless()), json_answer(WHOLE))
    model = BedrockModel(CLAUDE, endpoint_url=server.url, max_concurrency=1)
    asyncio.run(cancelled(server, model))
    assert server.hung_up.wait(60)


# Boto3


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_hook_of_others_is_asked(monkeypatch, serve, wrapped):
    from botocore.awsrequest import AWSResponse, HeadersDict

    seen = []

    class Body:
        def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
            yield json.dumps({**WHOLE, "usage": {"inputTokens": 7}}).encode()

        read = stream

    def answer(request: Any, **_: Any) -> Any:
        seen.append(request.url)
        return AWSResponse(request.url, 200, HeadersDict(), Body())

    if wrapped:
        answer = functools.wraps(botocore.handlers.inject_api_version_header_if_needed)(answer)
    handlers = [*botocore.handlers.BUILTIN_HANDLERS, ("before-send", answer)]
    monkeypatch.setattr(botocore.handlers, "BUILTIN_HANDLERS", handlers)
    server = serve(json_answer(WHOLE))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)
    for way in (complete, acomplete):
        assert way(model).usage == Usage(7, calls=1)
    assert len(seen) == 2 and not server.asked


@pytest.mark.parametrize("way", [complete, acomplete])
def test_a_method_that_somebody_replaced_is_called(monkeypatch, serve, way):
    from botocore.client import BaseClient

    def call(client: Any, operation: str, members: Any) -> Any:
        return {**WHOLE, "stopReason": operation}

    server = serve(json_answer(WHOLE))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)
    assert way(model).stop_reason == "end_turn"
    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    assert way(model).stop_reason == "Converse"


def refuse(*_: Any, **__: Any) -> Any:
    raise BotoCoreError


@pytest.mark.parametrize(
    "place",
    [
        "botocore.client.BaseClient._make_api_call",
        "botocore.endpoint.Endpoint._do_get_response",
        "botocore.auth.SigV4Auth.add_auth",
        "botocore.awsrequest.AWSHTTPConnectionPool.ConnectionCls",
        "urllib3.connectionpool.HTTPConnectionPool.urlopen",
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_whoever_replaces_a_part_of_a_request_is_asked(monkeypatch, serve, place, wrapped):
    server = serve(json_answer(WHOLE))
    model = BedrockModel(CLAUDE, endpoint_url=server.url, max_attempts=1)
    assert complete(model).text == "ok"
    assert is_direct(model)
    owner, name = resolve_name(place.rpartition(".")[0]), place.rpartition(".")[2]
    replaced = functools.wraps(owner.__dict__[name])(refuse) if wrapped else refuse
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, replaced)
        with pytest.raises(DependencyFailed, match=r"BotoCoreError|HTTPClientError"):
            complete(model)
        other = BedrockModel("m", endpoint_url=f"{server.url}/other", max_attempts=1)
        with pytest.raises(DependencyFailed, match=r"BotoCoreError|HTTPClientError"):
            complete(other)
    assert len(server.asked) == 1
    assert is_direct(model)


def test_a_stubbers_answers_are_given_in_turn(monkeypatch):
    client = boto3.client("bedrock-runtime", region_name="eu-central-1")
    monkeypatch.setattr(boto3.Session, "client", lambda *_, **__: client)
    with Stubber(client) as stub:
        for text in ("first", "second"):
            content = [{"text": text}]
            output = {"message": {"role": "assistant", "content": content}}
            stub.add_response("converse", {**WHOLE, "output": output, "metrics": {"latencyMs": 1}})
        model = BedrockModel(CLAUDE, endpoint_url="http://127.0.0.1:9/stubbed")
        assert [complete(model).text, acomplete(model).text] == ["first", "second"]


def test_a_mocked_client_sees_the_requests_only(monkeypatch):
    client = MagicMock()
    client.converse.return_value = WHOLE
    monkeypatch.setattr(boto3.Session, "client", lambda *_, **__: client)
    model = BedrockModel(CLAUDE, endpoint_url="http://127.0.0.1:9/mocked")
    assert complete(model).text == "ok"
    assert len(client.converse.mock_calls) == 1
    assert not client.converse_stream.mock_calls


@pytest.mark.parametrize("way", [complete, acomplete])
def test_a_proxy_is_asked(monkeypatch, serve, way):
    proxy = serve(json_answer(WHOLE))
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("http_proxy", proxy.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    model = BedrockModel(CLAUDE, endpoint_url="http://bedrock.invalid")
    assert way(model).text == "ok"
    assert proxy.asked[0].path.startswith("http://bedrock.invalid/model/")


def test_without_usable_credentials_the_error_is_the_same(monkeypatch, serve, tmp_path):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.delenv(f"AWS_{name}")
    config = tmp_path / "config"
    config.write_text(f"[profile broken]\ncredential_process = {sys.executable} -c exit(3)\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    model = BedrockModel(CLAUDE, profile="broken", endpoint_url=serve(json_answer(WHOLE)).url)
    for way in (complete, acomplete):
        with pytest.raises(AccessDenied, match="CredentialRetrievalError"):
            way(model)
