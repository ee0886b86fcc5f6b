"""Agents that run, made of what was stored through the API or of an operator's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.agent.build import build
from orchestrator.agent.from_request import source_from_request
from orchestrator.agent.source import AgentSource, Code, Resolver
from orchestrator.engine.plan import Plan
from orchestrator.errors import AccessDenied, OrchestratorError, ValidationError
from orchestrator.limits import Limits
from orchestrator.models import Model
from orchestrator.server.agents.store import ASSOCIATION, COLLABORATOR, GROUP
from orchestrator.server.ids import Arns
from orchestrator.server.operations import Caller
from orchestrator.support.aws.clients import ALIAS_ARN

if TYPE_CHECKING:
    from orchestrator.knowledge import KnowledgeBase
    from orchestrator.server.state import ServerState

OPERATOR = Caller()
"""Whoever runs the server: agents in folders are theirs."""

_NOBODY = Caller(allow=())
_AGENT_MEMBERS = (
    *("agentName", "instruction", "foundationModel", "idleSessionTTLInSeconds"),
    *("promptOverrideConfiguration", "guardrailConfiguration", "memoryConfiguration"),
    *("agentCollaboration", "orchestrationType", "customOrchestration"),
)
_GROUP_MEMBERS = (
    *("actionGroupName", "description", "actionGroupState", "parentActionGroupSignatureParams"),
    *("apiSchema", "functionSchema", "actionGroupExecutor"),
)

Data = Mapping[str, Any]


def add_schemas(world: ServerState, caller: Caller, snapshot: dict[str, Any]) -> dict[str, Any]:
    """A snapshot, with the texts of its schemas in S3: what was prepared does not change later.

    Raises:
        OrchestratorError: A schema is not there, or cannot be read.
        Fault: The caller may not read it.
    """
    from orchestrator.server.agents.definition import DefinitionReader

    for group in snapshot["parts"][GROUP.name]:
        if "s3" in (group.get("apiSchema") or {}) and group["actionGroupState"] == "ENABLED":
            (read,) = DefinitionReader(world, caller).read({"actionGroups": [group]})[
                "actionGroups"
            ]
            snapshot["schemas"][group["actionGroupId"]] = read["apiSchema"]["payload"]
    return snapshot


def build_agent(
    world: ServerState, caller: Caller, snapshot: Data, alias_id: str, version: str
) -> Agent:
    """The agent that a snapshot describes; nothing in it is trusted.

    Args:
        world: What the server has open.
        caller: Whose agent it is.
        snapshot: What was prepared.
        alias_id: The alias that traces name.
        version: The version that traces name.

    Raises:
        OrchestratorError: It is wrong, or what it names is not there or may not be used.
        Fault: The caller may not use what it names.
    """
    from orchestrator.server.agents.definition import CallerResolver, DefinitionReader

    found = DefinitionReader(world, caller)
    definition = found.read(_to_inline_members(snapshot))
    source = source_from_request(definition, resolver=CallerResolver(found))
    return build(
        replace(
            in_server(source, world),
            memory=world.memory,
            limits=Limits(seconds=world.settings.turn_seconds),
            agent_id=snapshot["agent"]["agentId"],
            alias_id=alias_id,
            version=version,
        )
    )


def _to_inline_members(snapshot: Data) -> dict[str, Any]:
    """A snapshot as the members of an inline agent (Bedrock: InvokeInlineAgent)."""
    agent, parts = snapshot["agent"], snapshot["parts"]
    members = {name: agent[name] for name in _AGENT_MEMBERS if name in agent}
    if not agent.get("guardrailConfiguration", {}).get("guardrailIdentifier"):
        members.pop("guardrailConfiguration", None)
    members["actionGroups"] = [
        _convert_group(one, snapshot["schemas"])
        for one in parts[GROUP.name]
        if _is_enabled(one, "actionGroup")
    ]
    members["knowledgeBases"] = [
        {name: one[name] for name in ("knowledgeBaseId", "description") if name in one}
        for one in parts[ASSOCIATION.name]
        if _is_enabled(one, "knowledgeBase")
    ]
    if agent.get("agentCollaboration", "DISABLED") != "DISABLED":
        members["collaboratorConfigurations"] = [
            _convert_collaborator(one) for one in parts[COLLABORATOR.name]
        ]
    return members


def _is_enabled(part: Data, name: str) -> bool:
    return bool(part.get(f"{name}State") != "DISABLED")


def _convert_group(group: Data, schemas: Data) -> dict[str, Any]:
    made = {name: group[name] for name in _GROUP_MEMBERS if name in group}
    if "parentActionSignature" in group:
        made["parentActionGroupSignature"] = group["parentActionSignature"]
        made.pop("actionGroupExecutor", None)
    if group["actionGroupId"] in schemas:
        made["apiSchema"] = {"payload": schemas[group["actionGroupId"]]}
    return made


def _convert_collaborator(collaborator: Data) -> dict[str, Any]:
    made = {
        "collaboratorName": collaborator["collaboratorName"],
        "collaboratorInstruction": collaborator["collaborationInstruction"],
        "agentAliasArn": collaborator["agentDescriptor"].get("aliasArn"),
    }
    if "relayConversationHistory" in collaborator:
        made["relayConversationHistory"] = collaborator["relayConversationHistory"]
    return made


def in_server(source: AgentSource, world: ServerState) -> AgentSource:
    """The source of an agent that runs in this server: its sessions, region and account."""
    region, account = Arns.of(world.settings)
    return replace(source, sessions=world.sessions, region=region, account=account)


def load_agent(world: ServerState, folder: Path) -> Agent:
    """The agent of an operator's folder, which is trusted.

    What it names of AWS, the server's own things stand for, where it has any: models, Lambda
    functions, knowledge bases and agents.

    Raises:
        OrchestratorError: It is wrong, with file, line and column.
    """
    from orchestrator.agent.from_folder import source_from_folder

    model = _find_model(world, "") if world.settings.model else None
    source = source_from_folder(folder, model=model, resolver=_OperatorResolver(world))
    own = source.definition.limits
    limits = own.as_limits() if own else Limits(seconds=world.settings.turn_seconds)
    return build(replace(in_server(source, world), memory=world.memory, limits=limits))


def _find_model(world: ServerState, spec: str) -> Model | None:
    """The model that the server's operator has set for a spec."""
    try:
        return world.models.model(_NOBODY, spec)
    except (AccessDenied, ValidationError):
        return None


class _OperatorResolver(Resolver):
    """What stands on this server for the things of AWS that a folder's agent names."""

    def __init__(self, world: ServerState) -> None:
        self._world = world

    def find_model(self, spec: str) -> Model | None:
        return _find_model(self._world, spec)

    def find_function(self, arn: str) -> Code | None:
        return self._world.find_lambda(arn)

    def find_knowledge_base(
        self, id: str, description: str, configuration: Data | None
    ) -> KnowledgeBase | None:
        from orchestrator.server.knowledge_bases.caller_base import AssociatedBase

        find = self._world.bases.base
        try:
            find(OPERATOR, id)
        except OrchestratorError:
            return None
        return AssociatedBase(id, description, lambda: find(OPERATOR, id), configuration)

    def find_agent(self, alias_arn: str) -> Plan | None:
        found, arns = ALIAS_ARN.fullmatch(alias_arn), Arns.of(self._world.settings)
        if found is None or (found["region"], found["account"]) != arns:
            return None
        return self._world.agents.resolve_alias(OPERATOR, found["agent"], found["alias"]).plan
