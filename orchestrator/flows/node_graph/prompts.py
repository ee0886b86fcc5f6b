"""Prompts of Prompt nodes: their variables filled, as a request to a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.message import Message, to_json
from orchestrator.models import Model, ModelRequest
from orchestrator.models.base import map_inference
from orchestrator.prompts import dialect_for, load_dialect
from orchestrator.prompts.prompt_variants import find_variables, render_variant

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
    texts = {
        name: value if isinstance(value, str) else to_json(value) for name, value in values.items()
    }
    _check_variables(variant, texts)
    params = render_variant(variant, texts)
    if "toolConfig" in params:
        raise ValidationError("the prompt has tools, whose calls a Prompt node cannot carry out")
    if not params["messages"]:
        raise ValidationError("the prompt has no messages")
    return ModelRequest(
        _STAGE,
        "\n\n".join(_list_texts(params.get("system") or ())),
        [
            Message(it["role"], [{"text": text} for text in _list_texts(it["content"])])
            for it in params["messages"]
        ],
        inference=map_inference(params.get("inferenceConfig") or {}),
        additional=dict(params.get("additionalModelRequestFields") or {}),
        raw_text=load_dialect(dialect_for(model.model_id)).protocol == "text",
    )


def _check_variables(variant: Data, values: Data) -> None:
    missing = sorted(find_variables(variant) - values.keys())
    if missing:
        there = ", ".join(sorted(values)) or "none"
        raise ValidationError(
            f"the prompt has a variable {missing[0]!r}, and the node no input of that name; its "
            f"inputs: {there}"
        )


def _list_texts(blocks: Iterable[Data]) -> list[str]:
    return [block["text"] for block in blocks if "text" in block]
