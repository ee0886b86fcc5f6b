"""The operations of `bedrock-agent` on agents, and the agents themselves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from orchestrator.server.operations import Operations

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

__all__ = ["operations_of"]


def operations_of(world: ServerState) -> Operations:
    """Agents, their parts, versions and aliases; and the tags of everything that has some."""
    from orchestrator.server.control import action_groups, agents, associations, versions
    from orchestrator.server.control.services import ControlServices
    from orchestrator.server.control.tags import operations_of_tags

    room = ControlServices.of(world)
    rooms = (agents, associations, action_groups, versions)
    handlers = {
        name: partial(handling, room) for one in rooms for name, handling in one.HANDLERS.items()
    }
    tags = operations_of_tags(room.tags)
    return {"bedrock-agent": {**handlers, **tags}, "bedrock-agent-runtime": tags}
