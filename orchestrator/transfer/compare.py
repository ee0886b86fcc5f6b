"""Whether two agents, or parts of them, say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.transfer.normalize import normalize_agent
from orchestrator.transfer.schemas import is_same_schema

PARTS = {
    "actionGroups": "actionGroupName",
    "knowledgeBases": "knowledgeBaseId",
    "agentCollaborators": "collaboratorName",
}
"""The lists of an agent that are made one by one, and what each of their items is called by."""

KEPT_THERE = ("agentResourceRoleArn", "foundationModel")
"""Members that the service needs: a folder without them leaves those of the agent there."""

_NOT_OF_A_VERSION = ("orchestrationType", "customOrchestration", "tags", "agentId")


def pick_agent_members(
    data: Mapping[str, Any], there: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The agent's own members, without its parts, id and tags.

    Args:
        data: The agent.
        there: The agent as it is at the service, which keeps what `data` does not say and the
            service needs.
    """
    own = {k: v for k, v in normalize_agent(data).items() if k not in (*PARTS, "agentId", "tags")}
    kept = {k: there[k] for k in KEPT_THERE if there and k in there}
    return {**kept, **own}


def is_same_content(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a version is the agent, as far as versions tell."""
    one, other = (
        {k: v for k, v in it.items() if k not in _NOT_OF_A_VERSION}
        for it in (pick_agent_members(there), pick_agent_members(wanted, there))
    )
    return one == other and all(
        _are_same_parts(there.get(part) or (), wanted.get(part) or (), key)
        for part, key in PARTS.items()
    )


def _are_same_parts(there: Any, wanted: Any, key: str) -> bool:
    mine, theirs = ({it[key]: it for it in parts} for parts in (there, wanted))
    return mine.keys() == theirs.keys() and all(is_same_part(mine[k], theirs[k]) for k in mine)


def is_same_part(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two action groups, or other parts, say the same; schemas by what they say."""
    mine, theirs = (str((it.get("apiSchema") or {}).get("payload", "")) for it in (one, other))
    if mine and theirs and is_same_schema(mine, theirs):
        one, other = ({**it, "apiSchema": {}} for it in (one, other))
    return one == other
