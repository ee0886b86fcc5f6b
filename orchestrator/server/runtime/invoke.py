"""InvokeAgent, and what its agents remember (Bedrock: agents runtime)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.server.agents.latency import OptimizedAgents, is_optimized
from orchestrator.server.operations import EventStream, Handler, Request
from orchestrator.server.paging import paginate
from orchestrator.server.runtime.turns import run_blocking
from orchestrator.server.wire.shapes import get_converter

if TYPE_CHECKING:
    from orchestrator.server.agents.registry import Agents
    from orchestrator.server.runtime.turns import Turns


def operations_of_agents(agents: Agents, turns: Turns) -> dict[str, Handler]:
    """InvokeAgent, GetAgentMemory and DeleteAgentMemory."""
    return {
        "InvokeAgent": partial(_invoke, agents, turns, OptimizedAgents()),
        "GetAgentMemory": partial(_get_memories, agents),
        "DeleteAgentMemory": partial(_delete_memories, agents),
    }


def _find_agent(agents: Agents, request: Request) -> Agent:
    params = request.params
    return agents.resolve_alias(request.caller, params["agentId"], params["agentAliasId"])


async def _invoke(
    agents: Agents, turns: Turns, optimized: OptimizedAgents, request: Request
) -> EventStream:
    params = request.params
    agent = agents.get_cached(request.caller, params["agentId"], params["agentAliasId"])
    if agent is None:
        agent = await run_blocking(_find_agent, agents, request)
    configurations = params.get("bedrockModelConfigurations")
    if configurations and is_optimized(configurations):
        agent = optimized.of(agent)
    return await turns.stream(agent, request, state="sessionState", trace="TracePart")


def _get_memories(agents: Agents, request: Request) -> Mapping[str, Any]:
    params = request.params
    found = _find_agent(agents, request).memories(params["memoryId"])
    told, token = paginate(
        (((place,), it) for place, it in enumerate(found)),
        params.get("maxItems"),
        params.get("nextToken"),
        f"{params['agentId']}/{params['agentAliasId']}/{params['memoryId']}",
    )
    answer: dict[str, Any] = {"memoryContents": get_converter("Memories")(told)}
    return {**answer, "nextToken": token} if token else answer


def _delete_memories(agents: Agents, request: Request) -> Mapping[str, Any]:
    params = request.params
    _find_agent(agents, request).forget(params.get("memoryId"), params.get("sessionId"))
    return {}
