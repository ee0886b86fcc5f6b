"""The kinds of parts that an agent has."""

from __future__ import annotations

from typing import NamedTuple


class PartKind(NamedTuple):
    """A kind of an agent's parts."""

    name: str  # what its documents are called in the store
    id: str  # the member that has a part's id
    title: str  # what people call one
    named: str  # the member that has its name; no two of an agent share it


GROUP = PartKind("action-group", "actionGroupId", "action group", "actionGroupName")
ASSOCIATION = PartKind(
    "agent-knowledge-base", "knowledgeBaseId", "knowledge base", "knowledgeBaseId"
)
COLLABORATOR = PartKind("agent-collaborator", "collaboratorId", "collaborator", "collaboratorName")
KINDS = (GROUP, ASSOCIATION, COLLABORATOR)
