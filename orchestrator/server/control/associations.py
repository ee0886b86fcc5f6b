"""What agents are associated with: knowledge bases and collaborators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.server.access.permissions import check_access
from orchestrator.server.agents.kinds import ASSOCIATION, COLLABORATOR, PartKind
from orchestrator.server.agents.store import not_found_error, now
from orchestrator.server.control.services import (
    Handling,
    Services,
    add_sort_keys,
    build_page,
    check_quota,
    pick,
)
from orchestrator.server.ids import DRAFT, TEST_ALIAS, new_id
from orchestrator.server.operations import Caller, Fault, Request
from orchestrator.support.aws.clients import ALIAS_ARN

# Bedrock: knowledge bases and collaborators per agent.
_MOST_BASES = 2
_MOST_COLLABORATORS = 10
_GIVEN = (
    *("agentDescriptor", "collaboratorName", "collaborationInstruction"),
    "relayConversationHistory",
)
_BASE_SUMMARY = ("knowledgeBaseId", "description", "knowledgeBaseState", "updatedAt")
_COLLABORATOR_SUMMARY = (
    *("agentId", "agentVersion", "collaboratorId", "createdAt", "lastUpdatedAt"),
    *_GIVEN,
)

Data = Mapping[str, Any]


def _associate_base(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id, id = params["agentId"], params["knowledgeBaseId"]
    services.store.get_editable(caller, agent_id)
    # Raises when there is none.
    services.agents.resources.bases.base(caller, id)
    at = now()
    base = {
        "agentId": agent_id,
        "agentVersion": DRAFT,
        "knowledgeBaseId": id,
        "knowledgeBaseState": "ENABLED",
        "createdAt": at,
        "updatedAt": at,
        **pick(params, ("description", "knowledgeBaseState")),
    }
    with services.store.documents.transaction():
        record = services.store.get_editable(caller, agent_id)
        others = services.store.parts(caller, ASSOCIATION, agent_id, DRAFT)
        if any(it["knowledgeBaseId"] == id for it in others):
            raise Fault(
                "ConflictException",
                f"the knowledge base {id!r} is associated with the agent {agent_id!r} already; "
                "change that with UpdateAgentKnowledgeBase",
            )
        check_quota(len(others), _MOST_BASES, "knowledge bases of the agent")
        services.store.save_part(caller, ASSOCIATION, base)
        services.store.touch(caller, record)
    return {"agentKnowledgeBase": base}


def _update_base(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id, id = params["agentId"], params["knowledgeBaseId"]
    with services.store.documents.transaction():
        record = services.store.get_editable(caller, agent_id)
        base = services.store.part(caller, ASSOCIATION, agent_id, DRAFT, id)
        base |= {**pick(params, ("description", "knowledgeBaseState")), "updatedAt": now()}
        services.store.save_part(caller, ASSOCIATION, base)
        services.store.touch(caller, record)
    return {"agentKnowledgeBase": base}


def _get_base(services: Services, request: Request) -> Data:
    params = request.params
    where = (params["agentId"], params["agentVersion"], params["knowledgeBaseId"])
    return {"agentKnowledgeBase": services.store.part(request.caller, ASSOCIATION, *where)}


def _disassociate_base(services: Services, request: Request) -> Data:
    _remove_part(services, request, ASSOCIATION)
    return {}


def _list_bases(services: Services, request: Request) -> Data:
    params = request.params
    found = services.store.parts(
        request.caller, ASSOCIATION, params["agentId"], params["agentVersion"]
    )
    summaries = add_sort_keys(found, _BASE_SUMMARY)
    return build_page(summaries, request, "agentKnowledgeBaseSummaries")


def _remove_part(services: Services, request: Request, kind: PartKind) -> None:
    caller, params = request.caller, request.params
    agent_id, id = params["agentId"], params[kind.id]
    with services.store.documents.transaction():
        record = services.store.get_editable(caller, agent_id)
        services.store.part(caller, kind, agent_id, DRAFT, id)
        services.store.remove_part(caller, kind, agent_id, id)
        services.store.touch(caller, record)


def _associate_collaborator(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id = params["agentId"]

    def make() -> Data:
        record = services.store.get_editable(caller, agent_id)
        _check_alias(services, caller, agent_id, params["agentDescriptor"])
        count = len(services.store.parts(caller, COLLABORATOR, agent_id, DRAFT))
        check_quota(count, _MOST_COLLABORATORS, "collaborators of the agent")
        at = now()
        collaborator = {
            "agentId": agent_id,
            "agentVersion": DRAFT,
            "collaboratorId": new_id(),
            "createdAt": at,
            "lastUpdatedAt": at,
            "relayConversationHistory": "DISABLED",
            **pick(params, (*_GIVEN, "clientToken")),
        }
        services.store.save_part(caller, COLLABORATOR, collaborator)
        services.store.touch(caller, record)
        return collaborator

    return {"agentCollaborator": services.run_once(request, make)}


def _check_alias(services: Services, caller: Caller, leader: str, descriptor: Data) -> None:
    """Refuses an agent that cannot be led."""
    arn = descriptor.get("aliasArn") or ""
    found = ALIAS_ARN.fullmatch(arn)
    if found is None:
        raise Fault(
            "ValidationException",
            f"{arn!r} is not the ARN of an agent's alias; give agentDescriptor: {{aliasArn: ...}}",
        )
    if found.group("region", "account") != services.store.arns:
        check_access(caller, arn)
        return
    agent_id, alias_id = found["agent"], found["alias"]
    if agent_id == leader:
        raise Fault("ValidationException", f"the agent {leader!r} cannot lead itself")
    defined = services.store.folders.find(agent_id)
    if defined is not None:
        found_alias = defined.has_alias(alias_id)
    else:
        services.store.agent(caller, agent_id)
        alias = services.store.alias(caller, agent_id, alias_id)
        found_alias = alias_id == TEST_ALIAS or alias is not None
    if not found_alias:
        raise not_found_error(f"alias of the agent {agent_id!r}", alias_id)


def _update_collaborator(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id, id = params["agentId"], params["collaboratorId"]
    with services.store.documents.transaction():
        record = services.store.get_editable(caller, agent_id)
        collaborator = services.store.part(caller, COLLABORATOR, agent_id, DRAFT, id)
        _check_alias(services, caller, agent_id, params["agentDescriptor"])
        collaborator |= {
            "relayConversationHistory": "DISABLED",
            **pick(params, _GIVEN),
            "lastUpdatedAt": now(),
        }
        services.store.save_part(caller, COLLABORATOR, collaborator)
        services.store.touch(caller, record)
    return {"agentCollaborator": collaborator}


def _get_collaborator(services: Services, request: Request) -> Data:
    params = request.params
    where = (params["agentId"], params["agentVersion"], params["collaboratorId"])
    return {"agentCollaborator": services.store.part(request.caller, COLLABORATOR, *where)}


def _disassociate_collaborator(services: Services, request: Request) -> Data:
    _remove_part(services, request, COLLABORATOR)
    return {}


def _list_collaborators(services: Services, request: Request) -> Data:
    params = request.params
    found = services.store.parts(
        request.caller, COLLABORATOR, params["agentId"], params["agentVersion"]
    )
    summaries = add_sort_keys(found, _COLLABORATOR_SUMMARY)
    return build_page(summaries, request, "agentCollaboratorSummaries")


HANDLERS: dict[str, Handling] = {
    "AssociateAgentKnowledgeBase": _associate_base,
    "GetAgentKnowledgeBase": _get_base,
    "UpdateAgentKnowledgeBase": _update_base,
    "DisassociateAgentKnowledgeBase": _disassociate_base,
    "ListAgentKnowledgeBases": _list_bases,
    "AssociateAgentCollaborator": _associate_collaborator,
    "GetAgentCollaborator": _get_collaborator,
    "UpdateAgentCollaborator": _update_collaborator,
    "DisassociateAgentCollaborator": _disassociate_collaborator,
    "ListAgentCollaborators": _list_collaborators,
}
