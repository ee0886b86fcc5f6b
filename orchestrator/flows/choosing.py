"""Holding a model to a choice: by a tool that it must call, where it can be made to.

An embedded model is held to it by a grammar (`CallFormat.choices`). Any other is only told, and
what it replies is checked by the script that asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.message import Block, Message

__all__ = ["CHOOSE", "chosen", "forces", "tool_of"]

CHOOSE = "choose"
"""The tool whose input is the choice."""

_CHOICE = "choice"
# (Bedrock: SpecificToolChoice is for Anthropic's Claude 3 and later, and Amazon Nova.)
_FORCED = re.compile(r"anthropic\.claude-(?!v\d|instant)|amazon\.nova-|^openai:(?:gpt-|o\d)")


def forces(model_id: str, messages: Sequence[Message]) -> bool:
    """Whether a model can be made to call one tool, in this conversation.

    A model that is to go on with its own words cannot: it is in the middle of a text.
    """
    return messages[-1]["role"] == "user" and _FORCED.search(model_id) is not None


def tool_of(choices: Sequence[str]) -> dict[str, Any]:
    """The tool that takes one of the choices."""
    one = {"type": "string", "enum": list(dict.fromkeys(choices))}
    schema = {"type": "object", "properties": {_CHOICE: one}, "required": [_CHOICE]}
    description = "Takes your choice."
    return {
        "toolSpec": {"name": CHOOSE, "description": description, "inputSchema": {"json": schema}}
    }


def chosen(content: Sequence[Block]) -> list[Block]:
    """A reply with the choice as its text, when it calls the tool; else as it is."""
    for block in content:
        use: Mapping[str, Any] = block.get("toolUse", {})
        if use.get("name") == CHOOSE and isinstance(use["input"].get(_CHOICE), str):
            return [{"text": use["input"][_CHOICE]}]
    return list(content)
