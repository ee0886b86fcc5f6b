"""Answers of Bedrock's API in files (`aws bedrock-agent get-agent`) → a `Document`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.transfer.build_document import build_document
from orchestrator.transfer.document import Document

_GROUPS = ("agentActionGroup", "agentActionGroups", "actionGroups", "actionGroupSummaries")
_BASES = (
    *("agentKnowledgeBase", "agentKnowledgeBases", "knowledgeBases"),
    "agentKnowledgeBaseSummaries",
)
_MEMBERS = (
    *("agentCollaborator", "agentCollaborators", "collaborators"),
    "agentCollaboratorSummaries",
)


def is_get_agent(data: Mapping[str, Any]) -> bool:
    """Whether data is GetAgent's answer, with or without its outermost member."""
    inner = data.get("agent", data.get("agentVersion"))
    return "agentName" in (inner if isinstance(inner, Mapping) else data)


def read_get_agent(data: Mapping[str, Any], others: Iterable[Mapping[str, Any]] = ()) -> Document:
    """An agent as GetAgent or GetAgentVersion tells it.

    Args:
        data: The answer. Action groups, knowledge bases and collaborators may stand beside the
            agent, under the names that the API's answers have for one or for many.
        others: Further answers, such as GetAgentActionGroup's.

    Raises:
        DefinitionError: The data is no agent's.
    """
    inner = data.get("agent", data.get("agentVersion"))
    agent = inner if isinstance(inner, Mapping) else data
    told = [data, *([agent] if agent is not data else []), *others]
    parts = (_GROUPS, _BASES, _MEMBERS)
    names = {name for part in parts for name in part}
    own = {k: v for k, v in agent.items() if k not in names and k not in ("version", "alias")}
    groups, bases, members = (list(_iter_parts(told, part)) for part in parts)
    return build_document(own, groups, bases, members, agent_id=agent.get("agentId"), listed=True)


def _iter_parts(
    told: Iterable[Mapping[str, Any]], names: Iterable[str]
) -> Iterator[Mapping[str, Any]]:
    for answer in told:
        for name in names:
            value = answer.get(name)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Mapping):
                    yield _unwrap_part(item, names)


def _unwrap_part(item: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
    for name in names:
        if isinstance(inner := item.get(name), Mapping):
            return inner
    return item
