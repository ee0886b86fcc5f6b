"""A stored prompt in the place of Converse's model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.prompts.prompt_variants import render_variant
from orchestrator.server.operations import Caller
from orchestrator.server.prompt_management.store import PromptStore

# Bedrock: what Converse may not be given beside a prompt, which has it.
_SET_BY_PROMPT = ("additionalModelRequestFields", "inferenceConfig", "system", "toolConfig")


def fill_params(prompts: PromptStore, caller: Caller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Converse's parameters, with what the prompt whose ARN is their `modelId` says; blocks.

    The messages of the request come after the prompt's. Parameters that name a model stay as they
    are, without their `promptVariables`, which mean nothing then.

    Raises:
        ResourceNotFound: The caller has no such prompt.
        ValidationError: A variable has no value, or the request has what the prompt has to say.
    """
    arn = params["modelId"]
    rest = {name: it for name, it in params.items() if name != "promptVariables"}
    if not prompts.is_own_arn(arn):
        return rest
    variant = prompts.find_variant(caller, arn)
    check_variant(variant, arn)
    for name in _SET_BY_PROMPT:
        if params.get(name):
            raise ValidationError(
                f"{name!r} cannot be given together with a prompt; set it in the prompt {arn!r}"
            )
    values = {name: it["text"] for name, it in params.get("promptVariables", {}).items()}
    rendered = render_variant(variant, values)
    messages = [*rendered["messages"], *params.get("messages", ())]
    return {**rest, **rendered, "messages": messages, "modelId": variant["modelId"]}


def check_variant(variant: Mapping[str, Any], arn: str) -> None:
    """Refuses a variant that no model can be asked with.

    Raises:
        ValidationError: It is for an agent, or names no model.
    """
    if "genAiResource" in variant:
        raise ValidationError(
            f"the prompt {arn!r} is for an agent (genAiResource); send its text to InvokeAgent"
        )
    if "modelId" not in variant:
        raise ValidationError(f"the prompt {arn!r} names no model; give its variant a modelId")
