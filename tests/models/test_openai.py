"""What OpenAIModel sends to chat completions, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import json

import pytest
from model_requests import TOOLS, ask, assistant, step, user
from model_servers import Answer, json_answer

from orchestrator import Agent
from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.message import Message
from orchestrator.models import ModelReply, OpenAIModel
from orchestrator.models.base import Usage


def completion(message, finish_reason="stop", **members):
    choice = {"index": 0, "message": {"role": "assistant", **message}}
    return {"id": "x", "choices": [{**choice, "finish_reason": finish_reason, **members}]}


OK = completion({"content": "ok"})


def model_at(server, **options):
    return OpenAIModel("small", f"{server.url}/v1", **options)


def sent(serve, request, **options):
    server = serve(json_answer(OK))
    model_at(server, **options).complete(request)
    return server.asked[0].json


def answered(serve, answer, request=None):
    return model_at(serve(json_answer(answer))).complete(request or ask())


def test_a_whole_request_reaches_chat_completions_in_its_terms(serve):
    server = serve(json_answer({**OK, "usage": {"prompt_tokens": 9, "completion_tokens": 2}}))
    inference = {
        "maximumLength": 100,
        "temperature": 0,
        "topP": 1,
        "topK": 250,
        "stopSequences": ["a", "b", "c", "d", "e"],
    }
    request = ask(
        user("Which claims?"),
        *step(1),
        tools=TOOLS,
        inference=inference,
        additional={"seed": 7},
    )

    reply = model_at(server).complete(request)

    assert reply == ModelReply([{"text": "ok"}], "end_turn", Usage(9, 2, calls=1))
    assert server.asked[0].path == "/v1/chat/completions"
    spec = TOOLS[0]["toolSpec"]
    arguments = '{"city":"Rome"}'
    assert server.asked[0].json == {
        "model": "small",
        "temperature": 0,
        "top_p": 1,
        "max_tokens": 100,
        "stop": ["a", "b", "c", "d"],
        "seed": 7,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": spec["name"],
                    "description": spec["description"],
                    "parameters": spec["inputSchema"]["json"],
                },
            }
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Which claims?"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "t1",
                        "type": "function",
                        "function": {"name": spec["name"], "arguments": arguments},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "t1", "content": "3 claims"},
        ],
    }


def test_additional_fields_change_neither_what_is_asked_nor_of_whom(serve):
    hostile = {
        "model": "large",
        "models": ["large"],
        "n": 9,
        "stream": True,
        "stream_options": {},
        "messages": [],
        "tools": [],
        "tool_choice": "none",
        "functions": [],
        "temperature": 2,
        "max_tokens": 10**6,
    }
    inference = {"temperature": 0, "maximumLength": 10}
    asked = [
        sent(serve, ask(user("q"), tools=tools, inference=inference, additional=additional))
        for tools in (TOOLS, ())
        for additional in (hostile, {})
    ]
    assert asked[0] == asked[1] and asked[2] == asked[3]
    assert asked[0]["model"] == "small" and len(asked[0]["tools"]) == len(TOOLS)


def test_several_results_and_a_text_in_one_message_are_as_many_messages(serve):
    first, second = step(1, "one")[1]["content"][0], step(2, "two")[1]["content"][0]
    json_result = {"toolUseId": "t3", "content": [{"json": {"n": 1}}, {"text": "x"}]}
    content = [first, second, {"toolResult": json_result}, {"text": "Go"}, {"text": "on"}]
    body = sent(serve, ask(user("q"), Message("user", content), system=""))
    assert body["messages"][1:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "one"},
        {"role": "tool", "tool_call_id": "t2", "content": "two"},
        {"role": "tool", "tool_call_id": "t3", "content": '{"n":1}\nx'},
        {"role": "user", "content": "Go\n\non"},
    ]


def test_reasoning_is_not_sent_back_and_made_up_calls_are_sendable(serve):
    content = [
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
        {"toolUse": {"toolUseId": "t1", "name": "a b", "input": '{"x": '}},
    ]
    body = sent(serve, ask(user("q"), Message("assistant", content), user("again"), system=""))
    function = {"name": "a_b", "arguments": '{"x": '}
    assert body["messages"][1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "t1", "type": "function", "function": function}],
    }


@pytest.mark.parametrize(
    ("options", "prefill", "roles", "switched"),
    [
        ({}, "Thought:", ["user"], False),
        ({"continues_prefill": True}, "Thought:", ["user", "assistant"], True),
        ({"continues_prefill": True}, " ", ["user"], False),
    ],
)
def test_a_prefill_is_sent_to_servers_that_continue_it(serve, options, prefill, roles, switched):
    body = sent(serve, ask(user("q"), assistant(prefill), system=""), **options)
    assert [message["role"] for message in body["messages"]] == roles
    assert body.get("continue_final_message", False) is switched


def test_the_encoding_of_a_message_is_made_once(serve):
    question = user("q")
    server = serve(json_answer(OK))
    model = model_at(server)
    model.complete(ask(question))
    question["content"] = [{"text": "changed, which no one may do"}]
    model.complete(ask(question))
    assert server.asked[0].body == server.asked[1].body


@pytest.mark.parametrize(
    ("finish_reason", "stop_reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("content_filter", "content_filtered"),
        ("eos", "end_turn"),
        (None, "end_turn"),
    ],
)
def test_each_finish_reason_is_a_stop_reason_of_converse(serve, finish_reason, stop_reason):
    assert answered(serve, completion({"content": "x"}, finish_reason)).stop_reason == stop_reason


def test_the_stop_sequence_that_vllm_names_is_a_stop_sequence(serve):
    answer = completion({"content": "x"}, stop_reason="</answer>")
    assert answered(serve, answer).stop_reason == "stop_sequence"


def test_calls_and_reasoning_come_back_as_converse_blocks(serve):
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"type": "function", "function": {"name": "g", "arguments": {"b": 2}}},
        {"id": "c3", "function": {"name": "h", "arguments": ""}},
    ]
    message = {"content": None, "reasoning_content": "hm", "tool_calls": calls}
    reply = answered(serve, completion(message))
    assert reply.stop_reason == "tool_use"
    assert reply.content == [
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
        {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}},
        {"toolUse": {"toolUseId": "call_1_1", "name": "g", "input": {"b": 2}}},
        {"toolUse": {"toolUseId": "c3", "name": "h", "input": {}}},
    ]


def test_arguments_that_are_no_object_are_kept_as_they_came(serve):
    calls = [{"id": "c1", "function": {"name": "f", "arguments": '{"a": '}}]
    reply = answered(serve, completion({"content": None, "tool_calls": calls}, "tool_calls"))
    assert reply.stop_reason == "malformed_tool_use"
    assert reply.content == [{"toolUse": {"toolUseId": "c1", "name": "f", "input": '{"a": '}}]


def test_cached_tokens_are_counted_apart(serve):
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    assert answered(serve, {**OK, "usage": usage}).usage == Usage(2, 3, 8, calls=1)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"<html>welcome</html>"),
        json_answer([]),
        json_answer({"choices": []}),
        json_answer({"choices": [{"message": {"content": 3}}]}),
        json_answer({"choices": [{"message": {"content": "x", "tool_calls": [3]}}]}),
    ],
)
def test_an_answer_that_is_no_completion_is_a_failure(serve, answer):
    server = serve(answer)
    model = model_at(server)
    message = f"at {server.url}.* answered with something that is no chat completion"
    with pytest.raises(DependencyFailed, match=message):
        model.complete(ask())
    with pytest.raises(DependencyFailed, match=message):
        asyncio.run(model.acomplete(ask()))


def test_an_error_in_an_answer_is_reported(serve):
    with pytest.raises(DependencyFailed, match="out of memory"):
        answered(serve, {"error": {"message": "out of memory"}})


def image(form="png", data=b"\x89PNG"):
    return {"image": {"format": form, "source": {"bytes": data}}}


@pytest.mark.parametrize("form", ["png", "jpeg", "gif", "webp"])
@pytest.mark.parametrize("data", [b"\x89PNG", "iVBORw=="])
def test_images_are_sent_as_data_urls_where_they_stand(serve, form, data):
    content = [{"text": "See:"}, image(form, data), {"text": " "}, {"text": "What is it?"}]
    answer = {"toolUseId": "t1", "content": [{"text": "seen"}], "status": "success"}
    message = Message("user", [{"toolResult": answer}, *content])
    messages = sent(serve, ask(user("Hello"), *step(1)[:1], message))["messages"][-2:]
    url = f"data:image/{form};base64,iVBORw=="
    assert messages[0] == {"role": "tool", "tool_call_id": "t1", "content": "seen"}
    assert messages[1] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "See:"},
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "text", "text": "What is it?"},
        ],
    }


def test_an_agents_image_reaches_the_server(serve):
    server = serve(json_answer(completion({"content": "<answer>A dot.</answer>"})))
    agent = Agent("eyes", "You look at pictures, and say what is there.", model_at(server))
    dot = {"name": "dot.png", "bytes": b"\x89PNG"}
    assert agent.invoke("What is it?", "s-1", files=[dot]).text == "A dot."
    parts = server.asked[0].json["messages"][-1]["content"]
    assert parts[0] == {"type": "text", "text": "What is it?"}
    assert parts[1]["image_url"] == {"url": "data:image/png;base64,iVBORw=="}


@pytest.mark.parametrize(
    ("role", "block", "named"),
    [
        ("user", {"document": {"format": "pdf", "name": "a", "source": {}}}, "'document'"),
        ("assistant", image(), "'image' in a message of role 'assistant'"),
        ("user", image("svg"), "'svg'"),
        ("user", {"image": {"format": "png", "source": {"s3Location": {}}}}, "bytes of png"),
        ("user", {"image": {"format": "png", "source": "x"}}, "bytes of png"),
    ],
)
def test_a_block_that_cannot_be_sent_is_named_before_anything_is_sent(serve, role, block, named):
    server = serve(json_answer(OK))
    with pytest.raises(ValidationError, match=named):
        model_at(server).complete(ask(Message(role, [block]), user("x")))
    assert not server.asked


def test_a_tool_name_that_the_protocol_refuses_is_named(serve):
    tools = ({"toolSpec": {"name": "a::b", "inputSchema": {"json": {}}}},)
    with pytest.raises(ValidationError, match="'a::b'"):
        model_at(serve(json_answer(OK))).complete(ask(tools=tools))


def test_the_model_id_chooses_the_tool_use_dialect_and_can_be_another():
    assert OpenAIModel("llama3.2", "http://127.0.0.1:1/v1").model_id == "openai:llama3.2"
    model = OpenAIModel("c", "http://127.0.0.1:1/v1", model_id="anthropic.claude-3-haiku")
    assert model.model_id == "anthropic.claude-3-haiku"


def test_a_base_url_has_to_be_one():
    with pytest.raises(ValidationError, match="'localhost:11434'"):
        OpenAIModel("m", "localhost:11434")


def test_openais_own_service_bounds_completion_tokens():
    model = OpenAIModel("gpt-5")
    request = ask(inference={"maximumLength": 5})
    body = json.loads(model._body(request, False, frozenset()))
    assert body["max_completion_tokens"] == 5
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ("mine", "theirs", "Bearer mine"),
        (None, "theirs", "Bearer theirs"),
        (None, None, None),
        ("", "theirs", None),
    ],
)
def test_the_key_is_the_given_one_or_the_environments(
    serve, monkeypatch, given, environment, expected
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if environment:
        monkeypatch.setenv("OPENAI_API_KEY", environment)
    server = serve(json_answer(OK))
    model_at(server, api_key=given).complete(ask())
    assert server.asked[0].headers.get("authorization") == expected


def test_the_environments_key_is_not_sent_over_plain_http_to_other_machines(monkeypatch, serve):
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    proxy = serve(json_answer(OK))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.setenv("no_proxy", "")
    OpenAIModel("m", "http://gpu.example/v1").complete(ask())
    OpenAIModel("m", "http://gpu.example/v1", api_key="k").complete(ask())
    assert [it.headers.get("authorization") for it in proxy.asked] == [None, "Bearer k"]


@pytest.mark.parametrize("key", ["two\nlines", "\u2026"])
def test_a_key_that_cannot_be_sent_is_not_repeated(serve, key):
    server = serve(json_answer(OK))
    with pytest.raises(ValidationError, match="cannot be sent") as caught:
        model_at(server, api_key=key).complete(ask())
    assert key not in str(caught.value)
    assert server.asked == []


def test_asynchronous_callers_need_no_thread_and_may_come_from_several_loops(serve):
    server = serve(json_answer(OK))
    model = model_at(server)

    async def several():
        return await asyncio.gather(*(model.acomplete(ask()) for _ in range(40)))

    for _ in range(2):
        assert [reply.text for reply in asyncio.run(several())] == ["ok"] * 40
    assert len({one.peer for one in server.asked}) <= 80


def test_a_role_that_is_none_is_refused(serve):
    with pytest.raises(ValidationError, match="'system'"):
        sent(serve, ask(Message("system", [{"text": "x"}]), user("q")))


def test_a_blank_reply_of_the_model_is_not_sent_back(serve):
    body = sent(serve, ask(user("q"), assistant(" "), user("again"), system=""))
    assert [message["content"] for message in body["messages"]] == ["q", "again"]


def test_a_refusal_and_a_text_in_parts_are_text(serve):
    assert answered(serve, completion({"content": None, "refusal": "I may not."})).text
    parts = [{"type": "text", "text": "Three "}, {"type": "text", "text": "claims."}]
    assert answered(serve, completion({"content": parts})).text == "Three claims."
