"""InvokeInlineAgent: agents whose definition is in the call, compiled once while it is the same."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.agent.agent import Agent
from orchestrator.agent.build import build
from orchestrator.server.agents.build import DefinitionReader
from orchestrator.server.operations import EventStream, Handler, Request
from orchestrator.server.runtime.turns import run_blocking
from orchestrator.support.lru_cache import LruCache

if TYPE_CHECKING:
    from orchestrator.server.agents.build import AgentResources
    from orchestrator.server.runtime.turns import Turns

_OF_THE_CALL = frozenset(
    (
        *("inputText", "sessionId", "endSession", "enableTrace", "inlineSessionState"),
        *("streamingConfigurations", "promptCreationConfigurations"),
    )
)
_MOST = 128


def operations_of_inline_agents(resources: AgentResources, turns: Turns) -> dict[str, Handler]:
    """InvokeInlineAgent."""
    return {"InvokeInlineAgent": partial(_invoke, turns, InlineAgents(resources))}


async def _invoke(turns: Turns, agents: InlineAgents, request: Request) -> EventStream:
    agent = await run_blocking(agents.agent, request)
    own = agent.for_tenant(request.caller.tenant)
    return await turns.stream(
        own, request, state="inlineSessionState", trace="InlineAgentTracePart"
    )


class InlineAgents:
    """The agents that were defined in calls, the last ones of them; safe for many threads."""

    def __init__(self, resources: AgentResources) -> None:
        self._resources = resources
        self._kept: LruCache[Agent] = LruCache(_MOST)

    def agent(self, request: Request) -> Agent:
        """The agent that a call defines; may wait for S3, or for an agent that it leads.

        Raises:
            DefinitionError: The definition is wrong, or reaches out of itself.
            Fault: The caller may not use what it names.
            OrchestratorError: What it names is not there, or cannot be read.
        """
        own = {name: it for name, it in request.params.items() if name not in _OF_THE_CALL}
        reader = DefinitionReader(self._resources, request.caller)
        definition = reader.read(own)
        caller = request.caller
        told = [caller.tenant, caller.allow, definition, reader.digests]
        text = json.dumps(told, sort_keys=True, default=_describe_value)
        key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        return self._kept.get(key, lambda: build(reader.to_source(definition)))


def _describe_value(value: object) -> str:
    return f"{type(value).__name__}: {value!r}"
