"""The operations of `bedrock-agent-runtime`: agents answer and remember, knowledge is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.server.operations import Operations

if TYPE_CHECKING:
    from orchestrator.models.embeddings import Embedder
    from orchestrator.server.agents.registry import Agents


def operations_of(agents: Agents, embedder: Embedder | str) -> Operations:
    """The operations that start, show and end the turns of agents, or search."""
    from orchestrator.server.runtime.generate import operations_of_generation
    from orchestrator.server.runtime.generate_query import operations_of_queries
    from orchestrator.server.runtime.invoke import operations_of_agents
    from orchestrator.server.runtime.retrieve import operations_of_knowledge

    resources = agents.resources
    return {
        "bedrock-agent-runtime": {
            **operations_of_agents(agents),
            **operations_of_knowledge(resources.bases, resources.guardrails, embedder),
            **operations_of_generation(resources),
            **operations_of_queries(resources),
        }
    }
