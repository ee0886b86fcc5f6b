"""Prompts of Prompt nodes: their variables filled, as a request to a model.

A variable is `{{name}}` (AWS: "Prompt management"). Values fill texts in one pass and are never
read again: what a value holds changes neither the messages nor the other variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.message import Message, to_json
from orchestrator.models import Model, ModelRequest
from orchestrator.models.base import map_inference
from orchestrator.prompts import dialect_for, load_dialect

_VARIABLE = re.compile(r"\{\{\s*([0-9A-Za-z_-]{1,100})\s*\}\}")
# What a request that no stage of an agent makes says in a stage's place.
_STAGE = "CONVERSE"

Data = Mapping[str, Any]


def build_prompt_request(variant: Data, values: Data, model: Model) -> ModelRequest:
    """The request of a prompt.

    Args:
        variant: The members of Bedrock's `PromptFlowNodeInlineConfiguration`.
        values: Values of its variables; those that are no texts are filled in as JSON.
        model: Who is asked.

    Raises:
        ValidationError: A variable has no value, or the prompt has no message, or tools.
    """
    filler = _Filler(values)
    template = variant["templateConfiguration"]
    chat = template.get("chat")
    if chat is None:
        messages = [Message("user", [{"text": filler.fill(template["text"]["text"])}])]
    else:
        messages = list(_read_messages(chat, filler))
    config = (variant.get("inferenceConfiguration") or {}).get("text") or {}
    return ModelRequest(
        _STAGE,
        "\n\n".join(_read_system(chat or {}, filler)),
        messages,
        inference=map_inference(config),
        additional=dict(variant.get("additionalModelRequestFields") or {}),
        raw_text=load_dialect(dialect_for(model.model_id)).protocol == "text",
    )


class _Filler:
    def __init__(self, values: Data) -> None:
        self._values = {
            name: value if isinstance(value, str) else to_json(value)
            for name, value in values.items()
        }

    def fill(self, text: str) -> str:
        return _VARIABLE.sub(self._find, text)

    def _find(self, variable: re.Match[str]) -> str:
        name = variable[1]
        if name not in self._values:
            there = ", ".join(sorted(self._values)) or "none"
            raise ValidationError(
                f"the prompt has a variable {name!r}, and the node no input of that name; its "
                f"inputs: {there}"
            )
        return self._values[name]


def _read_messages(chat: Data, filler: _Filler) -> Iterator[Message]:
    if chat.get("toolConfiguration"):
        raise ValidationError("the prompt has tools, whose calls a Prompt node cannot carry out")
    if not chat["messages"]:
        raise ValidationError("the prompt has no messages")
    for message in chat["messages"]:
        texts = [it["text"] for it in message["content"] if "text" in it]
        yield Message(message["role"], [{"text": filler.fill(text)} for text in texts])


def _read_system(chat: Data, filler: _Filler) -> Iterator[str]:
    for block in chat.get("system") or ():
        if "text" in block:
            yield filler.fill(block["text"])
