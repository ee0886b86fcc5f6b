"""The operations of `bedrock-runtime`: models, for tools that speak to Bedrock's.

Whatever the operation, a call becomes the parameters of Converse, then a `ModelRequest`; a reply
becomes Converse's output or events, then whatever the operation answers with.
"""

from __future__ import annotations

from orchestrator.server.inference.handlers import Inference
from orchestrator.server.inference.models import Models
from orchestrator.server.operations import Operations
from orchestrator.server.prompt_management.store import PromptStore

__all__ = ["operations_of"]


def operations_of(models: Models, prompts: PromptStore) -> Operations:
    """The handlers of `bedrock-runtime`."""
    inference = Inference(models, prompts)
    return {
        "bedrock-runtime": {
            "Converse": inference.converse,
            "ConverseStream": inference.converse_stream,
            "CountTokens": inference.count_tokens,
            "InvokeModel": inference.invoke_model,
            "InvokeModelWithResponseStream": inference.invoke_model_with_response_stream,
        }
    }
