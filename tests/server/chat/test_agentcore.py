"""AgentCore's runtime contract: `POST /invocations` and `GET /ping`."""

from __future__ import annotations

import base64
import json
from threading import Event
from typing import Any

import pytest
from chat_support import CLAUDE, calls, function, group, says, write_agent
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ThrottlingError
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.server.operations import Caller
from orchestrator.server.rest import RestApi
from orchestrator.testing import ScriptedModel

RETURNS = {"actionGroups": [group(function("get_days"))]}
DAYS = ("hr__get_days", {"employee": "e7"})
SESSION = "X_Amzn_Bedrock_AgentCore_Runtime_Session_Id"


def invoke(server: Any, body: Any, path: str = "/invocations", **headers: str) -> Any:
    return server.ask("POST", path, body, **headers)


def test_an_answer(start):
    server = start([ModelReply([{"text": says("Twelve.")}], "end_turn", Usage(9, 4, calls=1))])
    heard = invoke(server, {"prompt": "How many?"}, **{SESSION: "s" * 36})
    assert heard.status == 200
    assert heard.headers["content-type"] == "application/json"
    assert heard.json == {
        "response": "Twelve.",
        "status": "success",
        "stopReason": "end_turn",
        "sessionId": "s" * 36,
        "usage": {"inputTokens": 9, "outputTokens": 4},
    }


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "How many?"},
        {"inputText": "How many?"},
        {"input": "How many?"},
        {"message": "How many?"},
        {"input": {"prompt": "How many?"}},
    ],
)
def test_the_ways_to_say_a_question(start, body):
    server = start([says("Twelve.")])
    assert invoke(server, body).json["response"] == "Twelve."
    assert "How many?" in str(server.model.requests[0].messages)


def test_a_fault_of_the_server_names_its_line_in_the_log(start, monkeypatch, caplog):
    async def fail(*_: Any) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(RestApi, "respond", fail)
    heard = invoke(start([]), {"prompt": "How many?"})
    assert heard.status == 500
    message = heard.json["message"]
    assert message.startswith("Something went wrong in the server. Its log says more: ")
    assert message.split()[-1].rstrip(".") in caplog.text


def test_a_stream(start):
    server = start([says("Zwölf \u2028 Tage.")], chunk=4)
    heard = invoke(server, {"prompt": "How many?"}, Accept="text/event-stream")
    assert heard.headers["content-type"].startswith("text/event-stream")
    *chunks, end = heard.events
    assert len(chunks) > 1
    assert "".join(chunk["chunk"]["text"] for chunk in chunks) == "Zwölf \u2028 Tage."
    assert end["end"]["response"] == "Zwölf \u2028 Tage."


def test_a_trace_in_a_stream(start):
    server = start([says("Twelve.")])
    asked = {"prompt": "How many?", "enableTrace": True}
    heard = invoke(server, asked, Accept="text/event-stream")
    steps = [event["trace"]["trace"] for event in heard.events if "trace" in event]
    assert "modelInvocationInput" in steps[0]["orchestrationTrace"]


@pytest.mark.parametrize(
    "session", ["s-1", "0f6f1d1e-8b6a-4d2e-9d6b-2f3f6c0f2a11", "x" * 256, "with spaces / and é"]
)
def test_a_session_goes_on(start, session):
    server = start([says("One."), says("Two.")])
    named = {SESSION: session.encode().decode("latin-1")}
    invoke(server, {"prompt": "First question"}, **named)
    invoke(server, {"prompt": "Second"}, **named)
    assert "First question" in str(server.model.requests[1].messages)


def test_sessions_that_are_changed_to_fit_stay_apart(start):
    server = start([says("One."), says("Two.")])
    invoke(server, {"prompt": "First question"}, **{SESSION: "x" * 255 + "a"})
    invoke(server, {"prompt": "Second"}, **{SESSION: "x" * 255 + "b"})
    assert "First question" not in str(server.model.requests[1].messages)


def test_control_is_returned_and_taken_back(start):
    server = start([calls(DAYS), says("Five.")], members=RETURNS)
    first = invoke(server, {"prompt": "How many?"}, **{SESSION: "s-1"}).json
    assert (first["response"], first["stopReason"]) == ("", "return_control")
    control = first["returnControl"]
    (asked,) = control["invocationInputs"]
    assert asked["functionInvocationInput"]["function"] == "get_days"
    result = {
        "actionGroup": "hr",
        "function": "get_days",
        "responseBody": {"TEXT": {"body": "5 days"}},
    }
    state = {
        "invocationId": control["invocationId"],
        "returnControlInvocationResults": [{"functionResult": result}],
    }
    second = invoke(server, {"sessionState": state}, **{SESSION: "s-1"})
    assert second.json["response"] == "Five."


def test_attributes_and_history(start):
    server = start([says("Ja.")])
    state = {
        "promptSessionAttributes": {"language": "German"},
        "conversationHistory": {
            "messages": [
                {"role": "user", "content": [{"text": "Earlier"}]},
                {"role": "assistant", "content": [{"text": "Yes."}]},
            ]
        },
    }
    assert invoke(server, {"prompt": "Hi", "sessionState": state}).status == 200
    (request,) = server.model.requests
    assert "German" in request.system
    assert request.messages[0]["content"] == [{"text": "Earlier"}]


def test_the_agent_has_to_be_named_when_there_are_several(start, tmp_path):
    write_agent(tmp_path / "agents" / "travel", "travel")
    server = start([says("One.")] * 3)
    refused = invoke(server, {"prompt": "Hi"})
    assert refused.status == 400
    assert "2 agents could be meant" in refused.json["error"]
    ids = {name: id for id, _, name, _ in server.world.agents.list_invocable(Caller())}
    assert invoke(server, {"prompt": "Hi", "agent": "travel"}).status == 200
    assert invoke(server, {"prompt": "Hi"}, "/invocations?agent=vacations").status == 200
    assert invoke(server, {"prompt": "Hi", "agent": ids["travel"]}).status == 200


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        (b"{", 400, "ValidationException"),
        ([], 400, "ValidationException"),
        ({}, 400, "ValidationException"),
        ({"prompt": ""}, 400, "ValidationException"),
        ({"prompt": 7}, 400, "ValidationException"),
        ({"prompt": "x", "agent": 7}, 400, "ValidationException"),
        ({"prompt": "x", "agent": "none"}, 404, "ResourceNotFoundException"),
        ({"prompt": "x", "sessionId": ""}, 400, "ValidationException"),
        ({"prompt": "x", "sessionState": []}, 400, "ValidationException"),
        (
            {"prompt": "x", "sessionState": {"files": [{"path": "/etc/passwd"}]}},
            400,
            "ValidationException",
        ),
        (
            {"prompt": "x", "sessionState": {"sessionAttributes": {"a": 1}}},
            400,
            "ValidationException",
        ),
        (
            {"prompt": "x", "sessionState": {"sessionAttributes": "a"}},
            400,
            "ValidationException",
        ),
        (
            {"prompt": "x", "sessionState": {"returnControlInvocationResults": "a"}},
            400,
            "ValidationException",
        ),
        (
            {"prompt": "x", "sessionState": {"conversationHistory": {"messages": 5}}},
            400,
            "ValidationException",
        ),
        (
            {"prompt": "x", "sessionState": {"sessionAttributes": {"\ud800": 1}}},
            400,
            "ValidationException",
        ),
        ({"prompt": "x", "memoryId": 7}, 400, "ValidationException"),
        ({"input": {"input": {"prompt": "x"}}}, 400, "ValidationException"),
    ],
)
def test_what_is_wrong_is_told(start, body, status, name):
    server = start(["never"])
    heard = invoke(server, body)
    assert (heard.status, heard.json["errorType"]) == (status, name)
    assert server.model.requests == []


def test_failures_are_told_whole_and_in_streams(start):
    server = start([ThrottlingError("too many"), ThrottlingError("too many")])
    whole = invoke(server, {"prompt": "Hi"})
    assert (whole.status, whole.json["errorType"]) == (429, "ThrottlingException")
    streamed = invoke(server, {"prompt": "Hi"}, Accept="text/event-stream")
    assert streamed.events[-1] == {"error": "too many", "errorType": "ThrottlingException"}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["messages", "files", "role", "content", "invocationId", "source"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
_STATES = st.dictionaries(
    st.sampled_from(
        [
            "sessionAttributes",
            "promptSessionAttributes",
            "conversationHistory",
            "files",
            "knowledgeBaseConfigurations",
            "returnControlInvocationResults",
        ]
    ),
    _JSON,
)


def test_any_body_is_answered_or_refused(start):
    server = start(ScriptedModel([], CLAUDE))

    @given(st.dictionaries(st.sampled_from(["prompt", "memoryId", "input"]), _JSON), _STATES)
    def never_fails(body: dict[str, Any], state: dict[str, Any]) -> None:
        server.model._replies.append("<answer>Fine.")
        heard = invoke(server, {"prompt": "Hi", **body, "sessionState": state})
        assert heard.status in (200, 400), heard.body

    never_fails()


def test_a_file_of_the_question(start):
    server = start([says("Blue.")])
    content = base64.b64encode(b"The car is blue.").decode()
    source = {
        "sourceType": "BYTE_CONTENT",
        "byteContent": {"mediaType": "text/plain", "data": content},
    }
    file = {"name": "car.txt", "source": source, "useCase": "CHAT"}
    assert invoke(server, {"prompt": "?", "sessionState": {"files": [file]}}).status == 200
    assert "The car is blue." in str(server.model.requests[0].messages)


def ping(server: Any) -> str:
    heard = server.ask("GET", "/ping")
    assert heard.status == 200
    assert isinstance(heard.json["time_of_last_update"], int)
    status: str = heard.json["status"]
    return status


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_ping_says_whether_turns_run(start, accept):
    class Waiting(ScriptedModel):
        def stream(self, request: ModelRequest) -> Any:
            begun.set()
            assert go_on.wait(60)
            yield ModelReply([{"text": "<answer>Done."}])

        def complete(self, request: ModelRequest) -> ModelReply:
            *_, reply = self.stream(request)
            return reply

        async def acomplete(self, request: ModelRequest) -> ModelReply:
            return await Model.acomplete(self, request)  # in a thread

    begun, go_on = Event(), Event()
    server = start(Waiting([], CLAUDE))
    assert ping(server) == "Healthy"
    connection = server.open()
    body = json.dumps({"prompt": "Hi"}).encode()
    connection.request("POST", "/invocations", body, {"Accept": accept})
    assert begun.wait(60)
    assert ping(server) == "HealthyBusy"
    go_on.set()
    assert b"Done." in connection.getresponse().read()
    connection.close()
    assert ping(server) == "Healthy"


def test_a_client_that_goes_stops_the_turn_and_leaves_no_trace_of_it(start):
    class Endless(ScriptedModel):
        def stream(self, request: ModelRequest) -> Any:
            try:
                yield "<answer>"
                while not ended.wait(0.002):  # as fast as a model, not faster
                    yield "and on "
            finally:
                stopped.set()

    stopped, ended = Event(), Event()
    server = start(Endless([], CLAUDE))
    connection = server.open()
    body = json.dumps({"prompt": "Hi"}).encode()
    connection.request("POST", "/invocations", body, {"Accept": "text/event-stream"})
    response = connection.getresponse()
    got = b""
    while b"and on" not in got:  # the model has begun
        got += response.read1()
    response.close()
    connection.close()
    assert stopped.wait(60)
