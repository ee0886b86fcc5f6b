"""InvokeAgent over HTTP: conversations of boto3's own client with an agent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError
from left_out import sampled
from runtime_servers import (
    ASKS_USER,
    BY_CALLER,
    BY_LAMBDA,
    CLAUDE,
    LAMBDA,
    HumanResources,
    calls,
    kinds,
    says,
)

from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.testing import ScriptedModel

TURN = [
    "modelInvocationInput",
    "modelInvocationOutput",
    "rationale",
    "observation",
]


def test_an_answer(start: Any) -> None:
    server = start([says("Hello.")])
    answer = server.invoke("Hi")
    assert answer["text"] == "Hello."
    assert kinds(answer) == ["chunk"]
    assert answer["sessionId"] == "s-1"
    assert answer["contentType"] == "application/json"
    assert "memoryId" not in answer


def test_a_trace_when_it_is_wanted(start: Any) -> None:
    server = start([says("Hello."), says("Again.")])
    assert kinds(server.invoke("Hi", enableTrace=True)) == [*TURN, "chunk"]
    assert kinds(server.invoke("Hi", enableTrace=False)) == ["chunk"]


def test_an_action_by_a_function_that_stands_for_a_lambda(start: Any) -> None:
    handler = HumanResources()
    server = start(
        [calls("hr__get_days", {"employee": "e7"}), says("You have 12 days.")],
        {"actionGroups": [BY_LAMBDA]},
        lambdas={LAMBDA: handler},
    )
    answer = server.invoke(
        "How many?", enableTrace=True, sessionState={"sessionAttributes": {"tier": "gold"}}
    )
    assert answer["text"] == "You have 12 days."
    assert kinds(answer) == [*TURN[:3], "invocationInput", "observation", *TURN, "chunk"]
    (event,) = handler.events
    assert event["parameters"] == [{"name": "employee", "type": "string", "value": "e7"}]
    assert event["sessionAttributes"] == {"tier": "gold"}
    assert event["sessionId"] == "s-1"


def test_control_is_returned_and_resumed_in_another_request(start: Any) -> None:
    server = start(
        [calls("hr__get_days", {"employee": "e7"}), says("You have 5 days.")],
        {"actionGroups": [BY_CALLER]},
    )
    first = server.invoke("How many?")
    assert kinds(first) == ["returnControl"]
    control = first["events"][0]["returnControl"]
    (asked,) = control["invocationInputs"]
    assert asked["functionInvocationInput"]["function"] == "get_days"
    body = {"TEXT": {"body": "5 days"}}
    result = {"actionGroup": "hr", "function": "get_days", "responseBody": body}
    second = server.invoke(
        "this is ignored",
        sessionState={
            "invocationId": control["invocationId"],
            "returnControlInvocationResults": [{"functionResult": result}],
        },
    )
    assert second["text"] == "You have 5 days."


def test_another_server_of_the_same_state_goes_on(start: Any, tmp_path: Any) -> None:
    members, state = {"actionGroups": [BY_CALLER]}, tmp_path / "state.sqlite"
    first = start([calls("hr__get_days", {"employee": "e7"})], members, state=state)
    second = start([says("You have 5 days."), says("You asked for days.")], members, state=state)
    control = first.invoke("How many?")["events"][0]["returnControl"]
    body = {"TEXT": {"body": "5 days"}}
    result = {"actionGroup": "hr", "function": "get_days", "responseBody": body}
    given = {
        "invocationId": control["invocationId"],
        "returnControlInvocationResults": [{"functionResult": result}],
    }
    assert second.invoke(sessionState=given)["text"] == "You have 5 days."
    assert first.invoke(sessionState=given)["text"] == "You have 5 days."
    second.invoke("What did I ask?")
    assert "How many?" in str(second.model.requests[1].messages)


def test_results_of_nothing_are_a_validation_error(start: Any) -> None:
    server = start([], {"actionGroups": [BY_CALLER]})
    result = {"actionGroup": "hr", "function": "get_days", "responseBody": {"TEXT": {"body": "5"}}}
    with pytest.raises(ClientError) as caught:
        server.invoke(
            sessionState={
                "invocationId": "forged",
                "returnControlInvocationResults": [{"functionResult": result}],
            }
        )
    assert caught.value.response["Error"]["Code"] == "ValidationException"


@pytest.mark.parametrize(("decision", "runs"), [("CONFIRM", 1), ("DENY", 0)])
def test_a_user_confirms_or_denies(start: Any, decision: str, runs: int) -> None:
    handler = HumanResources("booked")
    server = start(
        [calls("hr__book", {"days": 2}), says("Done.")],
        {"actionGroups": [BY_LAMBDA]},
        lambdas={LAMBDA: handler},
    )
    control = server.invoke("Book two days")["events"][0]["returnControl"]
    asked = control["invocationInputs"][0]["functionInvocationInput"]
    assert asked["actionInvocationType"] == "USER_CONFIRMATION"
    assert not handler.events
    result = {"actionGroup": "hr", "function": "book", "confirmationState": decision}
    answer = server.invoke(
        sessionState={
            "invocationId": control["invocationId"],
            "returnControlInvocationResults": [{"functionResult": result}],
        }
    )
    assert answer["text"] == "Done."
    assert len(handler.events) == runs


def test_the_user_is_asked(start: Any) -> None:
    server = start(
        [calls("user__askuser", {"question": "Whose?"}), says("e7 has 12.")],
        {"actionGroups": [ASKS_USER]},
    )
    asked = server.invoke("How many days?", enableTrace=True)
    assert asked["text"] == "Whose?"
    observed = [it["trace"] for it in asked["events"] if "trace" in it][-1]
    assert observed["trace"]["orchestrationTrace"]["observation"]["type"] == "ASK_USER"
    assert server.invoke("Those of e7")["text"] == "e7 has 12."


def test_an_answer_comes_as_it_is_written(start: Any) -> None:
    model = ScriptedModel([says("One two three four.")], "anthropic.claude-3-5-sonnet", chunk=4)
    server = start(model)
    answer = server.invoke("Count", streamingConfigurations={"streamFinalResponse": True})
    assert len(answer["chunks"]) > 2
    assert answer["text"] == "One two three four."


def test_a_model_streams_only_when_somebody_listens(start: Any) -> None:
    asked = []

    class Noting(ScriptedModel):
        def stream(self, request: Any) -> Any:
            asked.append("stream")
            return super().stream(request)

        async def acomplete(self, request: Any) -> Any:
            asked.append("whole")
            return self.complete(request)

    server = start(Noting([says("Hello.")] * 3, CLAUDE))
    server.invoke("Hi")
    server.invoke("Hi", enableTrace=True)
    server.invoke("Hi", streamingConfigurations={"streamFinalResponse": True})
    assert asked == ["whole", "stream", "stream"]


def test_an_answer_longer_than_a_chunk(start: Any) -> None:
    text = "ä" * 700_000
    answer = start([says(text)]).invoke("Tell me all")
    assert [len(chunk["bytes"]) <= 1_000_000 for chunk in answer["chunks"]] == [True, True]
    assert answer["text"] == text


def test_the_end_of_a_session(start: Any) -> None:
    server = start([says("One."), says("Two."), says("Three.")])
    server.invoke("First")
    server.invoke("Second", endSession=True)
    server.invoke("Third")
    assert "First" in str(server.model.requests[1].messages)
    assert "First" not in str(server.model.requests[2].messages)


def test_a_session_ends_without_a_question(start: Any) -> None:
    server = start([says("One."), says("Two.")])
    server.invoke("First")
    assert server.invoke("", endSession=True)["events"] == []
    server.invoke("Second")
    assert "First" not in str(server.model.requests[1].messages)


def test_the_conversation_that_a_caller_brings(start: Any) -> None:
    server = start([says("Yes.")])
    history = [
        {"role": "user", "content": [{"text": "I am e7."}]},
        {"role": "assistant", "content": [{"text": "Welcome."}]},
    ]
    server.invoke(
        "Do you know me?",
        sessionState={
            "conversationHistory": {"messages": history},
            "promptSessionAttributes": {"day": "Monday"},
        },
    )
    assert "I am e7." in str(server.model.requests[0].messages)
    prompt = server.model.requests[0]
    assert "Monday" in prompt.system + str(prompt.messages)


def test_earlier_turns_are_left_out(start: Any) -> None:
    server = start([says("One."), says("Two.")])
    server.invoke("First")
    server.invoke("Second", promptCreationConfigurations={"previousConversationTurnsToInclude": 0})
    assert "First" not in str(server.model.requests[1].messages)


def test_a_file_for_the_model(start: Any) -> None:
    server = start([says("Read.")])
    source = {
        "sourceType": "BYTE_CONTENT",
        "byteContent": {"mediaType": "text/plain", "data": b"the secret word is plum"},
    }
    server.invoke(
        "What is in it?",
        sessionState={"files": [{"name": "a.txt", "source": source, "useCase": "CHAT"}]},
    )
    assert "plum" in str(server.model.requests[0].messages)


class Echo(Model):
    """Answers with what it was asked last, and with what before."""

    model_id = CLAUDE

    def complete(self, request: ModelRequest) -> ModelReply:
        asked = [it["content"][0]["text"] for it in request.messages if it["role"] == "user"]
        return ModelReply([{"text": says(" ".join(asked))}])


@pytest.mark.parametrize("trace", [True, False])
def test_turns_of_many_sessions_do_not_cross(start: Any, trace: bool) -> None:
    server = start(Echo())

    def converse(number: int) -> list[str]:
        asked = [f"{number}-{turn}" for turn in range(3)]
        return [server.invoke(it, f"s-{number}", enableTrace=trace)["text"] for it in asked]

    with ThreadPoolExecutor(16) as pool:
        for number, told in enumerate(pool.map(converse, range(32))):
            one, two, three = (f"{number}-{turn}" for turn in range(3))
            assert told == [one, f"{one} {two}", f"{one} {two} {three}"]


def test_an_unknown_agent_or_alias(start: Any) -> None:
    server = start([])
    for ids in ({"agentId": "NOBODY0000"}, {"agentAliasId": "NOBODY0000"}):
        with pytest.raises(ClientError) as caught:
            server.invoke("Hi", **ids)
        assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_no_question(start: Any) -> None:
    server = start([])
    with pytest.raises(ClientError) as caught:
        server.invoke("")
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


@pytest.mark.parametrize(
    "text", sampled(["x" * 20_000_000, "\nx" * 7_000_000]), ids=["long", "escaped"]
)
def test_a_trace_that_is_too_long_is_shortened(start: Any, text: str) -> None:
    server = start([says("Hello.")])
    answer = server.invoke(text, enableTrace=True)
    assert kinds(answer) == [*TURN, "chunk"]
    assert answer["text"] == "Hello."
    told = answer["events"][0]["trace"]["trace"]["orchestrationTrace"]["modelInvocationInput"]
    assert told["type"] == "ORCHESTRATION" and len(told["text"]) > 1_000_000
    assert "more characters are left out here" in told["text"][-120:]
