"""Action groups of agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.definition import build_action_groups, definition_of
from orchestrator.server.agents.build import DefinitionReader
from orchestrator.server.agents.kinds import GROUP
from orchestrator.server.agents.store import now
from orchestrator.server.control.services import (
    Handling,
    Services,
    add_sort_keys,
    build_page,
    check_quota,
    pick,
)
from orchestrator.server.ids import DRAFT, new_id
from orchestrator.server.operations import Caller, Fault, Request

# Bedrock: action groups, enabled action groups and APIs or functions per agent.
_MOST_GROUPS = 20
_MOST_ENABLED = 15
_MOST_OPERATIONS = 11
_GIVEN = (
    *("actionGroupName", "description", "parentActionGroupSignatureParams"),
    *("actionGroupExecutor", "apiSchema", "functionSchema", "actionGroupState"),
)
_SUMMARY = ("actionGroupId", "actionGroupName", "actionGroupState", "description", "updatedAt")
_SCHEMAS = ("apiSchema", "functionSchema")

Data = Mapping[str, Any]


def _create(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    services.store.get_editable(caller, params["agentId"])
    members = _build_members(services, caller, params)

    def make() -> Data:
        record = services.store.get_editable(caller, params["agentId"])
        others = services.store.parts(caller, GROUP, params["agentId"], DRAFT)
        check_quota(len(others), _MOST_GROUPS, "action groups of the agent")
        at = now()
        group = {
            "agentId": params["agentId"],
            "agentVersion": DRAFT,
            "actionGroupId": new_id(),
            "createdAt": at,
            "updatedAt": at,
            **pick(params, ("clientToken",)),
            **members,
        }
        _check_enabled_count([*others, group])
        services.store.save_part(caller, GROUP, group)
        services.store.touch(caller, record)
        return group

    return {"agentActionGroup": services.run_once(request, make)}


def _update(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    services.store.get_editable(caller, params["agentId"])
    members = _build_members(services, caller, params)
    agent_id, id = params["agentId"], params["actionGroupId"]
    with services.store.documents.transaction():
        record = services.store.get_editable(caller, agent_id)
        before = services.store.part(caller, GROUP, agent_id, DRAFT, id)
        unchanged = pick(before, ("agentId", "agentVersion", "actionGroupId", "createdAt"))
        unchanged |= pick(before, ("clientToken",))
        state = params.get("actionGroupState", before["actionGroupState"])
        group = {**unchanged, "updatedAt": now(), **members, "actionGroupState": state}
        others = services.store.parts(caller, GROUP, agent_id, DRAFT)
        _check_enabled_count([group, *(it for it in others if it["actionGroupId"] != id)])
        services.store.save_part(caller, GROUP, group)
        services.store.touch(caller, record)
    return {"agentActionGroup": group}


def _build_members(services: Services, caller: Caller, params: Data) -> dict[str, Any]:
    """What a group is to be, checked; blocks where its schema is in S3."""
    members = {"actionGroupState": "ENABLED", **pick(params, _GIVEN)}
    signature = params.get("parentActionGroupSignature")
    if signature is not None:
        members["parentActionSignature"] = signature
        _check_built_in(signature, members)
    else:
        _check_custom(members)
        _check_schema(services, caller, members)
    return members


def _check_built_in(signature: str, members: Data) -> None:
    names = [*_SCHEMAS, "actionGroupExecutor"]
    if signature == "AMAZON.UserInput":
        names.append("description")
    extra = next((name for name in names if name in members), None)
    if extra is not None:
        raise Fault(
            "ValidationException",
            f"an action group with the parentActionGroupSignature {signature} has no {extra}; "
            "leave it out",
        )


def _check_custom(members: Data) -> None:
    schemas = [name for name in _SCHEMAS if name in members]
    if len(schemas) != 1:
        raise Fault(
            "ValidationException",
            f"the action group {members['actionGroupName']!r} has "
            f"{'both apiSchema and functionSchema' if schemas else 'no schema'}; give either "
            "apiSchema or functionSchema",
        )
    if not members.get("actionGroupExecutor"):
        raise Fault(
            "ValidationException",
            f"the action group {members['actionGroupName']!r} has no actionGroupExecutor; give the "
            "ARN of a Lambda function, or customControl: RETURN_CONTROL",
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


def _check_enabled_count(groups: list[Any]) -> None:
    enabled = sum(it["actionGroupState"] == "ENABLED" for it in groups)
    if enabled > _MOST_ENABLED:
        raise Fault(
            "ServiceQuotaExceededException",
            f"the agent would have {enabled} enabled action groups, and the most are "
            f"{_MOST_ENABLED}; disable one first",
        )


def _get(services: Services, request: Request) -> Data:
    params = request.params
    where = (params["agentId"], params["agentVersion"], params["actionGroupId"])
    return {"agentActionGroup": services.store.part(request.caller, GROUP, *where)}


def _delete(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id, id = params["agentId"], params["actionGroupId"]
    with services.store.documents.transaction():
        record = services.store.get_editable(caller, agent_id)
        group = services.store.part(caller, GROUP, agent_id, DRAFT, id)
        in_use = group["actionGroupState"] == "ENABLED"
        if in_use and not params.get("skipResourceInUseCheck"):
            raise Fault(
                "ConflictException",
                f"the action group {id!r} is ENABLED; set its actionGroupState to DISABLED first, "
                "or set skipResourceInUseCheck",
            )
        services.store.remove_part(caller, GROUP, agent_id, id)
        services.store.touch(caller, record)
    return {}


def _list(services: Services, request: Request) -> Data:
    params = request.params
    found = services.store.parts(request.caller, GROUP, params["agentId"], params["agentVersion"])
    summaries = add_sort_keys(found, _SUMMARY)
    return build_page(summaries, request, "actionGroupSummaries")


HANDLERS: dict[str, Handling] = {
    "CreateAgentActionGroup": _create,
    "GetAgentActionGroup": _get,
    "UpdateAgentActionGroup": _update,
    "DeleteAgentActionGroup": _delete,
    "ListAgentActionGroups": _list,
}
