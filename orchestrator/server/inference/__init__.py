"""The operations of `bedrock-runtime`: models, for tools that speak to Bedrock's.

Whatever the operation, a call becomes the parameters of Converse, then a `ModelRequest`; a reply
becomes Converse's output or events, then whatever the operation answers with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.server.operations import Operations

if TYPE_CHECKING:
    from orchestrator.server.agents.store import AgentStore
    from orchestrator.server.guardrails.store import GuardrailStore
    from orchestrator.server.inference.models import Models
    from orchestrator.server.prompt_management.store import PromptStore


def operations_of(
    models: Models, prompts: PromptStore, guardrails: GuardrailStore, agents: AgentStore
) -> Operations:
    """The handlers of `bedrock-runtime`, and those of `bedrock` that list models."""
    from orchestrator.server.inference.catalog import operations_of_catalog
    from orchestrator.server.inference.handlers import Inference

    inference = Inference(models, prompts, guardrails)
    return {
        "bedrock": operations_of_catalog(models, agents),
        "bedrock-runtime": {
            "Converse": inference.converse,
            "ConverseStream": inference.converse_stream,
            "CountTokens": inference.count_tokens,
            "InvokeModel": inference.invoke_model,
            "InvokeModelWithResponseStream": inference.invoke_model_with_response_stream,
        },
    }
