"""Bedrock's prompt cache: points where a model takes them, and what they saved."""

from __future__ import annotations

import asyncio

import pytest
from model_requests import CLAUDE, TOOLS, ask, assistant, step, user
from model_servers import aws_error, aws_stream, event, json_answer

from orchestrator.errors import ValidationError
from orchestrator.models import BedrockModel
from orchestrator.models.base import Usage

pytestmark = pytest.mark.usefixtures("aws")

SONNET = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "amazon.nova-lite-v1:0"
OPAQUE = "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/a1b2c3"
POINT = {"cachePoint": {"type": "default"}}
COUNTS = {
    "inputTokens": 3,
    "outputTokens": 2,
    "totalTokens": 105,
    "cacheReadInputTokens": 90,
    "cacheWriteInputTokens": 10,
}
WHOLE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
    "stopReason": "end_turn",
    "usage": COUNTS,
}


def body_sent(serve, model_id, *messages, **options):
    server = serve(json_answer(WHOLE))
    model = BedrockModel(model_id, endpoint_url=server.url, **options)
    model.complete(ask(*messages, tools=TOOLS))
    return server.asked[0].json


@pytest.mark.parametrize(
    "model_id",
    [
        SONNET,
        "anthropic.claude-3-7-sonnet-20250219-v1:0",
        "anthropic.claude-3-5-haiku-20241022-v1:0",
        "global.anthropic.claude-opus-4-1-20250805-v1:0",
    ],
)
def test_claude_keeps_tools_system_and_conversation(serve, model_id):
    body = body_sent(serve, model_id, user("Hello"), *step(1), prompt_cache=True)
    assert body["toolConfig"]["tools"] == [*TOOLS, POINT]
    assert body["system"] == [{"text": "Be brief."}, POINT]
    assert [POINT in message["content"] for message in body["messages"]] == [False, False, True]
    assert body["messages"][-1]["content"][-1] == POINT


@pytest.mark.parametrize("model_id", [NOVA, OPAQUE])
def test_others_take_no_point_after_tools(serve, model_id):
    body = body_sent(serve, model_id, user("Hello"), prompt_cache=True)
    assert body["toolConfig"]["tools"] == [*TOOLS]
    assert body["system"][-1] == body["messages"][-1]["content"][-1] == POINT


@pytest.mark.parametrize(("model_id", "wanted"), [(CLAUDE, True), (SONNET, False)])
def test_a_model_that_takes_none_gets_none_nor_one_that_is_not_to(serve, model_id, wanted):
    body = body_sent(serve, model_id, user("Hello"), prompt_cache=wanted)
    assert "cachePoint" not in str(body)


def test_the_point_stands_before_a_prefill_and_the_choice_of_tools_after_it(serve):
    server = serve(json_answer(WHOLE))
    model = BedrockModel(SONNET, endpoint_url=server.url, prompt_cache=True)
    choice = {"any": {}}
    model.complete(ask(user("Hello"), assistant("<thinking>"), tools=TOOLS, tool_choice=choice))
    body = server.asked[0].json
    assert [message["content"][-1] for message in body["messages"]] == [
        POINT,
        {"text": "<thinking>"},
    ]
    assert body["toolConfig"] == {"tools": [*TOOLS, POINT], "toolChoice": choice}


def test_what_was_read_and_written_is_in_the_usage(serve):
    metadata = event("metadata", {"usage": COUNTS})
    events = aws_stream(event("messageStop", {"stopReason": "end_turn"}), metadata)
    server = serve(json_answer(WHOLE), json_answer(WHOLE), events)
    model = BedrockModel(SONNET, endpoint_url=server.url, prompt_cache=True)
    expected = Usage(3, 2, 90, 10, 1)
    assert model.complete(ask()).usage == expected
    assert asyncio.run(model.acomplete(ask())).usage == expected
    assert list(model.stream(ask()))[-1].usage == expected


def test_a_profile_that_refuses_points_is_asked_without_them_from_then_on(serve):
    text = "You invoked an unsupported model or your request did not allow prompt caching."
    server = serve(aws_error("AccessDeniedException", text, 403), json_answer(WHOLE))
    model = BedrockModel(OPAQUE, endpoint_url=server.url, prompt_cache=True)
    for _ in range(2):
        assert model.complete(ask()).text == "ok"
    assert ["cachePoint" in str(asked.json) for asked in server.asked] == [True, False, False]


def test_a_refusal_of_points_that_were_not_sent_is_an_error(serve):
    server = serve(aws_error("ValidationException", "no prompt caching here"))
    with pytest.raises(ValidationError, match="prompt caching"):
        BedrockModel(SONNET, endpoint_url=server.url).complete(ask())
    assert len(server.asked) == 1
