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
from orchestrator.server.agents.store import ASSOCIATION, COLLABORATOR, GROUP
from orchestrator.server.ids import Arns
from orchestrator.server.operations import Caller
from orchestrator.support.aws.arns import ALIAS_ARN

if TYPE_CHECKING:
    from orchestrator.actions import ActionGroup
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
    from orchestrator.server.agents.definition import DefinitionReader, DefinitionResolver

    found = DefinitionReader(world, caller)
    definition = found.read(_to_inline_members(snapshot))
    resolved = DefinitionResolver(found)
    members = resolved.resolve_members(definition)

    def compile_plan(**arguments: Any) -> Plan:
        raise AssertionError(f"agents of the API lead agents by alias, not {arguments['name']!r}")

    made = resolved.arguments(inline_agent(members, None, None, compile_plan))
    agent = Agent(
        **{
            **made,
            "features": _with_memory(made["features"], world),
            "limits": Limits(seconds=world.settings.turn_seconds),
            "sessions": world.sessions,
            "agent_id": snapshot["agent"]["agentId"],
            "alias_id": alias_id,
            "version": version,
        }
    )
    return set_alias_arn(agent, world)


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


def _with_memory(features: Features, world: ServerState) -> Features:
    if features.memory is None:
        return features
    return replace(features, memory=replace(features.memory, store=world.memory))


def set_alias_arn(agent: Agent, world: ServerState) -> Agent:
    """The agent, with the server's region and account in the ARN that traces name."""
    plan = agent.plan
    arn = Arns.of(world.settings).alias(plan.agent_id, plan.alias_id)
    if arn != plan.alias_arn:
        agent.plan = replace(plan, alias_arn=arn)
    return agent


def load_agent(world: ServerState, folder: Path) -> Agent:
    """The agent of an operator's folder, which is trusted.

    What it names of AWS, the server's own things stand for, where it has any: models, Lambda
    functions, knowledge bases and agents.

    Raises:
        OrchestratorError: It is wrong, with file, line and column.
    """
    from orchestrator.agent.from_folder import folder_agent

    def arguments(made: dict[str, Any]) -> dict[str, Any]:
        return _LocalSubstitutes(world).arguments(made)

    def compile_plan(**made: Any) -> Plan:
        return set_alias_arn(Agent(**arguments(made)), world).plan

    def model(spec: str) -> Model | None:
        return _find_model(world, spec)

    given = _find_model(world, "") if world.settings.model else None
    made = folder_agent(folder, given, world.memory, world.sessions, compile_plan, models=model)
    limits = made["limits"] or Limits(seconds=world.settings.turn_seconds)
    agent = Agent(**{**arguments(made), "limits": limits, "sessions": world.sessions})
    return set_alias_arn(agent, world)


def _find_model(world: ServerState, spec: str) -> Model | None:
    """The model that the server's operator has set for a spec."""
    try:
        return world.models.model(_NOBODY, spec)
    except (AccessDenied, ValidationError):
        return None


class _LocalSubstitutes:
    """What stands on this server for the things of AWS that a folder's agent names."""

    def __init__(self, world: ServerState) -> None:
        self.world = world

    def arguments(self, made: dict[str, Any]) -> dict[str, Any]:
        for group in made["action_groups"]:
            self._replace_executor(group)
        prompts = {
            stage: self._replace_parser(stage, one) for stage, one in made["prompts"].items()
        }
        bases = [self._replace_base(one) for one in made["knowledge_bases"]]
        features = self._replace_features(made["features"])
        return {**made, "prompts": prompts, "knowledge_bases": bases, "features": features}

    def _replace_executor(self, group: ActionGroup) -> None:
        from orchestrator.actions.lambda_arn import LambdaArn
        from orchestrator.actions.lambda_function import LambdaFunction
        from orchestrator.actions.lambda_handler import LambdaHandler

        code = None
        if isinstance(group.executor, LambdaArn):
            code = self.world.find_lambda(group.executor.arn)
        if callable(code):
            group.executor = LambdaFunction(code)
        elif code is not None:
            file, _, function = code.rpartition(":")
            group.executor = LambdaHandler(file, function)

    def _replace_parser(self, stage: str, override: Override) -> Override:
        from orchestrator.agent.overrides import override_of

        name = override.parser_name
        code = self.world.find_lambda(name) if name.startswith("arn:") else None
        if code is None:
            return override
        own = override_of(stage, {"parserMode": "OVERRIDDEN"}, code)
        return replace(override, parser=own.parser)

    def _replace_base(self, base: Any) -> Any:
        from orchestrator.knowledge import BedrockKnowledgeBase
        from orchestrator.server.runtime.knowledge_bases import AssociatedBase

        if not isinstance(base, BedrockKnowledgeBase):
            return base
        find = self.world.bases.base
        try:
            find(OPERATOR, base.id)
        except OrchestratorError:
            return base
        return AssociatedBase(base.id, base.description, lambda: find(OPERATOR, base.id), None)

    def _replace_features(self, features: Features) -> Features:
        from orchestrator.flows.custom import LambdaOrchestration

        team = [self._replace_member(one) for one in features.collaborators]
        orchestration = features.orchestration
        if isinstance(orchestration, LambdaOrchestration) and orchestration.arn:
            code = self.world.find_lambda(orchestration.arn)
            orchestration = orchestration if code is None else LambdaOrchestration(code)
        return replace(features, collaborators=team, orchestration=orchestration)

    def _replace_member(self, member: Member) -> Member:
        found = ALIAS_ARN.fullmatch(member.alias_arn) if member.remote is not None else None
        arns = Arns.of(self.world.settings)
        if found is None or (found["region"], found["account"]) != arns:
            return member
        agent = self.world.agents.resolve_alias(OPERATOR, found["agent"], found["alias"])
        return replace(member, agent=agent.plan, remote=None)
