"""InvokeAgent, and what its agents remember (Bedrock: agents runtime)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.server.agents.latency import OptimizedAgents, is_optimized
from orchestrator.server.operations import EventStream, Handler, Request
from orchestrator.server.paging import paginate
from orchestrator.server.runtime.turns import run_blocking, stream_turn
from orchestrator.server.wire.shapes import get_converter

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState


def operations_of_agents(world: ServerState) -> dict[str, Handler]:
    """InvokeAgent, GetAgentMemory and DeleteAgentMemory."""
    return {
        "InvokeAgent": partial(_invoke, world, OptimizedAgents()),
        "GetAgentMemory": partial(_get_memories, world),
        "DeleteAgentMemory": partial(_delete_memories, world),
    }


def _find_agent(world: ServerState, request: Request) -> Agent:
    params = request.params
    return world.agents.resolve_alias(request.caller, params["agentId"], params["agentAliasId"])


async def _invoke(world: ServerState, quicker: OptimizedAgents, request: Request) -> EventStream:
    params = request.params
    agent = world.agents.get_cached(request.caller, params["agentId"], params["agentAliasId"])
    if agent is None:
        agent = await run_blocking(_find_agent, world, request)
    if is_optimized(params.get("bedrockModelConfigurations")):
        agent = quicker.of(agent)
    return await stream_turn(world, agent, request, state="sessionState", trace="TracePart")


def _get_memories(world: ServerState, request: Request) -> Mapping[str, Any]:
    params = request.params
    found = _find_agent(world, request).memories(params["memoryId"])
    told, token = paginate(
        (((place,), it) for place, it in enumerate(found)),
        params.get("maxItems"),
        params.get("nextToken"),
        f"{params['agentId']}/{params['agentAliasId']}/{params['memoryId']}",
    )
    answer: dict[str, Any] = {"memoryContents": get_converter("Memories")(told)}
    return {**answer, "nextToken": token} if token else answer


def _delete_memories(world: ServerState, request: Request) -> Mapping[str, Any]:
    params = request.params
    _find_agent(world, request).forget(params.get("memoryId"), params.get("sessionId"))
    return {}
