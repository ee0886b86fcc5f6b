"""InvokeAgent, and what its agents remember (Bedrock: agents runtime)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.server.operations import EventStream, Handler, Request
from orchestrator.server.paging import paged
from orchestrator.server.runtime.latency import Quicker, is_optimized
from orchestrator.server.runtime.shapes import told_as
from orchestrator.server.runtime.turns import answered, blocking

if TYPE_CHECKING:
    from orchestrator.server.world import World

__all__ = ["operations_of_agents"]


def operations_of_agents(world: World) -> dict[str, Handler]:
    """InvokeAgent, GetAgentMemory and DeleteAgentMemory."""
    return {
        "InvokeAgent": partial(_invoke, world, Quicker()),
        "GetAgentMemory": partial(_memories, world),
        "DeleteAgentMemory": partial(_forget, world),
    }


def _agent(world: World, request: Request) -> Agent:
    params = request.params
    return world.agents.running(request.caller, params["agentId"], params["agentAliasId"])


async def _invoke(world: World, quicker: Quicker, request: Request) -> EventStream:
    params = request.params
    agent = world.agents.at_hand(request.caller, params["agentId"], params["agentAliasId"])
    if agent is None:
        agent = await blocking(_agent, world, request)
    if is_optimized(params.get("bedrockModelConfigurations")):
        agent = quicker.of(agent)
    return await answered(world, agent, request, state="sessionState", trace="TracePart")


def _memories(world: World, request: Request) -> Mapping[str, Any]:
    params = request.params
    found = _agent(world, request).memories(params["memoryId"])
    told, token = paged(
        (((place,), it) for place, it in enumerate(found)),
        params.get("maxItems"),
        params.get("nextToken"),
        f"{params['agentId']}/{params['agentAliasId']}/{params['memoryId']}",
    )
    answer: dict[str, Any] = {"memoryContents": told_as("Memories")(told)}
    return {**answer, "nextToken": token} if token else answer


def _forget(world: World, request: Request) -> Mapping[str, Any]:
    params = request.params
    _agent(world, request).forget(params.get("memoryId"), params.get("sessionId"))
    return {}
