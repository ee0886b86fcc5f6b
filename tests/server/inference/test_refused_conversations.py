"""Converse refuses the conversations that Bedrock refuses, in its words."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from inference_support import CLAUDE, TOOL, TOOL_USE, served

from orchestrator.testing import ScriptedModel

Blocks = list[dict[str, Any]]
TOOLS = {"toolConfig": {"tools": [TOOL]}}
ALTERNATE = (
    "A conversation must alternate between user and assistant roles. Make sure the conversation "
    "alternates between user and assistant roles and try again."
)
NO_TOOLS = "The toolConfig field must be defined when using toolUse and toolResult content blocks."


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or [{"text": "Hello"}]}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks) or [{"text": "Hi"}]}


def result(id: str = "t-1") -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id, "content": [{"text": "rain"}]}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two of the user": ({"messages": [user(), user()]}, ALTERNATE),
    "two of the assistant": ({"messages": [user(), assistant(), assistant()]}, ALTERNATE),
    "the assistant first": (
        {"messages": [assistant(), user()]},
        "A conversation must start with a user message. Try again with a conversation that starts "
        "with a user message.",
    ),
    "calls without tools": ({"messages": [user(), assistant(TOOL_USE), user(result())]}, NO_TOOLS),
    "a blank text": (
        {"messages": [user(), assistant(), user({"text": "Hello"}, {"text": " \n"})]},
        "The text field in the ContentBlock object at messages.2.content.1 is blank. Add text to "
        "the text field, and try again.",
    ),
    "a result of no call": (
        {"messages": [user(), assistant(), user(result())], **TOOLS},
        "The number of toolResult blocks at messages.2.content exceeds the number of toolUse "
        "blocks of previous turn.",
    ),
    "a result first": (
        {"messages": [user(result())], **TOOLS},
        "The number of toolResult blocks at messages.0.content exceeds the number of toolUse "
        "blocks of previous turn.",
    ),
    "a result of another call": (
        {"messages": [user(), assistant(TOOL_USE), user(result("t-2"))], **TOOLS},
        "Expected toolResult blocks at messages.2.content for the following Ids: t-1",
    ),
    "a call without a result": (
        {"messages": [user(), assistant(TOOL_USE), user()], **TOOLS},
        "Expected toolResult blocks at messages.2.content for the following Ids: t-1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("operation", ["converse", "converse_stream"])
def test_what_bedrock_refuses(name: str, operation: str) -> None:
    params, message = REFUSED[name]
    with served(ScriptedModel([])) as server, pytest.raises(ClientError) as caught:
        getattr(server.client, operation)(modelId=CLAUDE, **params)
    assert caught.value.response["Error"] == {"Code": "ValidationException", "Message": message}


@pytest.mark.parametrize(
    "messages",
    [
        [user(), assistant()],
        [user(), assistant(TOOL_USE), user(result())],
        [user(), assistant({"text": "Let me see."}, TOOL_USE), user({"text": "And?"}, result())],
    ],
)
def test_what_bedrock_answers(messages: list[dict[str, Any]]) -> None:
    with served(ScriptedModel(["It rains."])) as server:
        answer = server.client.converse(modelId=CLAUDE, messages=messages, **TOOLS)
    assert answer["output"]["message"]["content"] == [{"text": "It rains."}]
