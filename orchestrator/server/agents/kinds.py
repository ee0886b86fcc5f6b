"""The kinds of parts that an agent has."""

from __future__ import annotations

from typing import NamedTuple


class PartKind(NamedTuple):
    """A kind of an agent's parts.

    Attributes:
        name: What its documents are called in the store.
        id: The member that has a part's id.
        title: What people call one.
        named: The member that has its name; no two of an agent share it.
    """

    name: str
    id: str
    title: str
    named: str


GROUP = PartKind("action-group", "actionGroupId", "action group", "actionGroupName")
ASSOCIATION = PartKind(
    "agent-knowledge-base", "knowledgeBaseId", "knowledge base", "knowledgeBaseId"
)
COLLABORATOR = PartKind("agent-collaborator", "collaboratorId", "collaborator", "collaboratorName")
KINDS = (GROUP, ASSOCIATION, COLLABORATOR)
