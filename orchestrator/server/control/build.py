"""Agents that run, made of what was stored through the API or of an operator's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.agent.from_request import inline_agent
from orchestrator.engine.plan import Features, Member, Override, Plan
from orchestrator.errors import AccessDenied, OrchestratorError, ValidationError
from orchestrator.limits import Limits
from orchestrator.models import Model
from orchestrator.server.control.ids import ALIAS_ARN, Arns
from orchestrator.server.control.store import ASSOCIATION, COLLABORATOR, GROUP
from orchestrator.server.operations import Caller

if TYPE_CHECKING:
    from orchestrator.actions import ActionGroup
    from orchestrator.server.world import World

__all__ = ["OPERATOR", "built", "loaded", "placed", "with_schemas"]

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


def with_schemas(world: World, caller: Caller, snapshot: dict[str, Any]) -> dict[str, Any]:
    """A snapshot, with the texts of its schemas in S3: what was prepared does not change later.

    Raises:
        OrchestratorError: A schema is not there, or cannot be read.
        Fault: The caller may not read it.
    """
    from orchestrator.server.runtime.definition import Found

    for group in snapshot["parts"][GROUP.name]:
        if "s3" in (group.get("apiSchema") or {}) and group["actionGroupState"] == "ENABLED":
            (read,) = Found(world, caller).read({"actionGroups": [group]})["actionGroups"]
            snapshot["schemas"][group["actionGroupId"]] = read["apiSchema"]["payload"]
    return snapshot


def built(world: World, caller: Caller, snapshot: Data, alias_id: str, version: str) -> Agent:
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
    from orchestrator.server.runtime.definition import Found, Resolved

    found = Found(world, caller)
    definition = found.read(_members(snapshot))
    resolved = Resolved(found)
    members = resolved.objects(definition)

    def compiled(**arguments: Any) -> Plan:
        raise AssertionError(f"agents of the API lead agents by alias, not {arguments['name']!r}")

    made = resolved.arguments(inline_agent(members, None, None, compiled))
    agent = Agent(
        **{
            **made,
            "features": _remembering(made["features"], world),
            "limits": Limits(seconds=world.settings.turn_seconds),
            "sessions": world.sessions,
            "agent_id": snapshot["agent"]["agentId"],
            "alias_id": alias_id,
            "version": version,
        }
    )
    return placed(agent, world)


def _members(snapshot: Data) -> dict[str, Any]:
    """A snapshot as the members of an inline agent (Bedrock: InvokeInlineAgent)."""
    agent, parts = snapshot["agent"], snapshot["parts"]
    members = {name: agent[name] for name in _AGENT_MEMBERS if name in agent}
    if not agent.get("guardrailConfiguration", {}).get("guardrailIdentifier"):
        members.pop("guardrailConfiguration", None)
    members["actionGroups"] = [
        _group(one, snapshot["schemas"])
        for one in parts[GROUP.name]
        if _enabled(one, "actionGroup")
    ]
    members["knowledgeBases"] = [
        {name: one[name] for name in ("knowledgeBaseId", "description") if name in one}
        for one in parts[ASSOCIATION.name]
        if _enabled(one, "knowledgeBase")
    ]
    if agent.get("agentCollaboration", "DISABLED") != "DISABLED":
        members["collaboratorConfigurations"] = [_led(one) for one in parts[COLLABORATOR.name]]
    return members


def _enabled(part: Data, name: str) -> bool:
    return bool(part.get(f"{name}State") != "DISABLED")


def _group(group: Data, schemas: Data) -> dict[str, Any]:
    made = {name: group[name] for name in _GROUP_MEMBERS if name in group}
    if "parentActionSignature" in group:
        made["parentActionGroupSignature"] = group["parentActionSignature"]
        made.pop("actionGroupExecutor", None)
    if group["actionGroupId"] in schemas:
        made["apiSchema"] = {"payload": schemas[group["actionGroupId"]]}
    return made


def _led(collaborator: Data) -> dict[str, Any]:
    made = {
        "collaboratorName": collaborator["collaboratorName"],
        "collaboratorInstruction": collaborator["collaborationInstruction"],
        "agentAliasArn": collaborator["agentDescriptor"].get("aliasArn"),
    }
    if "relayConversationHistory" in collaborator:
        made["relayConversationHistory"] = collaborator["relayConversationHistory"]
    return made


def _remembering(features: Features, world: World) -> Features:
    if features.memory is None:
        return features
    return replace(features, memory=replace(features.memory, store=world.memory))


def placed(agent: Agent, world: World) -> Agent:
    """The agent, with the server's region and account in the ARN that traces name."""
    plan = agent.plan
    arn = Arns.of(world.settings).alias(plan.agent_id, plan.alias_id)
    if arn != plan.alias_arn:
        agent.plan = replace(plan, alias_arn=arn)
    return agent


def loaded(world: World, folder: Path) -> Agent:
    """The agent of an operator's folder, which is trusted.

    What it names of AWS, the server's own things stand for, where it has any: models, Lambda
    functions, knowledge bases and agents.

    Raises:
        OrchestratorError: It is wrong, with file, line and column.
    """
    from orchestrator.agent.from_folder import folder_agent

    def arguments(made: dict[str, Any]) -> dict[str, Any]:
        return _Standing(world).arguments(made)

    def compiled(**made: Any) -> Plan:
        return placed(Agent(**arguments(made)), world).plan

    def model(spec: str) -> Model | None:
        return _configured(world, spec)

    given = _configured(world, "") if world.settings.model else None
    made = folder_agent(folder, given, world.memory, world.sessions, compiled, models=model)
    limits = made["limits"] or Limits(seconds=world.settings.turn_seconds)
    agent = Agent(**{**arguments(made), "limits": limits, "sessions": world.sessions})
    return placed(agent, world)


def _configured(world: World, spec: str) -> Model | None:
    """The model that the server's operator has set for a spec."""
    try:
        return world.models.model(_NOBODY, spec)
    except (AccessDenied, ValidationError):
        return None


class _Standing:
    """What stands on this server for the things of AWS that a folder's agent names."""

    def __init__(self, world: World) -> None:
        self.world = world

    def arguments(self, made: dict[str, Any]) -> dict[str, Any]:
        for group in made["action_groups"]:
            self._group(group)
        prompts = {stage: self._parsed(stage, one) for stage, one in made["prompts"].items()}
        bases = [self._base(one) for one in made["knowledge_bases"]]
        features = self._features(made["features"])
        return {**made, "prompts": prompts, "knowledge_bases": bases, "features": features}

    def _group(self, group: ActionGroup) -> None:
        from orchestrator.actions.lambda_arn import LambdaArn
        from orchestrator.actions.lambda_function import LambdaFunction
        from orchestrator.actions.lambda_handler import LambdaHandler

        code = None
        if isinstance(group.executor, LambdaArn):
            code = self.world.lambda_for(group.executor.arn)
        if callable(code):
            group.executor = LambdaFunction(code)
        elif code is not None:
            file, _, function = code.rpartition(":")
            group.executor = LambdaHandler(file, function)

    def _parsed(self, stage: str, override: Override) -> Override:
        from orchestrator.agent.overrides import override_of

        name = override.parser_name
        code = self.world.lambda_for(name) if name.startswith("arn:") else None
        if code is None:
            return override
        own = override_of(stage, {"parserMode": "OVERRIDDEN"}, code)
        return replace(override, parser=own.parser)

    def _base(self, base: Any) -> Any:
        from orchestrator.knowledge import BedrockKnowledgeBase
        from orchestrator.server.runtime.bases import AssociatedBase

        if not isinstance(base, BedrockKnowledgeBase):
            return base
        find = self.world.bases.base
        try:
            find(OPERATOR, base.id)
        except OrchestratorError:
            return base
        return AssociatedBase(base.id, base.description, lambda: find(OPERATOR, base.id), None)

    def _features(self, features: Features) -> Features:
        from orchestrator.flows.custom import LambdaOrchestration

        team = [self._member(one) for one in features.collaborators]
        orchestration = features.orchestration
        if isinstance(orchestration, LambdaOrchestration) and orchestration.arn:
            code = self.world.lambda_for(orchestration.arn)
            orchestration = orchestration if code is None else LambdaOrchestration(code)
        return replace(features, collaborators=team, orchestration=orchestration)

    def _member(self, member: Member) -> Member:
        found = ALIAS_ARN.fullmatch(member.alias_arn) if member.remote is not None else None
        arns = Arns.of(self.world.settings)
        if found is None or (found["region"], found["account"]) != arns:
            return member
        agent = self.world.agents.running(OPERATOR, found["agent"], found["alias"])
        return replace(member, agent=agent.plan, remote=None)
