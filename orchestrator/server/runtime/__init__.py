"""The operations of `bedrock-agent-runtime`: agents answer and remember, knowledge is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.server.operations import Operations
from orchestrator.server.runtime.generate import operations_of_generation
from orchestrator.server.runtime.inline import operations_of_inline_agents
from orchestrator.server.runtime.invoke import operations_of_agents
from orchestrator.server.runtime.retrieve import operations_of_knowledge, operations_of_reranking

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

__all__ = ["operations_of"]


def operations_of(world: ServerState) -> Operations:
    """The operations of this room, which begin, tell and end the turns of agents."""
    return {
        "bedrock-agent-runtime": {
            **operations_of_agents(world),
            **operations_of_inline_agents(world),
            **operations_of_knowledge(world),
            **operations_of_generation(world),
            **operations_of_reranking(world),
        }
    }
