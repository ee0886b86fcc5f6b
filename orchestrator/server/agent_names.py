"""Which agent a name means, for doors whose callers name agents freely."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.operations import Caller

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

_WITH_ALIAS = re.compile(r"([0-9A-Z]{10})/([0-9A-Z]{10})")


def list_agent_names(world: ServerState, caller: Caller) -> Mapping[str, str]:
    """What callers may call each agent that they see, and its description; blocks.

    An agent is called by its name, or by its id where another has the same name.
    """
    found: dict[str, tuple[str, str]] = {}  # the first alias of each agent
    for agent_id, _, name, description in world.agents.list_invocable(caller):
        found.setdefault(agent_id, (name, description or ""))
    names = [name for name, _ in found.values()]
    return {
        name if names.count(name) == 1 else agent_id: description
        for agent_id, (name, description) in found.items()
    }


def find_agent(world: ServerState, caller: Caller, name: str) -> Agent:
    """The agent that a caller means, with the tenant's own sessions; blocks.

    Args:
        world: What the server has open.
        caller: Who asks.
        name: The agent's name, its id, or `<id>/<alias id>`; the only agent when empty.

    Raises:
        ResourceNotFound: The caller sees no such agent.
        ValidationError: Several agents could be meant.
    """
    agent_id, alias_id = _resolve_ids(world, caller, name)
    return world.agents.resolve_alias(caller, agent_id, alias_id)


def _resolve_ids(world: ServerState, caller: Caller, name: str) -> tuple[str, str]:
    both = _WITH_ALIAS.fullmatch(name)
    if both is not None:
        return both[1], both[2]
    listed: list[Any] = list(world.agents.list_invocable(caller))
    meant: dict[str, str] = {}
    for agent_id, alias_id, known, _ in listed:
        if name in ("", agent_id, known):
            meant.setdefault(agent_id, alias_id)
    if name in meant:  # an id is meant, whatever others are called
        return name, meant[name]
    if len(meant) == 1:
        return next(iter(meant.items()))
    if not meant:
        raise ResourceNotFound(
            f"there is no agent {name!r}" if name else "there is no agent; the server has none"
        )
    called = f"are called {name!r}" if name else "could be meant"
    raise ValidationError(f"{len(meant)} agents {called}; name one by its id: {_format_ids(meant)}")


def _format_ids(meant: Mapping[str, str]) -> str:
    return ", ".join(sorted(meant)[:10])
