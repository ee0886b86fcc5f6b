"""Attack 19: a model's server that answers nonsense: times that are none, JSON without a floor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from model_servers import Answer, Loopback, aws_stream, event, frame, json_answer, sse
from whole_agents import agent

from orchestrator import ActionGroup, OrchestratorError
from orchestrator.errors import DependencyFailed, ThrottlingError
from orchestrator.models import BedrockModel, ModelRequest, OpenAIModel
from orchestrator.models import openai as module
from orchestrator.models.embeddings import BedrockEmbedder, OpenAIEmbedder

DEEP = b"[" * 100_000
OK = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
CLAUDE = "anthropic.claude-3-haiku-v1:0"
TITAN = "amazon.titan-embed-text-v1"
ASKED = ModelRequest("ORCHESTRATION", "", [{"role": "user", "content": [{"text": "Hi"}]}])  # type: ignore[list-item]


def complete(model: Any) -> Any:
    return model.complete(ASKED)


def acomplete(model: Any) -> Any:
    return asyncio.run(model.acomplete(ASKED))


def stream(model: Any) -> Any:
    return list(model.stream(ASKED))


def astream(model: Any) -> Any:
    async def collect() -> list[Any]:
        return [item async for item in model.astream(ASKED)]

    return asyncio.run(collect())


pytestmark = pytest.mark.usefixtures("no_collection")
WAYS = pytest.mark.parametrize("ask", [complete, acomplete, stream, astream])
Ask = Callable[[Any], Any]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    noted: list[float] = []

    async def asleep(seconds: float) -> None:
        noted.append(seconds)

    monkeypatch.setattr(module, "_sleep", noted.append)
    monkeypatch.setattr(module, "_asleep", asleep)
    return noted


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")


@pytest.mark.parametrize("ask", [complete, acomplete])
@pytest.mark.parametrize(
    "retry_after",
    [
        *("nan", "-nan", "inf", "-inf", "1e999", "-5", "-1e308", "", "soon", "0x10", "१०"),
        *("Wed, 21 Oct 99999 07:28:00 GMT", "Wed, 21 Oct 0000 07:28:00 GMT", "1 Jan", "Mon, , ,"),
        "Wed, 21 Oct 2015 07:28:00 +9999",
    ],
)
def test_a_time_to_wait_that_is_none(ask: Ask, retry_after: str, waits: list[float]) -> None:
    busy = json_answer({"error": {"message": "busy"}}, 429)
    busy.headers["Retry-After"] = retry_after.encode().decode("latin-1")
    with Loopback([busy, busy, json_answer(OK)]).running() as server:
        assert ask(OpenAIModel("m", server.url)).text == "ok"
    assert all(0 <= wait <= 60 for wait in waits) and len(waits) == 2


@pytest.mark.parametrize("retry_after", ["1e308", "9" * 400, "Wed, 21 Oct 9998 07:28:00 GMT"])
def test_a_time_far_off_is_not_waited_for(retry_after: str, waits: list[float]) -> None:
    busy = json_answer({"error": {"message": "busy"}}, 429, **{"Retry-After": retry_after})
    with Loopback([busy]).running() as server, pytest.raises(ThrottlingError):
        complete(OpenAIModel("m", server.url, max_attempts=2))
    assert all(wait <= 60 for wait in waits)


@WAYS
@pytest.mark.parametrize("status", [200, 400, 418, 500])
@pytest.mark.parametrize("body", [DEEP, b'{"a":' * 100_000, b'{"error":' + DEEP])
def test_deep_json_is_a_typed_error(ask: Ask, status: int, body: bytes, waits: list[float]) -> None:
    streamed = ask in (stream, astream) and status == 200
    answer = Answer(b"data: " + body + b"\n\n" if streamed else body, status)
    with Loopback([answer]).running() as server, pytest.raises(OrchestratorError) as failed:
        ask(OpenAIModel("m", server.url, max_attempts=1))
    assert "[[[[" not in failed.value.message


@WAYS
@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("status", [200, 400, 500])
def test_deep_json_of_bedrock_is_a_typed_error(ask: Ask, status: int) -> None:
    answer = Answer(DEEP, status, {"Content-Type": "application/json"})
    if status == 200 and ask in (stream, astream):
        headers = {":message-type": "event", ":event-type": "contentBlockDelta"}
        answer = aws_stream(frame(headers, DEEP))
    with Loopback([answer]).running() as server, pytest.raises(OrchestratorError):
        ask(BedrockModel(CLAUDE, region="us-east-1", endpoint_url=server.url, max_attempts=1))


@pytest.mark.usefixtures("aws")
def test_deep_json_of_embedding_models_is_a_typed_error() -> None:
    with Loopback([Answer(DEEP)]).running() as server:
        for embedder in (
            OpenAIEmbedder("m", server.url),
            BedrockEmbedder(TITAN, region="us-east-1", endpoint_url=server.url),
        ):
            with pytest.raises(DependencyFailed):
                embedder.embed(["x"])


def do(values: list[Any]) -> str:
    """Does it."""
    return "done"


@pytest.mark.parametrize("depth", [60, 150, 300, 600, 900, 960, 5_000, 100_000])
@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_arguments_of_any_depth_end_a_turn_in_an_answer_or_an_error(way: str, depth: int) -> None:
    arguments = '{"values": ' + "[" * depth + "]" * depth + "}"
    function = {"name": "work__do", "arguments": arguments}
    call = {"index": 0, "id": "c-1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"message": message, "delta": message, "finish_reason": "tool_calls"}
    answer = sse({"choices": [choice]}) if way == "stream" else json_answer({"choices": [choice]})
    done = "<answer>ok</answer>"
    ok = {"delta": {"content": done}, "message": {"content": done}, "finish_reason": "stop"}
    last = sse({"choices": [ok]}) if way == "stream" else json_answer({"choices": [ok]})
    with Loopback([answer, last]).running() as server:
        asked = agent(OpenAIModel("m", server.url), [ActionGroup("work", [do])])
        try:
            reply = asked.invoke("Hi") if way == "invoke" else list(asked.stream("Hi"))
        except OrchestratorError:
            return
    assert reply


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("depth", [60, 300, 600, 900, 960, 5_000])
def test_so_do_those_of_bedrock(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    body = (
        '{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"t-1",'
        f'"name":"work__do","input":{{"values":{nested}}}}}}}]}}}},"stopReason":"tool_use",'
        '"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}'
    )
    text = {"role": "assistant", "content": [{"text": "<answer>ok</answer>"}]}
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    last = json_answer({"output": {"message": text}, "stopReason": "end_turn", "usage": usage})
    with Loopback([Answer(body.encode()), last]).running() as server:
        model = BedrockModel(CLAUDE, region="us-east-1", endpoint_url=server.url, max_attempts=1)
        try:
            assert agent(model, [ActionGroup("work", [do])]).invoke("Hi")
        except OrchestratorError:
            return


def test_a_stream_of_bedrock_with_many_blocks_is_a_typed_error(aws: None) -> None:
    frames = [
        event("contentBlockDelta", {"contentBlockIndex": n, "delta": {"text": "a"}})
        for n in range(2_000)
    ]
    with Loopback([aws_stream(*frames)]).running() as server, pytest.raises(DependencyFailed):
        stream(BedrockModel(CLAUDE, region="us-east-1", endpoint_url=server.url, max_attempts=1))


def test_json_of_usage_that_is_no_object() -> None:
    for usage in ([], "x", 7, {"prompt_tokens_details": 3}):
        answer = json_answer({**OK, "usage": usage or [1]})
        with Loopback([answer]).running() as server, pytest.raises(DependencyFailed):
            complete(OpenAIModel("m", server.url))
