"""The parts of agents: action groups, associated knowledge bases, and collaborators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from orchestrator.definition import build_action_groups, definition_of
from orchestrator.errors import ValidationError
from orchestrator.server.access.permissions import check_access
from orchestrator.server.agents.build import DefinitionReader
from orchestrator.server.agents.kinds import ASSOCIATION, COLLABORATOR, GROUP, PartKind
from orchestrator.server.control.services import Handling, Services, build_page
from orchestrator.server.ids import DRAFT, TEST_ALIAS, new_id, now
from orchestrator.server.operations import (
    Caller,
    Fault,
    Request,
    check_quota,
    conflict_error,
    not_found_error,
    pick,
)
from orchestrator.support.aws.clients import ALIAS_ARN

Data = Mapping[str, Any]


# Every kind


def _get(kind: PartKind, services: Services, request: Request) -> Data:
    params = request.params
    where = (params["agentId"], params["agentVersion"], params[kind.id])
    return {kind.answer: services.store.part(request.caller, kind, *where)}


def _list(kind: PartKind, services: Services, request: Request) -> Data:
    where = (request.params["agentId"], request.params["agentVersion"])
    # The parts of a folder were all made at once, and stay in the folder's order.
    found = [
        ((it["createdAt"].timestamp(), place), pick(it, kind.summary))
        for place, it in enumerate(services.store.parts(request.caller, kind, *where))
    ]
    return build_page(found, request, kind.summaries)


def _add(kind: PartKind, services: Services, request: Request, id: str, members: Data) -> Data:
    """Adds a part to `DRAFT`; in a transaction."""
    agent_id, at = request.params["agentId"], now()
    part = {
        "agentId": agent_id,
        "agentVersion": DRAFT,
        kind.id: id,
        "createdAt": at,
        kind.changed: at,
        **pick(request.params, ("clientToken",)),
        **members,
    }
    with services.edit_draft(request):
        count = len(services.store.parts(request.caller, kind, agent_id, DRAFT))
        check_quota(count, kind.most, f"{kind.title}s of the agent")
        services.store.save_part(request.caller, kind, part)
    return part


def _change(
    kind: PartKind, services: Services, request: Request, change: Callable[[Data], Data]
) -> Data:
    """Stores what `change` makes of a part of `DRAFT`."""
    caller, params = request.caller, request.params
    with services.edit_draft(request):
        before = services.store.part(caller, kind, params["agentId"], DRAFT, params[kind.id])
        part = {**change(before), kind.changed: now()}
        services.store.save_part(caller, kind, part)
    return {kind.answer: part}


def _remove(kind: PartKind, services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id, id = params["agentId"], params[kind.id]
    with services.edit_draft(request):
        part = services.store.part(caller, kind, agent_id, DRAFT, id)
        in_use = kind is GROUP and part["actionGroupState"] == "ENABLED"
        if in_use and not params.get("skipResourceInUseCheck"):
            raise conflict_error(
                f"the action group {id!r} is ENABLED; set its actionGroupState to DISABLED first, "
                "or set skipResourceInUseCheck"
            )
        services.store.remove_part(caller, kind, agent_id, id)
    return {}


# Action groups

# Bedrock: enabled action groups, and APIs or functions, per agent.
_MOST_ENABLED = 15
_MOST_OPERATIONS = 11
_OF_A_GROUP = (
    *("actionGroupName", "description", "parentActionGroupSignatureParams"),
    *("actionGroupExecutor", "apiSchema", "functionSchema", "actionGroupState"),
)
_SCHEMAS = ("apiSchema", "functionSchema")


def _create_group(services: Services, request: Request) -> Data:
    services.store.get_editable(request.caller, request.params["agentId"])
    members = _build_group(services, request)

    def make() -> Data:
        group = _add(GROUP, services, request, new_id(), members)
        _check_enabled_count(services, request)
        return group

    return {GROUP.answer: services.store.documents.run_once(request, make)}


def _update_group(services: Services, request: Request) -> Data:
    services.store.get_editable(request.caller, request.params["agentId"])
    members = _build_group(services, request)

    def change(before: Data) -> Data:
        stays = ("agentId", "agentVersion", "actionGroupId", "createdAt", "clientToken")
        state = request.params.get("actionGroupState", before["actionGroupState"])
        return {**pick(before, stays), **members, "actionGroupState": state}

    with services.store.documents.transaction():
        answer = _change(GROUP, services, request, change)
        _check_enabled_count(services, request)
    return answer


def _build_group(services: Services, request: Request) -> dict[str, Any]:
    """What a group is to be, checked; blocks where its schema is in S3."""
    members = {"actionGroupState": "ENABLED", **pick(request.params, _OF_A_GROUP)}
    signature = request.params.get("parentActionGroupSignature")
    if signature is not None:
        members["parentActionSignature"] = signature
        _check_built_in(signature, members)
    else:
        _check_custom(members)
        _check_schema(services, request.caller, members)
    return members


def _check_built_in(signature: str, members: Data) -> None:
    names = [*_SCHEMAS, "actionGroupExecutor"]
    if signature == "AMAZON.UserInput":
        names.append("description")
    extra = next((name for name in names if name in members), None)
    if extra is not None:
        raise ValidationError(
            f"an action group with the parentActionGroupSignature {signature} has no {extra}; "
            "leave it out"
        )


def _check_custom(members: Data) -> None:
    schemas = [name for name in _SCHEMAS if name in members]
    if len(schemas) != 1:
        raise ValidationError(
            f"the action group {members['actionGroupName']!r} has "
            f"{'both apiSchema and functionSchema' if schemas else 'no schema'}; give either "
            "apiSchema or functionSchema"
        )
    if not members.get("actionGroupExecutor"):
        raise ValidationError(
            f"the action group {members['actionGroupName']!r} has no actionGroupExecutor; give the "
            "ARN of a Lambda function, or customControl: RETURN_CONTROL"
        )


def _check_schema(services: Services, caller: Caller, members: Data) -> None:
    """Refuses a schema that no agent could have; what executes it is left for PrepareAgent."""
    group_members = {
        **pick(members, ("actionGroupName", *_SCHEMAS)),
        "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
    }
    read = DefinitionReader(services.agents.resources, caller).read(
        {"actionGroups": [group_members]}
    )
    (group,) = build_action_groups(definition_of({"agentName": "agent", **read}))
    if len(group.operations) > _MOST_OPERATIONS:
        raise Fault(
            "ServiceQuotaExceededException",
            f"the action group {members['actionGroupName']!r} has {len(group.operations)} "
            f"operations, and the most are {_MOST_OPERATIONS}; make two groups of it",
        )


def _check_enabled_count(services: Services, request: Request) -> None:
    groups = services.store.parts(request.caller, GROUP, request.params["agentId"], DRAFT)
    enabled = sum(it["actionGroupState"] == "ENABLED" for it in groups)
    if enabled > _MOST_ENABLED:
        raise Fault(
            "ServiceQuotaExceededException",
            f"the agent would have {enabled} enabled action groups, and the most are "
            f"{_MOST_ENABLED}; disable one first",
        )


# Knowledge bases

_OF_A_BASE = ("description", "knowledgeBaseState")


def _associate_base(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id, id = params["agentId"], params["knowledgeBaseId"]
    services.store.get_editable(caller, agent_id)
    # Raises when there is none.
    services.agents.resources.bases.base(caller, id)
    members = {"knowledgeBaseState": "ENABLED", **pick(params, _OF_A_BASE)}
    with services.store.documents.transaction():
        others = services.store.parts(caller, ASSOCIATION, agent_id, DRAFT)
        if any(it["knowledgeBaseId"] == id for it in others):
            raise conflict_error(
                f"the knowledge base {id!r} is associated with the agent {agent_id!r} already; "
                "change that with UpdateAgentKnowledgeBase"
            )
        base = _add(ASSOCIATION, services, request, id, members)
    return {ASSOCIATION.answer: base}


def _update_base(services: Services, request: Request) -> Data:
    members = pick(request.params, _OF_A_BASE)
    return _change(ASSOCIATION, services, request, lambda before: {**before, **members})


# Collaborators

_OF_A_COLLABORATOR = (
    *("agentDescriptor", "collaboratorName", "collaborationInstruction"),
    "relayConversationHistory",
)


def _associate_collaborator(services: Services, request: Request) -> Data:
    def make() -> Data:
        services.store.get_editable(request.caller, request.params["agentId"])
        members = _build_collaborator(services, request)
        return _add(COLLABORATOR, services, request, new_id(), members)

    return {COLLABORATOR.answer: services.store.documents.run_once(request, make)}


def _update_collaborator(services: Services, request: Request) -> Data:
    return _change(
        COLLABORATOR,
        services,
        request,
        lambda before: {**before, **_build_collaborator(services, request)},
    )


def _build_collaborator(services: Services, request: Request) -> dict[str, Any]:
    """What a collaborator is to be, unless it is an agent that cannot be led."""
    _check_alias(services, request)
    members = pick(request.params, _OF_A_COLLABORATOR)
    return {"relayConversationHistory": "DISABLED", **members}


def _check_alias(services: Services, request: Request) -> None:
    caller, leader = request.caller, request.params["agentId"]
    arn = request.params["agentDescriptor"].get("aliasArn") or ""
    found = ALIAS_ARN.fullmatch(arn)
    if found is None:
        raise ValidationError(
            f"{arn!r} is not the ARN of an agent's alias; give agentDescriptor: {{aliasArn: ...}}"
        )
    if found.group("region", "account") != services.store.arns:
        check_access(caller, arn)
        return
    agent_id, alias_id = found["agent"], found["alias"]
    if agent_id == leader:
        raise ValidationError(f"the agent {leader!r} cannot lead itself")
    defined = services.store.folders.find(agent_id)
    if defined is not None:
        there = defined.has_alias(alias_id)
    else:
        services.store.agent(caller, agent_id)
        alias = services.store.alias(caller, agent_id, alias_id)
        there = alias_id == TEST_ALIAS or alias is not None
    if not there:
        raise not_found_error(f"alias of the agent {agent_id!r}", alias_id)


HANDLERS: dict[str, Handling] = {
    "CreateAgentActionGroup": _create_group,
    "GetAgentActionGroup": partial(_get, GROUP),
    "UpdateAgentActionGroup": _update_group,
    "DeleteAgentActionGroup": partial(_remove, GROUP),
    "ListAgentActionGroups": partial(_list, GROUP),
    "AssociateAgentKnowledgeBase": _associate_base,
    "GetAgentKnowledgeBase": partial(_get, ASSOCIATION),
    "UpdateAgentKnowledgeBase": _update_base,
    "DisassociateAgentKnowledgeBase": partial(_remove, ASSOCIATION),
    "ListAgentKnowledgeBases": partial(_list, ASSOCIATION),
    "AssociateAgentCollaborator": _associate_collaborator,
    "GetAgentCollaborator": partial(_get, COLLABORATOR),
    "UpdateAgentCollaborator": _update_collaborator,
    "DisassociateAgentCollaborator": partial(_remove, COLLABORATOR),
    "ListAgentCollaborators": partial(_list, COLLABORATOR),
}
