"""What BedrockModel sends to Converse, and what it makes of the answer."""

from __future__ import annotations

import json
from itertools import pairwise

import botocore.session
import pytest
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st
from model_requests import CLAUDE, NOVA, TOOLS, ask, assistant, step, user
from model_servers import json_answer

from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.message import Message
from orchestrator.models import BedrockModel
from orchestrator.models._converse import encode_messages
from orchestrator.models.base import Usage

pytestmark = pytest.mark.usefixtures("aws")

REPLY = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Three."}]}},
    "stopReason": "end_turn",
    "usage": {
        "inputTokens": 7,
        "outputTokens": 2,
        "totalTokens": 9,
        "cacheReadInputTokens": 5,
        "cacheWriteInputTokens": 1,
    },
}
STOP_REASONS = [
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "guardrail_intervened",
    "content_filtered",
    "malformed_model_output",
    "malformed_tool_use",
    "model_context_window_exceeded",
]


def sent(serve, request, model_id=CLAUDE):
    server = serve(json_answer(REPLY))
    BedrockModel(model_id, endpoint_url=server.url).complete(request)
    return server.asked[0].json


def test_a_whole_request_reaches_converse_in_its_terms(serve):
    server = serve(json_answer(REPLY))
    inference = {
        "maximumLength": 2048,
        "temperature": 0,
        "topP": 0.5,
        "topK": 250,
        "stopSequences": ["</answer>"],
    }
    request = ask(user("Which claims?"), *step(1), tools=TOOLS, inference=inference)

    reply = BedrockModel(CLAUDE, endpoint_url=server.url).complete(request)

    assert reply.content == [{"text": "Three."}]
    assert reply.stop_reason == "end_turn"
    assert reply.usage == Usage(7, 2, 5, 1, 1)
    (asked,) = server.asked
    assert asked.path == "/model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse"
    assert asked.headers["content-type"] == "application/json"
    assert "/eu-central-1/bedrock/aws4_request" in asked.headers["authorization"]
    assert asked.json == {
        "system": [{"text": "Be brief."}],
        "inferenceConfig": {
            "maxTokens": 2048,
            "temperature": 0,
            "topP": 0.5,
            "stopSequences": ["</answer>"],
        },
        "additionalModelRequestFields": {"top_k": 250},
        "additionalModelResponseFieldPaths": ["/stop_sequence"],
        "toolConfig": {"tools": list(TOOLS)},
        "messages": [dict(message) for message in request.messages],
    }


def test_a_model_answers_faster_when_it_is_asked_to(serve):
    for latency, expected in (("standard", None), ("optimized", {"latency": "optimized"})):
        server = serve(json_answer(REPLY))
        model = BedrockModel(CLAUDE, endpoint_url=server.url, latency=latency)
        model.complete(ask(inference={"temperature": 0}))
        assert server.asked[0].json.get("performanceConfig") == expected
        assert server.asked[0].json["inferenceConfig"] == {"temperature": 0}
    with pytest.raises(ValidationError, match="'fast'; it is 'standard' or 'optimized'"):
        BedrockModel(CLAUDE, latency="fast")


def test_what_is_sent_is_valid_for_botocores_own_model_of_converse(serve):
    request = ask(
        user("Which claims?", ""), *step(1, ""), tools=TOOLS, inference={"maximumLength": 9}
    )
    body = sent(serve, request)

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    shape = service.operation_model("Converse").input_shape
    report = ParamValidator().validate({"modelId": CLAUDE, **body}, shape)
    assert not report.has_errors(), report.generate_report()


@pytest.mark.parametrize("reason", STOP_REASONS)
def test_every_stop_reason_passes_through(serve, reason):
    server = serve(json_answer({**REPLY, "stopReason": reason}))
    reply = BedrockModel(CLAUDE, endpoint_url=server.url).complete(ask())
    assert reply.stop_reason == reason


def test_tool_calls_and_reasoning_come_back_as_blocks_that_can_be_sent_again(serve):
    content = [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "c2VjcmV0"}},
        {"toolUse": {"toolUseId": "t1", "name": "GET__claims__list", "input": {"city": "Rome"}}},
    ]
    answer = {**REPLY, "output": {"message": {"role": "assistant", "content": content}}}
    server = serve(json_answer(answer), json_answer(REPLY))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)

    reply = model.complete(ask())
    json.dumps(reply.content)  # a journal can hold it
    model.complete(ask(user("q"), Message("assistant", reply.content), user("go on")))

    assert reply.content == content
    assert server.asked[1].json["messages"][1]["content"] == content


def test_blank_texts_are_left_out_and_neighbours_of_one_role_become_one(serve):
    body = sent(serve, ask(user("", "a", " \n"), assistant(" "), user("b"), system=" "))
    assert "system" not in body
    assert body["messages"] == [{"role": "user", "content": [{"text": "a"}, {"text": "b"}]}]


def test_a_tool_result_without_text_says_so(serve):
    body = sent(serve, ask(user("q"), *step(1, " ")))
    (block,) = body["messages"][2]["content"]
    assert block["toolResult"]["content"] == [{"text": "(empty result)"}]


def test_what_a_model_made_up_does_not_wedge_the_conversation(serve):
    call = {"toolUseId": "t1", "name": "get claims!" + "x" * 80, "input": '{"city": '}
    body = sent(serve, ask(user("q"), Message("assistant", [{"toolUse": call}]), user("again")))
    (block,) = body["messages"][1]["content"]
    assert block["toolUse"]["name"] == "get_claims_" + "x" * 53
    assert block["toolUse"]["input"] == {"malformed": '{"city": '}


def test_a_prefill_keeps_its_role_and_loses_its_trailing_space(serve):
    body = sent(serve, ask(user("q"), assistant("Thought: <thinking>\n")))
    assert body["messages"][-1] == {
        "role": "assistant",
        "content": [{"text": "Thought: <thinking>"}],
    }


def test_a_blank_prefill_is_none(serve):
    assert [m["role"] for m in sent(serve, ask(user("q"), assistant(" ")))["messages"]] == ["user"]


@pytest.mark.parametrize(
    ("model_id", "inference", "additional", "expected"),
    [
        (CLAUDE, {"temperature": 0, "topP": 1}, {}, ({"temperature": 0}, None)),
        (CLAUDE, {"topP": 1}, {}, ({"topP": 1}, None)),
        (CLAUDE, {"topK": 5}, {"top_k": 9}, (None, {"top_k": 9})),
        (NOVA, {"temperature": 1, "topP": 1}, {}, ({"temperature": 1, "topP": 1}, None)),
        (NOVA, {"topK": 1}, {}, (None, {"inferenceConfig": {"topK": 1}})),
        ("meta.llama3-1-8b-instruct-v1:0", {"topK": 9, "maximumLength": 0}, {}, (None, None)),
        (
            CLAUDE,
            {"temperature": 0, "topP": 1, "topK": 250, "maximumLength": 9, "stopSequences": []},
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
            ({"maxTokens": 9}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ),
    ],
)
def test_inference_parameters_go_where_the_family_wants_them(
    serve, model_id, inference, additional, expected
):
    body = sent(serve, ask(inference=inference, additional=additional), model_id)
    assert (body.get("inferenceConfig"), body.get("additionalModelRequestFields")) == expected


def test_the_encoding_of_a_message_is_made_once(serve):
    question = user("q")
    server = serve(json_answer(REPLY))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)
    model.complete(ask(question))
    question["content"] = [{"text": "changed, which no one may do"}]
    model.complete(ask(question))
    assert server.asked[0].body == server.asked[1].body


def test_half_a_surrogate_pair_does_not_break_the_request(serve):
    assert sent(serve, ask(user("a\ud800b")))["messages"][0]["content"] == [{"text": "a?b"}]


def test_a_tool_name_that_converse_refuses_is_named_before_anything_is_sent(serve):
    server = serve(json_answer(REPLY))
    tools = ({"toolSpec": {"name": "GET::claims::/list", "inputSchema": {"json": {}}}},)
    with pytest.raises(ValidationError, match="'GET::claims::/list'"):
        BedrockModel(CLAUDE, endpoint_url=server.url).complete(ask(tools=tools))
    assert not server.asked


def test_there_has_to_be_something_to_ask(serve):
    with pytest.raises(ValidationError, match="at least one message"):
        BedrockModel(CLAUDE, endpoint_url=serve(json_answer(REPLY)).url).complete(ask(user(" ")))


@pytest.mark.parametrize("body", [{}, {"output": {}}, {"output": None}, {"output": {"message": 3}}])
def test_an_answer_without_a_message_is_a_failure(serve, body):
    server = serve(json_answer(body))
    with pytest.raises(DependencyFailed, match=CLAUDE.replace(".", r"\.")):
        BedrockModel(CLAUDE, endpoint_url=server.url).complete(ask())


def test_an_answer_that_is_not_json_is_a_failure(serve):
    server = serve(json_answer("not an object"))
    with pytest.raises(DependencyFailed):
        BedrockModel(CLAUDE, endpoint_url=server.url).complete(ask())


roles = st.sampled_from(["user", "assistant"])
texts = st.lists(st.text(max_size=20), max_size=3)


@given(st.lists(st.tuples(roles, texts), max_size=8))
def test_any_conversation_is_valid_json_with_alternating_roles_and_no_blank_text(conversation):
    messages = [Message(role, [{"text": t} for t in said]) for role, said in conversation]
    kept = [text for _, said in conversation for text in said if text.strip()]
    if not kept:
        with pytest.raises(ValidationError):
            encode_messages(messages)
        return
    encoded = json.loads(encode_messages(messages))
    assert all(a["role"] != b["role"] for a, b in pairwise(encoded))
    said = [block["text"] for message in encoded for block in message["content"]]
    assert said[:-1] == kept[:-1]
    assert said[-1] in (kept[-1], kept[-1].rstrip())


def test_plain_dicts_are_messages_too_and_bytes_are_base64(serve):
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    body = sent(serve, ask({"role": "user", "content": [{"text": "See:"}, image]}))
    assert body["messages"][0]["content"][1]["image"]["source"] == {"bytes": "iVBORw=="}


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("system", [{"text": "x"}]), ValidationError),
        (Message("user", [{"image": {"source": object()}}]), TypeError),
    ],
)
def test_what_is_no_message_is_refused_before_anything_is_sent(serve, message, error):
    server = serve(json_answer(REPLY))
    with pytest.raises(error, match=r"'system'|object"):
        BedrockModel(CLAUDE, endpoint_url=server.url).complete(ask(message, user("q")))
    assert not server.asked
