"""What goes wrong: before a turn as HTTP errors, within it as the stream's last message."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError
from runtime_servers import (
    AGENT_ID,
    ALIAS_ID,
    BY_LAMBDA,
    CLAUDE,
    LAMBDA,
    HumanResources,
    calls,
    says,
)
from waiting import until

from orchestrator.errors import DependencyFailed, SessionConflict, ThrottlingError
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.server.operations import Caller, Request


def streamed(server: Any, text: str = "Hi", **params: Any) -> tuple[list[Any], Any]:
    """The events of an answer, and the error that ended it."""
    given = {"agentId": AGENT_ID, "agentAliasId": ALIAS_ID, "sessionId": "s-1", **params}
    events = []
    with closing(server.client.invoke_agent(inputText=text, **given)["completion"]) as stream:
        try:
            for event in stream:
                events.append(event)
        except EventStreamError as error:
            return events, error
    return events, None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DependencyFailed("the model is down", resource="m"), "dependencyFailedException"),
        (ThrottlingError("slower, please"), "throttlingException"),
    ],
)
def test_a_model_that_fails(start: Any, error: Exception, code: str) -> None:
    server = start([error])
    events, caught = streamed(server, enableTrace=True)
    assert caught.response["Error"]["Code"] == code
    assert caught.response["Error"]["Message"] == str(error)
    (first, last) = [event["trace"]["trace"] for event in events]
    assert "modelInvocationInput" in first["orchestrationTrace"]
    assert last["failureTrace"]["failureReason"]


def test_a_failure_without_a_trace(start: Any) -> None:
    server = start([DependencyFailed("the model is down")])
    events, caught = streamed(server)
    assert events == []
    assert caught.response["Error"]["Code"] == "dependencyFailedException"


def test_an_action_that_fails(start: Any) -> None:
    def raising(event: Any, context: Any) -> Any:
        raise RuntimeError("the secret of the database")

    server = start(
        [calls("hr__get_days", {"employee": "e7"})],
        {"actionGroups": [BY_LAMBDA]},
        lambdas={LAMBDA: raising},
    )
    _, caught = streamed(server)
    assert caught.response["Error"]["Code"] == "dependencyFailedException"
    assert "secret" not in str(caught)


def list_warnings(caplog: pytest.LogCaptureFixture, response: Mapping[str, Any]) -> list[str]:
    """What was warned of because of the request of a response.

    The log may have other records: clients of tests that run beside this one, or have ended, may
    reach its server when it listens on a port that was theirs.
    """
    start = f"request {response['ResponseMetadata']['RequestId']}: "
    texts = [it.getMessage() for it in caplog.records if it.levelname == "WARNING"]
    return [text.removeprefix(start) for text in texts if text.startswith(start)]


@pytest.mark.parametrize("debug", ["0", "1"])
def test_the_log_says_why_a_turn_failed(
    start: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, debug: str
) -> None:
    def raising(event: Any, context: Any) -> Any:
        raise RuntimeError("the secret of the database")

    monkeypatch.setenv("ORCHESTRATOR_DEBUG", debug)
    script = [calls("hr__get_days", {"employee": "e7"})]
    server = start(script, {"actionGroups": [BY_LAMBDA]}, lambdas={LAMBDA: raising})
    params = {"agentId": AGENT_ID, "agentAliasId": ALIAS_ID, "sessionId": "s-1"}
    answer = server.client.invoke_agent(inputText="Hi", **params)
    with closing(answer["completion"]) as stream, pytest.raises(EventStreamError) as caught:
        list(stream)

    (message,) = list_warnings(caplog, answer)
    assert message in str(caught.value)
    assert "raised RuntimeError at test_failures.py:" in message
    # What the handler itself says is for whoever asks for it.
    assert ("the secret of the database" in caplog.text) is (debug == "1")


def test_the_log_is_silent_about_mistakes_of_callers(
    start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = start([])
    with pytest.raises(ClientError, match="the question is empty") as caught:
        streamed(server, text="")
    assert list_warnings(caplog, caught.value.response) == []


def test_a_limit(start: Any) -> None:
    server = start([says("x")], {"limits": {"modelCalls": 1, "iterations": 1}})
    assert server.invoke("Hi")["text"] == "x"
    endless = start(
        [calls("hr__get_days", {"employee": "e7"})] * 3,
        {"actionGroups": [BY_LAMBDA], "limits": {"iterations": 2}},
        lambdas={LAMBDA: HumanResources()},
    )
    _, caught = streamed(endless)
    assert caught.response["Error"]["Code"] == "serviceQuotaExceededException"


class Waiting(Model):
    """A model whose pieces come when they are let; it notes what became of it."""

    model_id = CLAUDE

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()
        self.calls = 0

    def complete(self, request: ModelRequest) -> ModelReply:
        *_, reply = self.stream(request)
        assert isinstance(reply, ModelReply)
        return reply

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        self.calls += 1
        text = says("One. Two.")
        yield text[:45]
        self.asked.set()
        assert self.go.wait(60)
        yield text[45:]
        yield ModelReply([{"text": text}])


def test_a_session_that_is_busy(start: Any) -> None:
    model = Waiting()
    server = start(model)
    stream = server.client.invoke_agent(
        agentId=AGENT_ID, agentAliasId=ALIAS_ID, sessionId="s-1", inputText="Hi"
    )["completion"]
    assert model.asked.wait(60)
    with pytest.raises(ClientError) as caught:
        server.invoke("Meanwhile")
    assert caught.value.response["Error"]["Code"] == "ConflictException"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 409
    model.go.set()
    assert [event["chunk"]["bytes"] for event in stream] == [b"One. Two."]


@pytest.mark.parametrize("listens", [True, False])
def test_a_client_that_goes_stops_the_turn(start: Any, listens: bool) -> None:
    model = Waiting()
    server = start(model)
    stream = server.client.invoke_agent(
        agentId=AGENT_ID,
        agentAliasId=ALIAS_ID,
        sessionId="s-1",
        inputText="Hi",
        enableTrace=listens,
    )["completion"]
    if listens:
        assert "trace" in next(iter(stream))
    assert model.asked.wait(60)
    agent = server.world.agents.resolve_alias(Caller(), AGENT_ID, ALIAS_ID)
    stream.close()
    try:
        until(lambda: [it.stop_reason for it in agent.turns("s-1")] == ["cancelled"])
        assert model.calls == 1
    finally:
        model.go.set()


def test_an_answer_that_nobody_ever_reads_gives_the_session_back(start: Any) -> None:
    server = start([says("One.")])
    invoke = server.world.operations()["bedrock-agent-runtime"]["InvokeAgent"]
    ids = {"agentId": AGENT_ID, "agentAliasId": ALIAS_ID, "sessionId": "s-1"}
    request = Request("bedrock-agent-runtime", "InvokeAgent", {**ids, "inputText": "Hi"})

    async def asked() -> None:
        answer = await invoke(request)
        with pytest.raises(SessionConflict):
            await invoke(request)
        del answer
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(asked())
    assert server.invoke("Hi")["text"] == "One."
