"""The operations of `bedrock-agent` on agents, and of both agents' services on tags."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from orchestrator.server.operations import Operations

if TYPE_CHECKING:
    from orchestrator.server.agents.cleanup import AgentCleanup
    from orchestrator.server.agents.registry import Agents
    from orchestrator.server.flows.store import FlowStore
    from orchestrator.server.runtime.sessions_api import SessionsApi


def operations_of(
    agents: Agents, cleanup: AgentCleanup, sessions: SessionsApi, flows: FlowStore
) -> Operations:
    """Agents, their parts, versions and aliases; and the tags of everything that has some."""
    from orchestrator.server.agents.prompts import Prompts
    from orchestrator.server.control import agents as agents_
    from orchestrator.server.control import parts, versions
    from orchestrator.server.control.services import Services
    from orchestrator.server.control.tags import Tags, operations_of_tags

    tags = Tags(agents.store, agents.resources.bases.tags, sessions.tags, flows.tags)
    services = Services(agents, cleanup, Prompts(agents.resources.models), tags)
    handlers = {
        name: partial(handler, services)
        for module in (agents_, parts, versions)
        for name, handler in module.HANDLERS.items()
    }
    of_tags = operations_of_tags(tags)
    return {"bedrock-agent": {**handlers, **of_tags}, "bedrock-agent-runtime": of_tags}
