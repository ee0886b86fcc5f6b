"""InvokeInlineAgent: agents whose definition is in the call, compiled once while it is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.agent.build import build
from orchestrator.agent.from_request import source_from_request
from orchestrator.limits import Limits
from orchestrator.server.agents.build import in_server
from orchestrator.server.agents.definition import CallerResolver, DefinitionReader
from orchestrator.server.operations import EventStream, Handler, Request
from orchestrator.server.runtime.turns import run_blocking, stream_turn
from orchestrator.support.lru_cache import LruCache

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

_OF_THE_CALL = frozenset(
    (
        *("inputText", "sessionId", "endSession", "enableTrace", "inlineSessionState"),
        *("streamingConfigurations", "promptCreationConfigurations"),
    )
)
_MOST = 128


def operations_of_inline_agents(world: ServerState) -> dict[str, Handler]:
    """InvokeInlineAgent."""
    return {"InvokeInlineAgent": partial(_invoke, world, InlineAgents(world))}


async def _invoke(world: ServerState, agents: InlineAgents, request: Request) -> EventStream:
    agent = await run_blocking(agents.agent, request)
    own = agent.for_tenant(request.caller.tenant)
    return await stream_turn(
        world, own, request, state="inlineSessionState", trace="InlineAgentTracePart"
    )


class InlineAgents:
    """The agents that were defined in calls, the last ones of them; safe for many threads."""

    def __init__(self, world: ServerState) -> None:
        """Begins with none.

        Args:
            world: What the server has open.
        """
        self._world = world
        self._kept: LruCache[Agent] = LruCache(_MOST)

    def agent(self, request: Request) -> Agent:
        """The agent that a call defines; may wait for S3, or for an agent that it leads.

        Raises:
            DefinitionError: The definition is wrong, or reaches out of itself.
            Fault: The caller may not use what it names.
            OrchestratorError: What it names is not there, or cannot be read.
        """
        own = {name: it for name, it in request.params.items() if name not in _OF_THE_CALL}
        found = DefinitionReader(self._world, request.caller)
        definition = found.read(own)
        caller = request.caller
        told = [caller.tenant, caller.allow, definition, found.led]
        text = json.dumps(told, sort_keys=True, default=_describe_value)
        key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        return self._kept.get(key, partial(self._compile_agent, found, definition))

    def _compile_agent(self, found: DefinitionReader, definition: Mapping[str, Any]) -> Agent:
        world = self._world
        source = source_from_request(definition, resolver=CallerResolver(found))
        limits = Limits(seconds=world.settings.turn_seconds)
        return build(replace(in_server(source, world), limits=limits))


def _describe_value(value: object) -> str:
    return f"{type(value).__name__}: {value!r}"
