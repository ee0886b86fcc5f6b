"""Aliases of agents, and the versions that they point to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.server.agents.store import Record
from orchestrator.server.alias_rules import check_version_unused, refuse_test_alias
from orchestrator.server.control.services import Handling, Services, build_page
from orchestrator.server.ids import DRAFT, TEST_ALIAS, new_id, now
from orchestrator.server.operations import Caller, Request, check_quota, not_found_error, pick

# Bedrock: "Associated aliases per agent".
_MOST_ALIASES = 10
# Bedrock: Version has five digits.
_MOST_VERSIONS = 99_999
_MOST_EVENTS = 10
_TEST_NAME = "AgentTestAlias"
_GIVEN = ("agentAliasName", "description", "aliasInvocationState")
_SUMMARY = (
    *("agentAliasId", "agentAliasName", "description", "routingConfiguration"),
    *("agentAliasStatus", "createdAt", "updatedAt", "aliasInvocationState"),
)
_OF_A_VERSION = (
    *("agentId", "agentName", "agentArn", "instruction", "foundationModel", "description"),
    *("idleSessionTTLInSeconds", "agentResourceRoleArn", "customerEncryptionKeyArn"),
    *("createdAt", "updatedAt", "promptOverrideConfiguration", "guardrailConfiguration"),
    *("memoryConfiguration", "agentCollaboration"),
)

Data = Mapping[str, Any]


def _create_alias(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id = params["agentId"]

    def make() -> Data:
        record = services.store.get_editable(caller, agent_id)
        count = len(services.store.aliases(caller, agent_id))
        check_quota(count, _MOST_ALIASES, "aliases of the agent")
        routing = _resolve_routing(services, caller, record, params)
        alias = {
            **_build_alias(services, agent_id, new_id(), routing, now()),
            **pick(params, (*_GIVEN, "clientToken")),
        }
        services.store.save_alias(caller, alias)
        services.tags.put(caller, alias["agentAliasArn"], params.get("tags"))
        return alias

    return {
        "agentAlias": {
            **services.store.documents.run_once(request, make),
            "agentAliasStatus": "CREATING",
        }
    }


def _resolve_routing(
    services: Services, caller: Caller, record: Record, params: Data
) -> list[dict[str, Any]]:
    """Where an alias is to point: to the version in the request, or to a new one."""
    members = params.get("routingConfiguration")
    if not members or not members[0].get("agentVersion"):
        extra = dict(members[0]) if members else {}
        return [{**extra, "agentVersion": _create_version(services, caller, record)}]
    version = members[0]["agentVersion"]
    if version == DRAFT:
        raise ValidationError(
            f"an alias points to a numbered version; {DRAFT} is invoked with the alias "
            f"{TEST_ALIAS}. Leave routingConfiguration out to make a version of what was prepared"
        )
    services.store.version(caller, record.agent["agentId"], version)
    return [dict(members[0])]


def _create_version(services: Services, caller: Caller, record: Record) -> str:
    agent_id = record.agent["agentId"]
    snapshot = services.store.snapshot(caller, agent_id, DRAFT)
    if snapshot is None:
        raise ValidationError(
            f"no version can be made of the agent {agent_id!r}, which was never prepared; call "
            "PrepareAgent first"
        )
    check_quota(record.latest, _MOST_VERSIONS, "versions of the agent")
    return services.store.create_version(caller, record, snapshot)


def _update_alias(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id, id = params["agentId"], params["agentAliasId"]
    with services.store.documents.transaction():
        record = services.store.get_editable(caller, agent_id)
        refuse_test_alias(id, "agent")
        alias = _find_alias(services, caller, agent_id, id)
        routing, at = _resolve_routing(services, caller, record, params), now()
        alias.pop("description", None)
        alias |= {**pick(params, _GIVEN), "routingConfiguration": routing, "updatedAt": at}
        events = alias["agentAliasHistoryEvents"]
        alias["agentAliasHistoryEvents"] = _extend_history(events, routing, at)
        services.store.save_alias(caller, alias)
    return {"agentAlias": {**alias, "agentAliasStatus": "UPDATING"}}


def _extend_history(events: list[Any], routing: list[Any], at: datetime) -> list[Any]:
    if events[-1]["routingConfiguration"] == routing:
        return events
    ended = {**events[-1], "endDate": at}
    now_on = {"routingConfiguration": routing, "startDate": at}
    return [*events[:-1], ended, now_on][-_MOST_EVENTS:]


def _find_alias(services: Services, caller: Caller, agent_id: str, id: str) -> dict[str, Any]:
    found = services.store.alias(caller, agent_id, id)
    if found is None:
        raise not_found_error(f"alias of the agent {agent_id!r}", id)
    return found


def _build_alias(
    services: Services, agent_id: str, id: str, routing: list[dict[str, Any]], at: datetime
) -> dict[str, Any]:
    return {
        "agentId": agent_id,
        "agentAliasId": id,
        "agentAliasArn": services.store.arns.alias(agent_id, id),
        "agentAliasStatus": "PREPARED",
        "aliasInvocationState": "ACCEPT_INVOCATIONS",
        "routingConfiguration": routing,
        "agentAliasHistoryEvents": [{"routingConfiguration": routing, "startDate": at}],
        "createdAt": at,
        "updatedAt": at,
    }


def _build_draft_aliases(services: Services, record: Record) -> dict[str, dict[str, Any]]:
    """The aliases of `DRAFT` by their ids: the one of every agent, and those of a folder."""
    agent, routing = record.agent, [{"agentVersion": DRAFT}]
    names = {TEST_ALIAS: _TEST_NAME, **(record.folder.aliases if record.folder else {})}
    return {
        id: {
            **_build_alias(services, agent["agentId"], id, routing, agent["createdAt"]),
            "agentAliasName": name,
            "updatedAt": agent["updatedAt"],
        }
        for id, name in names.items()
    }


def _get_alias(services: Services, request: Request) -> Data:
    agent_id, id = request.params["agentId"], request.params["agentAliasId"]
    drafts = _build_draft_aliases(services, services.store.agent(request.caller, agent_id))
    return {"agentAlias": drafts.get(id) or _find_alias(services, request.caller, agent_id, id)}


def _delete_alias(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id, id = params["agentId"], params["agentAliasId"]
    with services.store.documents.transaction():
        services.store.get_editable(caller, agent_id)
        refuse_test_alias(id, "agent")
        alias = _find_alias(services, caller, agent_id, id)
        services.tags.forget(caller, alias["agentAliasArn"])
        services.store.remove_alias(caller, agent_id, id)
        services.cleanup.note(caller, agent_id, id)
    services.cleanup.start()
    return {"agentId": agent_id, "agentAliasId": id, "agentAliasStatus": "DELETING"}


def _list_aliases(services: Services, request: Request) -> Data:
    caller, agent_id = request.caller, request.params["agentId"]
    record = services.store.agent(caller, agent_id)
    drafts = _build_draft_aliases(services, record)
    found = [((0, 0.0, ""), pick(drafts.pop(TEST_ALIAS), _SUMMARY))]
    found += [
        ((1, it["createdAt"].timestamp(), it["agentAliasId"]), pick(it, _SUMMARY))
        for it in (*drafts.values(), *services.store.aliases(caller, agent_id))
    ]
    return build_page(found, request, "agentAliasSummaries")


def _get_version(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    found = services.store.version(caller, params["agentId"], params["agentVersion"])
    version = pick(services.prompts.add_defaults(caller, found), _OF_A_VERSION)
    version |= {"version": found["agentVersion"], "agentStatus": "PREPARED"}
    return {"agentVersion": version}


def _delete_version(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    agent_id, version = params["agentId"], params["agentVersion"]
    with services.store.documents.transaction():
        services.store.get_editable(caller, agent_id)
        services.store.version(caller, agent_id, version)
        used = [
            it["agentAliasId"]
            for it in services.store.aliases(caller, agent_id)
            if it["routingConfiguration"][0].get("agentVersion") == version
        ]
        check_version_unused(version, f"the agent {agent_id!r}", used, params)
        services.store.remove_version(caller, agent_id, version)
    return {"agentId": agent_id, "agentVersion": version, "agentStatus": "DELETING"}


def _list_versions(services: Services, request: Request) -> Data:
    found = services.store.versions(request.caller, request.params["agentId"])
    names = ("agentName", "agentVersion", "createdAt", "updatedAt", "description")
    summaries = [
        (
            (0 if it["agentVersion"] == DRAFT else int(it["agentVersion"]),),
            {
                "agentStatus": "PREPARED",
                **pick(it, ("agentStatus", *names, "guardrailConfiguration")),
            },
        )
        for it in found
    ]
    return build_page(summaries, request, "agentVersionSummaries")


HANDLERS: dict[str, Handling] = {
    "CreateAgentAlias": _create_alias,
    "GetAgentAlias": _get_alias,
    "UpdateAgentAlias": _update_alias,
    "DeleteAgentAlias": _delete_alias,
    "ListAgentAliases": _list_aliases,
    "GetAgentVersion": _get_version,
    "DeleteAgentVersion": _delete_version,
    "ListAgentVersions": _list_versions,
}
