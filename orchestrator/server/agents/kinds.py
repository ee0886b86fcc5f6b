"""The kinds of parts that an agent has."""

from __future__ import annotations

from typing import NamedTuple


class PartKind(NamedTuple):
    """A kind of an agent's parts."""

    name: str  # what its documents are called in the store
    id: str  # the member that has a part's id
    title: str  # what people call one
    named: str  # the member that has its name; no two of an agent share it
    changed: str  # the member that has the time of its last change
    answer: str  # the member of answers that has one
    summaries: str  # the member of answers that has many
    summary: tuple[str, ...]  # the members that are shown of each of many
    most: int  # how many an agent may have (Bedrock: quotas)


GROUP = PartKind(
    name="action-group",
    id="actionGroupId",
    title="action group",
    named="actionGroupName",
    changed="updatedAt",
    answer="agentActionGroup",
    summaries="actionGroupSummaries",
    summary=(
        *("actionGroupId", "actionGroupName", "actionGroupState"),
        *("description", "updatedAt"),
    ),
    most=20,
)
ASSOCIATION = PartKind(
    name="agent-knowledge-base",
    id="knowledgeBaseId",
    title="knowledge base",
    named="knowledgeBaseId",
    changed="updatedAt",
    answer="agentKnowledgeBase",
    summaries="agentKnowledgeBaseSummaries",
    summary=("knowledgeBaseId", "description", "knowledgeBaseState", "updatedAt"),
    most=2,
)
COLLABORATOR = PartKind(
    name="agent-collaborator",
    id="collaboratorId",
    title="collaborator",
    named="collaboratorName",
    changed="lastUpdatedAt",
    answer="agentCollaborator",
    summaries="agentCollaboratorSummaries",
    summary=(
        *("agentId", "agentVersion", "collaboratorId", "createdAt", "lastUpdatedAt"),
        *("agentDescriptor", "collaboratorName", "collaborationInstruction"),
        "relayConversationHistory",
    ),
    most=10,
)
KINDS = (GROUP, ASSOCIATION, COLLABORATOR)
