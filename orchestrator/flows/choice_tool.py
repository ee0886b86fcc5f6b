"""Holding a model to a choice: by a tool that it must call, where it can be made to.

An embedded model is held to it by a grammar (`CallFormat.choices`). Any other is only told, and
what it replies is checked by the script that asked. Only an embedded model takes a bias of tokens:
hosted ones take none (Bedrock), or only token numbers of a vocabulary that is not here (OpenAI).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.message import Block, Message

CHOOSE = "choose"
"""The tool whose input is the choice."""

_CHOICE = "choice"
# (Bedrock: SpecificToolChoice is for Anthropic's Claude 3 and later, and Amazon Nova.)
_FORCED = re.compile(r"anthropic\.claude-(?!v\d|instant)|amazon\.nova-|^openai:(?:gpt-|o\d)")


def can_force_tool(model_id: str, messages: Sequence[Message]) -> bool:
    """Whether a model can be made to call one tool, in this conversation.

    A model that is to go on with its own words cannot: it is in the middle of a text.
    """
    return messages[-1]["role"] == "user" and _FORCED.search(model_id) is not None


def can_bias(model_id: str) -> bool:
    """Whether a model takes a bias of tokens."""
    return model_id.startswith("local:")


def build_bias_fields(bias: Sequence[tuple[str, float | None]]) -> dict[str, Any]:
    """The additional model request fields of a bias (llama.cpp: `logit_bias`, by texts).

    Each text is biased as a word of its own, too: with a space before it, it is other tokens.
    """
    if not bias:
        return {}
    biases = {
        form: False if value is None else value
        for text, value in bias
        for form in (text, f" {text.lstrip()}")
    }
    return {"logit_bias": [[text, value] for text, value in biases.items()]}


def build_choice_tool(choices: Sequence[str], picks: tuple[int, int] = (1, 1)) -> dict[str, Any]:
    """The tool that takes one of the choices, or a list of several."""
    one: dict[str, Any] = {"type": "string", "enum": list(dict.fromkeys(choices))}
    fewest, most = picks
    if most > 1:
        one = {"type": "array", "items": one, "minItems": fewest, "maxItems": most}
    schema = {"type": "object", "properties": {_CHOICE: one}, "required": [_CHOICE]}
    description = "Takes your choice."
    return {
        "toolSpec": {"name": CHOOSE, "description": description, "inputSchema": {"json": schema}}
    }


def extract_choice(content: Sequence[Block], separator: str = ",") -> list[Block]:
    """A reply with the choice as its text, when it calls the tool; else as it is."""
    for block in content:
        use: Mapping[str, Any] = block.get("toolUse", {})
        if use.get("name") != CHOOSE:
            continue
        choice = use["input"].get(_CHOICE)
        if isinstance(choice, str):
            return [{"text": choice}]
        if isinstance(choice, list) and all(isinstance(one, str) for one in choice):
            return [{"text": separator.join(choice)}]
    return list(content)
