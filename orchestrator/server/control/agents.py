"""Agents: CreateAgent, GetAgent, UpdateAgent, DeleteAgent, ListAgents and PrepareAgent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.errors import OrchestratorError, ValidationError
from orchestrator.server.agents.build import add_schemas
from orchestrator.server.agents.kinds import ASSOCIATION, COLLABORATOR
from orchestrator.server.agents.store import AGENT, Record, build_head
from orchestrator.server.agents.to_api import IDLE_SECONDS
from orchestrator.server.alias_rules import check_unused
from orchestrator.server.control.services import Handling, Services, build_page
from orchestrator.server.ids import DRAFT, TEST_ALIAS, new_id, now
from orchestrator.server.operations import Caller, Fault, Request, check_quota, pick

# Bedrock: "Agents per account".
_MOST_AGENTS = 200
_GIVEN = (
    *("agentName", "instruction", "foundationModel", "description", "orchestrationType"),
    *("customOrchestration", "idleSessionTTLInSeconds", "agentResourceRoleArn"),
    *("customerEncryptionKeyArn", "guardrailConfiguration", "memoryConfiguration"),
    *("agentCollaboration", "promptOverrideConfiguration"),
)
_PASSING = ("agentStatus", "updatedAt", "preparedAt", "failureReasons", "clientToken")
"""Members that change without the agent being another."""

Data = Mapping[str, Any]


def _create(services: Services, request: Request) -> Data:
    caller, params = request.caller, request.params
    members = _build_members(services, caller, params)

    def make() -> Data:
        count = services.store.documents.count(caller.tenant, AGENT)
        check_quota(count, _MOST_AGENTS, "agents")
        id, at = new_id(), now()
        agent = {
            "agentId": id,
            "agentArn": services.store.arns.agent(id),
            "agentVersion": DRAFT,
            "agentStatus": "NOT_PREPARED",
            "createdAt": at,
            "updatedAt": at,
            **pick(params, ("clientToken",)),
            **members,
        }
        services.store.save(caller, Record(agent))
        services.tags.put(caller, agent["agentArn"], params.get("tags"))
        return agent

    agent = services.store.documents.run_once(request, make)
    return {"agent": services.prompts.add_defaults(caller, {**agent, "agentStatus": "CREATING"})}


def _build_members(services: Services, caller: Caller, params: Data) -> dict[str, Any]:
    """What an agent is to be, with AWS's defaults."""
    members = {
        "idleSessionTTLInSeconds": IDLE_SECONDS,
        "agentResourceRoleArn": services.store.arns.role(),
        "orchestrationType": "DEFAULT",
        "agentCollaboration": "DISABLED",
        **pick(params, _GIVEN),
    }
    prompts = services.prompts.read(caller, members)
    members.pop("promptOverrideConfiguration", None)
    if prompts is not None:
        members["promptOverrideConfiguration"] = prompts
    _check_orchestration(members)
    _check_guardrail(members)
    return members


def _check_orchestration(members: Data) -> None:
    executor = (members.get("customOrchestration") or {}).get("executor") or {}
    if members["orchestrationType"] == "CUSTOM_ORCHESTRATION" and not executor.get("lambda"):
        raise ValidationError(
            "the orchestrationType is CUSTOM_ORCHESTRATION and customOrchestration has no "
            "executor; give the ARN of a Lambda function"
        )


def _check_guardrail(members: dict[str, Any]) -> None:
    guardrail = members.get("guardrailConfiguration")
    if guardrail is None:
        return
    # AWS: an empty identifier takes the guardrail away.
    if not guardrail.get("guardrailIdentifier"):
        del members["guardrailConfiguration"]
    elif not guardrail.get("guardrailVersion"):
        raise ValidationError(
            "the guardrailConfiguration has no guardrailVersion; give a number, or DRAFT"
        )


def _get(services: Services, request: Request) -> Data:
    record = services.store.agent(request.caller, request.params["agentId"])
    if record.folder is not None:
        return {"agent": record.agent}
    agent = services.prompts.add_defaults(request.caller, record.agent)
    if now().timestamp() < record.preparing_until:
        agent = {**agent, "agentStatus": "PREPARING"}
    return {"agent": agent}


def _update(services: Services, request: Request) -> Data:
    caller = request.caller
    services.store.get_editable(caller, request.params["agentId"])
    members = _build_members(services, caller, request.params)
    with services.edit_draft(request) as record:
        unchanged = {name: it for name, it in record.agent.items() if name not in _GIVEN}
        record.agent = {**unchanged, **members}
    return {
        "agent": services.prompts.add_defaults(caller, {**record.agent, "agentStatus": "UPDATING"})
    }


def _delete(services: Services, request: Request) -> Data:
    caller, id = request.caller, request.params["agentId"]
    with services.store.documents.transaction():
        services.store.get_editable(caller, id)
        aliases = services.store.aliases(caller, id)
        check_unused(f"the agent {id!r}", len(aliases), request.params)
        for alias in aliases:
            services.tags.forget(caller, alias["agentAliasArn"])
        for alias_id in (TEST_ALIAS, *(it["agentAliasId"] for it in aliases)):
            services.cleanup.note(caller, id, alias_id)
        services.tags.forget(caller, services.store.arns.agent(id))
        services.store.remove(caller, id)
    services.agents.forget(caller, id)
    services.cleanup.start()
    return {"agentId": id, "agentStatus": "DELETING"}


def _list(services: Services, request: Request) -> Data:
    summaries = [(key, _summarize(record)) for key, record in services.store.agents(request.caller)]
    return build_page(summaries, request, "agentSummaries")


def _summarize(record: Record) -> Data:
    names = ("agentId", "agentName", "agentStatus", "updatedAt")
    return {
        **pick(record.agent, (*names, "description", "guardrailConfiguration")),
        "latestAgentVersion": str(record.latest) if record.latest else DRAFT,
    }


def _prepare(services: Services, request: Request) -> Data:
    caller, id = request.caller, request.params["agentId"]
    if services.store.folders.find(id) is not None:
        return _prepare_folder(services, caller, id)
    snapshot = _read_draft(services, caller, id)
    _check_ready(snapshot)
    edited = build_head(snapshot).digest
    failure = _find_failure(services, caller, snapshot)
    at = now()
    with services.store.documents.transaction():
        record = services.store.get_editable(caller, id)
        if not failure:
            services.store.save_snapshot(caller, id, DRAFT, snapshot)
            record.agent["preparedAt"] = at
        # An edit meanwhile means that it has to be prepared again.
        if build_head(_read_draft(services, caller, id)).digest == edited:
            record.agent["agentStatus"] = "FAILED" if failure else "PREPARED"
            record.agent.pop("failureReasons", None)
            if failure:
                record.agent["failureReasons"] = [failure[:2048]]
        record.preparing_until = at.timestamp() + services.store.preparing_seconds
        services.store.save(caller, record)
    return {"agentId": id, "agentStatus": "PREPARING", "agentVersion": DRAFT, "preparedAt": at}


def _prepare_folder(services: Services, caller: Caller, id: str) -> Data:
    """Reads a folder's agent again; GetAgent shows the outcome."""
    services.store.folders.refresh(anew=id)
    agent = services.store.agent(caller, id).agent
    at = agent.get("preparedAt") or agent["updatedAt"]
    return {"agentId": id, "agentStatus": "PREPARING", "agentVersion": DRAFT, "preparedAt": at}


def _read_draft(services: Services, caller: Caller, id: str) -> dict[str, Any]:
    """A snapshot of what `DRAFT` is, without what passes."""
    snapshot = services.store.snapshot_of_draft(caller, id)
    for name in _PASSING:
        snapshot["agent"].pop(name, None)
    return snapshot


def _check_ready(snapshot: Data) -> None:
    """Refuses what cannot be prepared, as AWS does at once."""
    agent = snapshot["agent"]
    for member, what in (("instruction", "instruction"), ("foundationModel", "foundation model")):
        if not agent.get(member):
            raise ValidationError(
                f"the agent {agent['agentId']!r} has no {what}; set {member} with UpdateAgent"
            )
    leads = agent["agentCollaboration"] != "DISABLED"
    if leads and not snapshot["parts"][COLLABORATOR.name]:
        raise ValidationError(
            f"the agent {agent['agentId']!r} cannot be prepared: its agentCollaboration is "
            f"{agent['agentCollaboration']} and it has no collaborators; associate one first"
        )


def _find_failure(services: Services, caller: Caller, snapshot: dict[str, Any]) -> str:
    """Why a snapshot cannot run; empty when it can."""
    try:
        add_schemas(services.agents.resources, caller, snapshot)
        # Agents find knowledge bases when they search: here it is seen that they are there.
        for one in snapshot["parts"][ASSOCIATION.name]:
            if one["knowledgeBaseState"] != "DISABLED":
                services.agents.resources.bases.base(caller, one["knowledgeBaseId"])
        services.agents.check(caller, snapshot)
    except (OrchestratorError, Fault) as error:
        return services.agents.resources.redactor.redact(error.message)
    return ""


HANDLERS: dict[str, Handling] = {
    "CreateAgent": _create,
    "GetAgent": _get,
    "UpdateAgent": _update,
    "DeleteAgent": _delete,
    "ListAgents": _list,
    "PrepareAgent": _prepare,
}
