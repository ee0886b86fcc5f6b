"""The operations of `bedrock-runtime`: models, for tools that speak to Bedrock's.

Whatever the operation, a call becomes the parameters of Converse, then a `ModelRequest`; a reply
becomes Converse's output or events, then whatever the operation answers with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.server.inference.handlers import Inference
from orchestrator.server.operations import Operations

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

__all__ = ["operations_of"]


def operations_of(world: ServerState) -> Operations:
    """The handlers of `bedrock-runtime`."""
    room = Inference(world.models)
    return {
        "bedrock-runtime": {
            "Converse": room.converse,
            "ConverseStream": room.converse_stream,
            "CountTokens": room.count_tokens,
            "InvokeModel": room.invoke_model,
            "InvokeModelWithResponseStream": room.invoke_model_with_response_stream,
        }
    }
