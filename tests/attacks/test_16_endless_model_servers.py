"""Attack 16: a model's server that answers without an end, slowly, or with costs below zero."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any

import pytest
from model_servers import Answer, Loopback, event, json_answer, sse
from whole_agents import agent

from orchestrator import LimitExceeded, Limits, OrchestratorError, Sessions
from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.models import BedrockModel, Model, ModelRequest, OpenAIModel
from orchestrator.models import openai as module
from orchestrator.models.embeddings import OpenAIEmbedder
from orchestrator.support.http import fairness
from orchestrator.testing import FakeClock

MOST = 100_000
ENOUGH = 60_000_000  # what a server sends to somebody who reads on and on
SSE = {"Content-Type": "text/event-stream"}
AWS_STREAM = {"Content-Type": "application/vnd.amazon.eventstream"}
DELTA = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
AWS_DELTA = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}})
OK = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}

Ask = Callable[[Any, ModelRequest], Any]


def complete(model: Any, request: ModelRequest) -> Any:
    return model.complete(request)


def acomplete(model: Any, request: ModelRequest) -> Any:
    return asyncio.run(model.acomplete(request))


def stream(model: Any, request: ModelRequest) -> Any:
    return list(model.stream(request))


def astream(model: Any, request: ModelRequest) -> Any:
    async def collect() -> list[Any]:
        return [item async for item in model.astream(request)]

    return asyncio.run(collect())


WAYS = pytest.mark.parametrize("ask", [complete, acomplete, stream, astream])
STREAMS = pytest.mark.parametrize("ask", [stream, astream])


def request(**members: Any) -> ModelRequest:
    user = {"role": "user", "content": [{"text": "Hi"}]}
    return ModelRequest("ORCHESTRATION", "", [user], **members)  # type: ignore[list-item]


class Flood:
    """A body that has no end for whoever reads it; it counts what was taken of it."""

    def __init__(self, piece: bytes, size: int = 50_000) -> None:
        self.sent = 0
        self._piece = piece * max(size // len(piece), 1)

    def __iter__(self) -> Iterator[bytes]:
        while self.sent < ENOUGH:
            self.sent += len(self._piece)
            yield self._piece


def bedrock(url: str, monkeypatch: pytest.MonkeyPatch) -> BedrockModel:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    return BedrockModel("anthropic.claude-3-haiku-v1:0", region="us-east-1", endpoint_url=url)


@WAYS
@pytest.mark.parametrize("status", [200, 400, 429, 500])
@pytest.mark.parametrize("piece", [b" ", b"x", b": comment\n", DELTA, b"data: " + b"x" * 49_000])
def test_a_body_without_an_end_is_left(
    ask: Ask, status: int, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_sleep", lambda seconds: None)
    flood = Flood(piece)
    with Loopback([Answer(flood, status, SSE)]).running() as server:
        model = OpenAIModel("m", server.url, max_attempts=1)
        with pytest.raises(OrchestratorError) as failed:
            ask(model, request(reply_bytes=MOST))
    assert flood.sent < ENOUGH / 2
    assert "x" * 1000 not in failed.value.message


@STREAMS
@pytest.mark.parametrize("part", ["content", "reasoning", "arguments", "calls"])
def test_what_a_stream_says_is_bounded(ask: Ask, part: str) -> None:
    call = {"function": {"name": "f", "arguments": "a"}}
    deltas: dict[str, Any] = {
        "content": {"content": "a"},
        "reasoning": {"reasoning": "a"},
        "arguments": {"tool_calls": [{"index": 0, **call}]},
        "calls": {"tool_calls": [{"index": n, **call} for n in range(5_000)]},
    }
    piece = f"data: {json.dumps({'choices': [{'delta': deltas[part]}]})}\n\n".encode()
    flood = Flood(piece)
    with (
        Loopback([Answer(flood, headers=SSE)]).running() as server,
        pytest.raises(DependencyFailed),
    ):
        ask(OpenAIModel("m", server.url), request(reply_bytes=500_000))
    assert flood.sent < ENOUGH / 2


@WAYS
def test_a_stream_of_bedrock_without_an_end_is_left(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = ask in (stream, astream)
    flood = Flood(AWS_DELTA if streams else b" ")
    answer = Answer(flood, headers=AWS_STREAM if streams else {"Content-Type": "application/json"})
    with Loopback([answer]).running() as server, pytest.raises(DependencyFailed) as failed:
        ask(bedrock(server.url, monkeypatch), request(reply_bytes=MOST))
    assert flood.sent < ENOUGH / 2
    assert "reply_bytes" in failed.value.message


class Drip:
    """Bytes that come one by one, each long before any time-out, until nobody listens."""

    def __init__(self, begin: bytes, piece: bytes) -> None:
        self.begin, self.piece = begin, piece
        self.stop = Event()

    def __iter__(self) -> Iterator[bytes]:
        yield self.begin
        for _ in range(6_000):  # two minutes, for whoever does not hang up
            if self.stop.wait(0.02):
                return
            yield self.piece


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize(
    ("status", "begin", "piece"),
    [
        (200, b'{"choices"', b" "),
        (200, DELTA, DELTA),
        (200, DELTA, b":\n"),
        (200, b"data: ", b"x"),
        (429, b"{", b" "),
    ],
)
def test_the_turn_ends_in_time_though_each_byte_comes_in_time(
    way: str, status: int, begin: bytes, piece: bytes
) -> None:
    with Loopback([Answer(Drip(begin, piece), status, SSE)]).running() as server:
        asked = agent(OpenAIModel("m", server.url), limits=Limits(seconds=0.2))
        with pytest.raises(LimitExceeded) as failed:
            _run(asked, way)
        assert failed.value.limit == "seconds"
        # On a slow machine the time may be over before anything is sent.
        assert not server.asked or server.hung_up.wait(30)


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_the_turn_ends_in_time_for_bedrock_too(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = way.endswith("stream")
    begin, piece = (AWS_DELTA, AWS_DELTA) if streams else (b"{", b" ")
    answer = Answer(Drip(begin, piece), headers=AWS_STREAM)
    with Loopback([answer]).running() as server:
        asked = agent(bedrock(server.url, monkeypatch), limits=Limits(seconds=0.2))
        with pytest.raises(LimitExceeded) as failed:
            _run(asked, way)
        assert failed.value.limit == "seconds"
        # On a slow machine the time may be over before anything is sent.
        assert not server.asked or server.hung_up.wait(30)


class Endless(Model):
    """A model of one's own, which knows nothing of a turn's time."""

    model_id = "anthropic.claude-3-haiku-v1:0"

    def __init__(self, clock: FakeClock) -> None:
        self.pieces = 0
        self._clock = clock

    def complete(self, request: ModelRequest) -> Any:
        raise NotImplementedError

    def stream(self, request: ModelRequest) -> Iterator[Any]:
        for self.pieces in range(1_000_000):
            self._clock.advance(0.001)
            yield "a"


def test_a_stream_of_any_model_is_left_in_time() -> None:
    clock = FakeClock()
    model, sessions = Endless(clock), Sessions(clock=clock)
    asked = agent(model, limits=Limits(seconds=0.2), sessions=sessions)  # type: ignore[arg-type]
    with pytest.raises(LimitExceeded) as failed:
        list(asked.stream("Hi"))
    assert failed.value.limit == "seconds"
    assert 100 < model.pieces < 300


def test_headers_that_come_byte_by_byte_take_no_longer() -> None:
    asked, left = Event(), Event()

    def serve(listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                asked.set()
                for piece in Drip(b"HTTP/1.1 200 OK\r\nX: ", b"x"):
                    connection.sendall(piece)
        except OSError:
            left.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        model = OpenAIModel("m", f"http://127.0.0.1:{listening.getsockname()[1]}")
        with pytest.raises(LimitExceeded):
            model.complete(request(seconds=0.4))
        assert not asked.is_set() or left.wait(30)


def _run(asked: Any, way: str) -> Any:
    async def ainvoke() -> Any:
        return await asked.ainvoke("Hi")

    async def astreamed() -> Any:
        return [it async for it in asked.astream("Hi")]

    if way == "invoke":
        return asked.invoke("Hi")
    if way == "stream":
        return list(asked.stream("Hi"))
    return asyncio.run(ainvoke() if way == "ainvoke" else astreamed())


@pytest.mark.parametrize("ask", [complete, acomplete])
def test_ever_new_refused_parameters_end(ask: Ask) -> None:
    def refuse(number: int) -> Answer:
        error = {"code": "unsupported_parameter", "param": f"p{number}", "message": "no"}
        return json_answer({"error": error}, 400)

    answers = [*map(refuse, range(50)), json_answer(OK)]
    with Loopback(answers).running() as server, pytest.raises(ValidationError):
        ask(OpenAIModel("m", server.url), request(inference={"temperature": 0}))
    assert len(server.asked) == 1


@pytest.mark.parametrize("name", ["model", "messages", "tools", "stream"])
def test_what_a_request_is_about_is_never_left_out(name: str) -> None:
    error = {"code": "unsupported_parameter", "param": name, "message": "no"}
    answers = [json_answer({"error": error}, 400), json_answer(OK)]
    with Loopback(answers).running() as server, pytest.raises(ValidationError):
        list(OpenAIModel("m", server.url).stream(request()))
    assert len(server.asked) == 1


COUNTS: list[Any] = [-1, -(10**9), 10**30, 1.5, "7", True, [1]]


@WAYS
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_no_server_gives_tokens_back(ask: Ask, name: str, count: Any) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, name: count}
    delta = {"delta": {"content": "ok"}, "finish_reason": "stop"}
    streams = ask in (stream, astream)
    answer = sse({"choices": [delta]}, {"choices": [], "usage": usage})
    if not streams:
        answer = json_answer({**OK, "usage": usage})
    with Loopback([answer]).running() as server, pytest.raises(DependencyFailed):
        ask(OpenAIModel("m", server.url), request())


@WAYS
@pytest.mark.parametrize("count", [-1, -(10**9), 10**30])
def test_bedrock_gives_no_tokens_back(
    ask: Ask, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = {"inputTokens": 1, "outputTokens": count, "totalTokens": 1}
    message = {"role": "assistant", "content": [{"text": "ok"}]}
    whole = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage}
    frames = [event("messageStop", {"stopReason": "end_turn"}), event("metadata", {"usage": usage})]
    streams = ask in (stream, astream)
    answer = Answer([AWS_DELTA, *frames], headers=AWS_STREAM) if streams else json_answer(whole)
    with Loopback([answer]).running() as server, pytest.raises(DependencyFailed):
        ask(bedrock(server.url, monkeypatch), request())


def test_more_cached_tokens_than_there_are_give_none_back() -> None:
    usage = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 900}}
    with Loopback([json_answer({**OK, "usage": usage})]).running() as server:
        reply = OpenAIModel("m", server.url).complete(request())
    assert reply.usage.input_tokens == 0


def test_an_endless_list_of_vectors_is_left() -> None:
    flood = Flood(b'{"index":0,"embedding":[0.1]},')
    with Loopback([Answer(flood)]).running() as server, pytest.raises(DependencyFailed):
        OpenAIEmbedder("m", server.url).embed(["text"])
    assert flood.sent < ENOUGH / 2


def test_small_pieces_of_a_long_event_cost_no_more_than_large_ones() -> None:
    from orchestrator.models._chat_completions import EventReader

    reader, text = EventReader(), b'data: {"a": "' + b"x" * 400_000 + b'"}\n'
    found = [*itertools.chain.from_iterable(reader.feed(bytes([it])) for it in text)]
    assert found == [{"a": "x" * 400_000}]


class Pauses:
    """Stands for `asyncio` and `time` where answers are read: counts the pauses, and makes none."""

    def __init__(self, busy: float) -> None:
        self.seconds: list[float] = []
        self._busy = busy
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        """A pause; others take so long in the shortest one."""
        self.seconds.append(seconds)
        self._now += seconds or self._busy
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("busy", "count", "waits"), [(0.01, 1_000, True), (0.01, 10, False), (0.0, 1_000, False)]
)
def test_a_long_answer_gives_way_to_others_while_the_loop_is_busy(
    monkeypatch: pytest.MonkeyPatch, busy: float, count: int, waits: bool
) -> None:
    pauses = Pauses(busy)
    monkeypatch.setattr(fairness, "asyncio", pauses)
    monkeypatch.setattr(fairness, "time", pauses)
    end = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    body = itertools.chain(itertools.repeat(b": x\n\n" * 100, count), [DELTA, end])
    with Loopback([Answer(body, headers=SSE)]).running() as server:
        items = astream(OpenAIModel("m", base_url=server.url), request(reply_bytes=10**9))
    assert items[0] == "a"
    assert any(pauses.seconds) is waits
    assert max(pauses.seconds, default=0) <= 0.25
