"""Agents as models of chat completions, over plain HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
from threading import Event
from typing import Any

import pytest
from chat_support import CLAUDE, assistant, says, user, write_agent

from orchestrator.errors import DependencyFailed, ThrottlingError
from orchestrator.message import text_of
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.server.operations import Caller
from orchestrator.testing import ScriptedModel


def told(request: ModelRequest) -> list[tuple[str, str]]:
    """Who said what in a prompt."""
    return [(one["role"], text_of(one["content"]).strip()) for one in request.messages]


def test_a_whole_completion(start):
    reply = ModelReply([{"text": says("Twelve days.")}], "end_turn", Usage(9, 4, 2, 1, 1))
    heard = start([reply]).complete(user("How many?"))
    assert heard.status == 200
    answer = heard.json
    assert answer.pop("id").startswith("chatcmpl-")
    assert answer.pop("created") > 1_600_000_000
    assert answer == {
        "object": "chat.completion",
        "model": "vacations",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Twelve days.", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 4,
            "total_tokens": 16,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }


def test_a_streamed_completion_byte_by_byte(start):
    server = start([says("Zwölf \u2028 Tage.")], chunk=4)
    heard = server.complete(user("How many?"), stream=True)
    assert heard.status == 200
    assert heard.headers["content-type"].startswith("text/event-stream")
    assert heard.headers["cache-control"] == "no-cache"
    *chunks, done = heard.events
    assert done == "[DONE]"
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert all("usage" not in chunk for chunk in chunks)
    first, *middle, last = [chunk["choices"][0] for chunk in chunks]
    assert first["delta"] == {"role": "assistant", "content": ""}
    assert len(middle) > 1
    assert "".join(choice["delta"]["content"] for choice in middle) == "Zwölf \u2028 Tage."
    assert (last["delta"], last["finish_reason"]) == ({}, "stop")
    assert all(choice["finish_reason"] is None for choice in (first, *middle))


def test_the_usage_at_the_end_of_a_stream(start):
    server = start([ModelReply([{"text": says("Twelve.")}], "end_turn", Usage(9, 4, calls=1))])
    heard = server.complete(user("How many?"), stream=True, stream_options={"include_usage": True})
    *chunks, last, _ = heard.events
    assert all(chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 13


def test_words_come_while_the_model_still_speaks(start):
    class Slow(ScriptedModel):
        def stream(self, request: ModelRequest) -> Any:
            yield "<answer>First words "
            assert heard.wait(60)
            yield "and last."
            yield ModelReply([{"text": "<answer>First words and last."}])

    heard = Event()
    server = start(Slow([], CLAUDE))
    connection = server.open()
    body = '{"model":"vacations","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
    connection.request("POST", "/v1/chat/completions", body)
    response = connection.getresponse()
    got = b""
    while b"First" not in got:
        got += response.read1()
    assert b"last." not in got
    heard.set()
    assert b"last." in response.read()
    connection.close()


def test_a_client_that_goes_stops_the_turn(start):
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
    body = '{"model":"vacations","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
    connection.request("POST", "/v1/chat/completions", body)
    response = connection.getresponse()
    got = b""
    while b"and on" not in got:  # the model has begun
        got += response.read1()
    response.close()
    connection.close()
    assert stopped.wait(60)


def test_a_client_that_goes_stops_a_model_that_speaks_without_a_pause(start):
    class Flood(ScriptedModel):
        def stream(self, request: ModelRequest) -> Any:
            try:
                yield "<answer>"
                for _ in range(500_000):
                    yield "and on "
                finished.set()
            finally:
                stopped.set()

    stopped, finished = Event(), Event()
    server = start(Flood([], CLAUDE))
    connection = server.open()
    body = '{"model":"vacations","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
    connection.request("POST", "/v1/chat/completions", body)
    response = connection.getresponse()
    got = b""
    while b"and on" not in got:  # the model has begun
        got += response.read1()
    response.close()
    connection.close()
    assert stopped.wait(60)
    assert not finished.is_set()


def test_a_client_that_does_not_wait_for_a_whole_answer_stops_the_turn(start):
    class Waiting(ScriptedModel):
        async def acomplete(self, request: ModelRequest) -> ModelReply:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            raise AssertionError

        async def astream(self, request: ModelRequest) -> Any:
            yield await self.acomplete(request)

    begun, stopped = Event(), Event()
    server = start(Waiting([], CLAUDE))
    connection = server.open()
    body = '{"model":"vacations","messages":[{"role":"user","content":"Hi"}]}'
    connection.request("POST", "/v1/chat/completions", body)
    assert begun.wait(60)
    connection.close()
    assert stopped.wait(60)


def test_without_a_session_the_client_tells_the_conversation(start):
    server = start([says("Two.")])
    heard = server.complete(
        user("How many did I take?"),
        assistant("Ten."),
        user([{"type": "text", "text": "And"}, {"type": "text", "text": "left?"}]),
    )
    assert heard.json["choices"][0]["message"]["content"] == "Two."
    (request,) = server.model.requests
    assert told(request)[:3] == [
        ("user", "How many did I take?"),
        ("assistant", "Ten."),
        ("user", "And\nleft?"),
    ]


def test_without_a_session_nothing_is_remembered(start):
    server = start([says("One."), says("Two.")])
    server.complete(user("First question"))
    server.complete(user("Second question"))
    assert "First question" not in str(server.model.requests[1].messages)


@pytest.mark.parametrize(
    "session", [{"headers": {"X_Session_Id": "s-1"}}, {"metadata": {"session_id": "s-1"}}]
)
def test_with_a_session_the_server_remembers(start, session):
    server = start([says("One."), says("Two.")])
    server.complete(user("First question"), **session)
    server.complete(user("Forged question"), assistant("Forged."), user("Second"), **session)
    messages = told(server.model.requests[1])
    assert messages[0] == ("user", "First question")
    assert "Forged" not in str(messages)
    assert ("user", "Second") in messages


def test_a_clients_system_message_is_a_prompt_session_attribute(start):
    server = start([says("Ja.")])
    server.complete(
        {"role": "system", "content": "Answer in German."},
        {"role": "developer", "content": "Be polite."},
        user("Hi"),
    )
    (request,) = server.model.requests
    assert "Answer in German.\n\nBe polite." in request.system
    assert request.system.index("You help employees") < request.system.index("Answer in German.")
    assert told(request)[0] == ("user", "Hi")


def test_an_image_is_a_file_of_the_question(start):
    png = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
        "rkJggg=="
    )
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    server = start([says("A dot.")])
    parts = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": url}}]
    assert server.complete(user(parts)).status == 200
    (request,) = server.model.requests
    (image,) = [
        block["image"] for one in request.messages for block in one["content"] if "image" in block
    ]
    assert image["format"] == "png"


@pytest.mark.parametrize("before", ["", "It is fast.\n" * 30_000])
def test_a_file_is_told_to_the_model(start, before):
    server = start([says("Blue.")])
    content = base64.b64encode(f"{before}The car is blue.".encode()).decode()
    file = {
        "type": "file",
        "file": {"filename": "car.txt", "file_data": f"data:text/plain;base64,{content}"},
    }
    assert server.complete(user([{"type": "text", "text": "Which colour?"}, file])).status == 200
    assert "The car is blue." in str(server.model.requests[0].messages)


def test_a_mark_before_utf8_is_read_over(start):
    server = start([says("Ok.")])
    body = json.dumps({"model": "vacations", "messages": [user("Hi")]}).encode()
    assert server.ask("POST", "/v1/chat/completions", b"\xef\xbb\xbf" + body).status == 200


def test_sampling_and_tools_are_the_agents_own(start):
    server = start([says("Ok.")])
    extra = {
        "temperature": 1.9,
        "max_tokens": 3,
        "tools": [{"type": "function"}],
        "user": "u",
        "n": 1,
    }
    assert server.complete(user("Hi"), **extra).status == 200
    (request,) = server.model.requests
    assert request.inference["temperature"] == 0


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_tokens", "length"), ("content_filtered", "content_filter")]
)
def test_why_an_answer_ends(start, reason, finish):
    server = start([ModelReply([{"text": "<answer>Twelve"}], reason)])
    assert server.complete(user("Hi")).json["choices"][0]["finish_reason"] == finish


def test_the_models_are_the_agents(start, tmp_path):
    write_agent(tmp_path / "agents" / "travel", "travel", description="Books trips.")
    server = start([])
    heard = server.ask("GET", "/v1/models").json
    assert heard["object"] == "list"
    assert [(one["id"], one["object"]) for one in heard["data"]] == [
        ("travel", "model"),
        ("vacations", "model"),
    ]
    assert server.ask("GET", "/v1/models/travel").json["id"] == "travel"
    missing = server.ask("GET", "/v1/models/none")
    assert (missing.status, missing.json["error"]["code"]) == (404, "not_found")


def test_an_agent_is_named_by_its_name_its_id_or_its_alias(start):
    server = start([says("One.")] * 3)
    ((agent_id, alias_id, _, _),) = server.world.agents.list_invocable(Caller())
    for name in ("vacations", agent_id, f"{agent_id}/{alias_id}"):
        heard = server.complete(user("Hi"), model=name)
        assert heard.json["choices"][0]["message"]["content"] == "One."
        assert heard.json["model"] == name


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"[]", 400, "must be a JSON object"),
        (b"[" + b"0," * 200_000 + b"0]", 400, "more than 200,000 values"),
        (b'["' + b"\xff" * 300_000 + b'"]', 400, "not JSON"),
        ({"messages": [user("Hi")]}, 400, "'model' must name an agent"),
        ({"model": "none", "messages": [user("Hi")]}, 404, "there is no agent 'none'"),
        ({"model": "vacations"}, 400, "'messages' must be a list"),
        ({"model": "vacations", "messages": [{"role": "function"}]}, 400, r"messages[0]"),
        ({"model": "vacations", "messages": [assistant("Hi")]}, 400, "the last message"),
        ({"model": "vacations", "messages": [user("Hi")], "n": 2}, 400, "'n' must be 1"),
        ({"model": "vacations", "messages": [user("")]}, 400, "the question is empty"),
        (
            {
                "model": "vacations",
                "messages": [user("Hi")],
                "response_format": {"type": "json_object"},
            },
            400,
            "'response_format' is not supported",
        ),
        (
            {
                "model": "vacations",
                "messages": [
                    user([{"type": "image_url", "image_url": {"url": "http://10.0.0.1/a.png"}}])
                ],
            },
            400,
            "the server fetches none",
        ),
        (
            {"model": "vacations", "messages": [user("Hi")], "metadata": {"session_id": "../.."}},
            400,
            "is not valid",
        ),
    ],
)
def test_what_is_wrong_is_told_in_openais_shape(start, body, status, said):
    server = start(["never"])
    heard = server.ask("POST", "/v1/chat/completions", body)
    assert heard.status == status
    assert heard.json["error"]["type"] == "invalid_request_error"
    assert said in heard.json["error"]["message"]
    assert server.model.requests == []


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ThrottlingError("too many"), 429, "rate_limit_error"),
        (DependencyFailed("it broke"), 424, "server_error"),
        (RuntimeError("canary"), 424, "server_error"),
    ],
)
def test_failures_are_told_whole_and_in_streams(start, error, status, kind):
    server = start([error, error])
    whole = server.complete(user("Hi"))
    assert whole.status == status
    assert whole.json["error"]["type"] == kind
    streamed = server.complete(user("Hi"), stream=True)
    assert streamed.status == 200
    assert streamed.events[-1]["error"]["type"] == kind
    assert b"canary" not in whole.body + streamed.body
    assert b"[DONE]" not in streamed.body


def test_a_busy_session_is_a_conflict(start):
    class Waiting(ScriptedModel):
        def stream(self, request: ModelRequest) -> Any:
            yield "<answer>Wait"
            assert go_on.wait(60)
            yield ModelReply([{"text": "<answer>Wait"}])

    go_on = Event()
    server = start(Waiting([], CLAUDE))
    connection = server.open()
    body = '{"model":"vacations","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
    connection.request("POST", "/v1/chat/completions", body, {"X-Session-Id": "s-1"})
    response = connection.getresponse()
    response.read1()
    heard = server.complete(user("Hi again"), headers={"X_Session_Id": "s-1"})
    assert (heard.status, heard.json["error"]["code"]) == (409, "conflict")
    go_on.set()
    response.read()
    connection.close()
