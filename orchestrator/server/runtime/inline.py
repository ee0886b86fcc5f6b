"""InvokeInlineAgent: agents whose definition is in the call, compiled once while it is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.agent.from_request import inline_agent
from orchestrator.engine.plan import Plan
from orchestrator.limits import Limits
from orchestrator.server.control.build import placed
from orchestrator.server.operations import EventStream, Handler, Request
from orchestrator.server.runtime.definition import Found, Resolved
from orchestrator.server.runtime.recent import Recent
from orchestrator.server.runtime.turns import answered, blocking

if TYPE_CHECKING:
    from orchestrator.server.world import World

__all__ = ["InlineAgents", "operations_of_inline_agents"]

_OF_THE_CALL = frozenset(
    (
        *("inputText", "sessionId", "endSession", "enableTrace", "inlineSessionState"),
        *("streamingConfigurations", "promptCreationConfigurations"),
    )
)
_MOST = 128


def operations_of_inline_agents(world: World) -> dict[str, Handler]:
    """InvokeInlineAgent."""
    return {"InvokeInlineAgent": partial(_invoke, world, InlineAgents(world))}


async def _invoke(world: World, agents: InlineAgents, request: Request) -> EventStream:
    agent = await blocking(agents.agent, request)
    own = agent.for_tenant(request.caller.tenant)
    return await answered(
        world, own, request, state="inlineSessionState", trace="InlineAgentTracePart"
    )


class InlineAgents:
    """The agents that were defined in calls, the last ones of them; safe for many threads."""

    def __init__(self, world: World) -> None:
        """Begins with none.

        Args:
            world: What the server has open.
        """
        self._world = world
        self._kept: Recent[Agent] = Recent(_MOST)

    def agent(self, request: Request) -> Agent:
        """The agent that a call defines; may wait for S3, or for an agent that it leads.

        Raises:
            DefinitionError: The definition is wrong, or reaches out of itself.
            Fault: The caller may not use what it names.
            OrchestratorError: What it names is not there, or cannot be read.
        """
        own = {name: it for name, it in request.params.items() if name not in _OF_THE_CALL}
        found = Found(self._world, request.caller)
        definition = found.read(own)
        caller = request.caller
        told = [caller.tenant, caller.allow, definition, found.led]
        text = json.dumps(told, sort_keys=True, default=_plain)
        key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        return self._kept.get(key, partial(self._compiled, found, definition))

    def _compiled(self, found: Found, definition: Mapping[str, Any]) -> Agent:
        world = self._world
        resolved = Resolved(found)
        members = resolved.objects(definition)

        def compiled(**arguments: Any) -> Plan:
            return Agent(**resolved.arguments(arguments)).plan

        made = resolved.arguments(inline_agent(members, None, None, compiled))
        limits = Limits(seconds=world.settings.turn_seconds)
        agent = Agent(**{**made, "limits": limits, "sessions": world.sessions})
        return placed(agent, world)


def _plain(value: object) -> str:
    return f"{type(value).__name__}: {value!r}"
