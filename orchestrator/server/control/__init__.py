"""The operations of `bedrock-agent` on agents, and of both agents' services on tags."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.server.operations import Operations

if TYPE_CHECKING:
    from orchestrator.server.agents.cleanup import AgentCleanup
    from orchestrator.server.agents.registry import Agents
    from orchestrator.server.control.tags import TagsOf


def operations_of(
    agents: Agents, cleanup: AgentCleanup, tags_of: Mapping[str, TagsOf]
) -> Operations:
    """Agents, their parts, versions and aliases; and the tags of everything that has some.

    `tags_of` has what gives the tags of other things than agents, by the kind that ARNs name.
    """
    from orchestrator.server.agents.prompts import Prompts
    from orchestrator.server.control import agents as agents_
    from orchestrator.server.control import parts, versions
    from orchestrator.server.control.services import Services
    from orchestrator.server.control.tags import Tags, operations_of_tags

    tags = Tags(agents.store, tags_of)
    services = Services(agents, cleanup, Prompts(agents.resources.models), tags)
    handlers = {
        name: partial(handler, services)
        for module in (agents_, parts, versions)
        for name, handler in module.HANDLERS.items()
    }
    of_tags = operations_of_tags(tags)
    return {"bedrock-agent": {**handlers, **of_tags}, "bedrock-agent-runtime": of_tags}
