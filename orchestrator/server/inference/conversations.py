"""What Converse refuses of a conversation, whichever model would answer it.

Code that passes here would otherwise fail on Bedrock. The messages are Bedrock's own words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.errors import ValidationError

_START = (
    "A conversation must start with a user message. Try again with a conversation that starts "
    "with a user message."
)
_ALTERNATE = (
    "A conversation must alternate between user and assistant roles. Make sure the conversation "
    "alternates between user and assistant roles and try again."
)
_NO_TOOLS = "The toolConfig field must be defined when using toolUse and toolResult content blocks."

Content = Mapping[str, Any]


def check_conversation(params: Mapping[str, Any]) -> None:
    """Checks the messages of Converse's parameters.

    Raises:
        ValidationError: Bedrock would refuse them.
    """
    messages: Sequence[Mapping[str, Any]] = params.get("messages") or ()
    if messages and messages[0]["role"] == "assistant":
        raise ValidationError(_START)
    has_tools = bool((params.get("toolConfig") or {}).get("tools"))
    called: Sequence[str] = ()
    for index, message in enumerate(messages):
        if index and message["role"] == messages[index - 1]["role"]:
            raise ValidationError(_ALTERNATE)
        content = message["content"]
        _check_texts(content, index)
        if not has_tools and any("toolUse" in it or "toolResult" in it for it in content):
            raise ValidationError(_NO_TOOLS)
        if message["role"] == "user":
            _check_results(list(_find_ids(content, "toolResult")), called, index)
        called = list(_find_ids(content, "toolUse"))


def _check_texts(content: Sequence[Content], index: int) -> None:
    for place, block in enumerate(content):
        if "text" in block and not str(block["text"]).strip():
            raise ValidationError(
                f"The text field in the ContentBlock object at messages.{index}.content.{place} is "
                "blank. Add text to the text field, and try again."
            )


def _check_results(results: Sequence[str], called: Sequence[str], index: int) -> None:
    if len(results) > len(called):
        raise ValidationError(
            f"The number of toolResult blocks at messages.{index}.content exceeds the number of "
            "toolUse blocks of previous turn."
        )
    if missing := [id for id in called if id not in results]:
        raise ValidationError(
            f"Expected toolResult blocks at messages.{index}.content for the following Ids: "
            f"{', '.join(missing)}"
        )


def _find_ids(content: Sequence[Content], kind: str) -> Iterator[str]:
    return (str(block[kind]["toolUseId"]) for block in content if kind in block)
