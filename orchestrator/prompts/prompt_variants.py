"""A prompt's variant and the values of its variables, as the parameters of Converse.

A variant has the members of `PromptVariant`; a prompt that a flow's node holds itself (Bedrock:
`PromptFlowNodeInlinePromptConfiguration`) has the same ones without a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchestrator.errors import ValidationError

Data = Mapping[str, Any]

# Bedrock: PromptInputVariableName, between double braces. Nothing is repeated within a repetition
# here, unlike in the model's pattern.
_VARIABLE = re.compile(r"\{\{\s*([0-9a-zA-Z](?:[_-]?[0-9a-zA-Z])*[_-]?)\s*\}\}")


def find_variables(variant: Data) -> set[str]:
    """The variables that a variant's texts have, whether they are declared or not."""
    return {name for text in _find_texts(variant) for name in _VARIABLE.findall(text)}


def _find_texts(variant: Data) -> Iterator[str]:
    configuration = variant["templateConfiguration"]
    if "text" in configuration:
        yield configuration["text"]["text"]
        return
    chat = configuration["chat"]
    blocks = [*chat.get("system", ())]
    for message in chat["messages"]:
        blocks += message["content"]
    yield from (block["text"] for block in blocks if "text" in block)


def render_variant(variant: Data, values: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of Converse that a variant stands for: `messages`, and those that it sets.

    Every `{{variable}}` of its texts becomes its value, which is not read for variables again.
    Values that no variable asks for have no effect.

    Args:
        variant: A variant of a prompt.
        values: The texts of its variables, by their names.

    Raises:
        ValidationError: A variable has no value.
    """
    missing = sorted(find_variables(variant) - values.keys())
    if missing:
        raise ValidationError(
            f"the prompt has variables without a value: {', '.join(map(repr, missing))}; give "
            "each one (Converse: in promptVariables)"
        )

    def fill(text: str) -> str:
        return _VARIABLE.sub(lambda found: values[found[1]], text)

    configuration = variant["templateConfiguration"]
    if "text" in configuration:
        params = _render_text(configuration["text"], fill)
    else:
        params = _render_chat(configuration["chat"], fill)
    inference = (variant.get("inferenceConfiguration") or {}).get("text")
    if inference:
        params["inferenceConfig"] = dict(inference)
    if variant.get("additionalModelRequestFields"):
        params["additionalModelRequestFields"] = variant["additionalModelRequestFields"]
    return params


Fill = Callable[[str], str]


def _render_text(text: Data, fill: Fill) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"text": fill(text["text"])}]
    if "cachePoint" in text:
        content.append({"cachePoint": text["cachePoint"]})
    return {"messages": [{"role": "user", "content": content}]}


def _render_chat(chat: Data, fill: Fill) -> dict[str, Any]:
    params: dict[str, Any] = {
        "messages": [
            {"role": message["role"], "content": _fill_blocks(message["content"], fill)}
            for message in chat["messages"]
        ]
    }
    if chat.get("system"):
        params["system"] = _fill_blocks(chat["system"], fill)
    if chat.get("toolConfiguration"):
        params["toolConfig"] = chat["toolConfiguration"]
    return params


def _fill_blocks(blocks: list[Data], fill: Fill) -> list[dict[str, Any]]:
    return [{"text": fill(it["text"])} if "text" in it else dict(it) for it in blocks]
