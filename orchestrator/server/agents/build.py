"""Agents that run: built from what was stored through the API, a call, or an operator's folder.

The definition of a caller is read in two steps. `DefinitionReader` makes plain data of it, by which
a later call recognises the same agent; `_CallerResolver` finds what its names mean: on this server
first, then in AWS if the caller may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.actions.openapi import MOST_LENGTH
from orchestrator.agent.agent import Agent
from orchestrator.agent.build import build, source_from_folder
from orchestrator.agent.from_request import source_from_request
from orchestrator.agent.source import AgentSource, Code, Resolver
from orchestrator.engine.plan import MOST_LEVELS, Plan
from orchestrator.errors import AccessDenied, OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.guardrails import Guardrail
from orchestrator.knowledge import KnowledgeBase
from orchestrator.limits import Limits
from orchestrator.memory import MemoryStore
from orchestrator.models import Model
from orchestrator.prompts.appended_tools import APPENDED_TOOLS
from orchestrator.server.access.permissions import check_access, check_retrieval
from orchestrator.server.agents.kinds import ASSOCIATION, COLLABORATOR, GROUP
from orchestrator.server.buckets import read_uri
from orchestrator.server.guardrails.store import GuardrailStore
from orchestrator.server.ids import Arns
from orchestrator.server.inference.models import Models
from orchestrator.server.knowledge_bases.service import KnowledgeBaseService
from orchestrator.server.lambdas import Lambdas
from orchestrator.server.operations import Caller, pick
from orchestrator.server.path_redaction import PathRedactor
from orchestrator.server.settings import Settings
from orchestrator.sessions import Sessions
from orchestrator.support.aws.clients import ALIAS_ARN
from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.server")

OPERATOR = Caller()
"""Whoever runs the server: agents in folders are theirs."""

# Models that the operator has mapped answer even for those who may use nothing.
_NOBODY = Caller(allow=())
# How many agents lead to the one that is being read: they are read one within the other.
_LEVEL: ContextVar[int] = ContextVar("level_of_agents", default=1)
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


@dataclass(slots=True)
class AgentResources:
    """What the names in definitions mean on this server, and what all of its agents share."""

    settings: Settings
    models: Models  # models by the ids that definitions name
    lambdas: Lambdas  # the code that stands for Lambda functions
    bases: KnowledgeBaseService
    guardrails: GuardrailStore
    sessions: Sessions  # the conversations of all agents
    memory: MemoryStore  # what agents remember of their users
    redactor: PathRedactor  # removes the server's folders from what callers read
    # Finds the agent of a caller by its id and that of its alias; `Agents` sets it
    find_agent: Callable[[Caller, str, str], Agent] = field(init=False)

    @property
    def arns(self) -> Arns:
        """The ARNs of the server's things."""
        return Arns.of(self.settings)

    @property
    def limits(self) -> Limits:
        """The limits of agents that set none."""
        return Limits(seconds=self.settings.turn_seconds)

    def find_collaborator(self, caller: Caller, alias_arn: str) -> Plan | None:
        """The plan of an agent of this server; `None` for an agent of AWS.

        Raises:
            OrchestratorError: It is not there, or it is wrong.
        """
        found = ALIAS_ARN.fullmatch(alias_arn)
        if found is None or found.group("region", "account") != self.arns:
            return None
        agent = self.find_agent(caller, found["agent"], found["alias"])
        return agent.for_tenant(caller.tenant).plan

    def read_schema(self, caller: Caller, bucket: str, key: str) -> str:
        """The text of an API schema in a bucket.

        Raises:
            AccessDenied: The caller may not have it read.
            ResourceNotFound: It is not in the folder that stands for the bucket.
            DependencyFailed: It could not be read.
            ValidationError: It is too large, or is no UTF-8 text.
        """
        uri = f"s3://{bucket}/{key}"
        content = read_uri(uri, caller, self.settings.buckets, MOST_LENGTH)
        if len(content) > MOST_LENGTH:
            raise ValidationError(f"the schema {uri!r} has more than {MOST_LENGTH} bytes")
        try:
            return str(content, "utf-8-sig")
        except UnicodeDecodeError:
            raise ValidationError(f"the schema {uri!r} is not UTF-8 text") from None

    def in_server(self, source: AgentSource) -> AgentSource:
        """The source of an agent that runs in this server: its sessions, region and account."""
        region, account = self.arns
        return replace(source, sessions=self.sessions, region=region, account=account)


class DefinitionReader:
    """Reads what a caller's definition names and does not hold itself."""

    def __init__(self, resources: AgentResources, caller: Caller) -> None:
        self.resources = resources
        self.caller = caller
        # Of the agents of this server that it leads, by their ARNs.
        self.digests: dict[str, str] = {}
        self.plans: dict[str, Plan] = {}

    def read(self, definition: Data) -> dict[str, Any]:
        """The definition with the schemas in it that are in S3; finds the agents that it leads.

        Raises:
            AccessDenied: The caller may not use what it names.
            ResourceNotFound: A schema, or an agent that it leads, is not there.
            DependencyFailed: A schema could not be read.
        """
        members = dict(definition)
        if "actionGroups" in members:
            members["actionGroups"] = [self.read_group(one) for one in members["actionGroups"]]
        if "collaborators" in members:
            members["collaborators"] = [self.read(one) for one in members["collaborators"]]
        for one in members.get("collaboratorConfigurations", ()):
            if arn := one.get("agentAliasArn"):
                self._add_collaborator(arn)
        return members

    def to_source(self, definition: Data) -> AgentSource:
        """The source of the agent that a definition, which was read, describes."""
        source = source_from_request(definition, resolver=_CallerResolver(self))
        return replace(self.resources.in_server(source), limits=self.resources.limits)

    def read_group(self, group: Data) -> Data:
        """An action group, whose schema in S3 is read."""
        schema = group.get("apiSchema") or {}
        place = schema.get("s3")
        if not place:
            # It would be refused later too, but only after everything else was read.
            if len(schema.get("payload") or "") > MOST_LENGTH:
                name = group.get("actionGroupName")
                raise ValidationError(
                    f"the schema of the action group {name!r} has more than "
                    f"{MOST_LENGTH:,} characters"
                )
            return group
        bucket, key = str(place.get("s3BucketName")), str(place.get("s3ObjectKey"))
        text = self.resources.read_schema(self.caller, bucket, key)
        return {**group, "apiSchema": {"payload": text}}

    def _add_collaborator(self, arn: str) -> None:
        level = _LEVEL.get()
        if level > MOST_LEVELS:
            raise ValidationError(
                f"the agents that lead {arn!r} lead each other in a circle, or are more than "
                f"{MOST_LEVELS} levels"
            )
        token = _LEVEL.set(level + 1)
        try:
            plan = self.resources.find_collaborator(self.caller, arn)
        finally:
            _LEVEL.reset(token)
        if plan is None:
            check_access(self.caller, arn)
        else:
            self.plans[arn], self.digests[arn] = plan, plan.digest


class _CallerResolver(Resolver):
    """Finds what the names in a caller's definition mean, as far as the caller may use it."""

    decides_models = True

    def __init__(self, reader: DefinitionReader) -> None:
        self._plans = reader.plans
        self._resources, self._caller = reader.resources, reader.caller

    def find_model(self, spec: str) -> Model:
        return self._resources.models.model(self._caller, spec)

    def find_function(self, arn: str) -> Code | None:
        check_access(self._caller, arn)
        return self._resources.lambdas.find(arn)

    def find_knowledge_base(
        self, id: str, description: str, configuration: Data | None
    ) -> KnowledgeBase | None:
        check_retrieval(self._caller, configuration)
        try:
            return self._resources.bases.base(self._caller, id, description, configuration)
        except ResourceNotFound:
            check_access(self._caller, id)
            return None

    def find_guardrail(self, id: str, version: str) -> Guardrail:
        return self._resources.guardrails.guardrail(self._caller, id, version)

    def find_agent(self, alias_arn: str) -> Plan | None:
        return self._plans.get(alias_arn)


class _OperatorResolver(Resolver):
    """Finds what stands on this server for the things of AWS that a folder's agent names."""

    def __init__(self, resources: AgentResources) -> None:
        self._resources = resources

    def find_model(self, spec: str) -> Model | None:
        try:
            return self._resources.models.model(_NOBODY, spec)
        except (AccessDenied, ValidationError):
            return None

    def find_function(self, arn: str) -> Code | None:
        return self._resources.lambdas.find(arn)

    def find_schema(self, bucket: str, key: str) -> str | None:
        if bucket not in self._resources.settings.buckets:
            return None
        return self._resources.read_schema(OPERATOR, bucket, key)

    def find_knowledge_base(
        self, id: str, description: str, configuration: Data | None
    ) -> KnowledgeBase | None:
        try:
            return self._resources.bases.base(OPERATOR, id, description, configuration)
        except OrchestratorError:
            return None

    def find_guardrail(self, id: str, version: str) -> Guardrail:
        return self._resources.guardrails.guardrail(OPERATOR, id, version)

    def find_agent(self, alias_arn: str) -> Plan | None:
        return self._resources.find_collaborator(OPERATOR, alias_arn)


def build_folder_agent(resources: AgentResources, folder: Path) -> Agent:
    """The agent of an operator's folder, which is trusted.

    Raises:
        OrchestratorError: It is wrong, with file, line and column.
    """
    resolver = _OperatorResolver(resources)
    model = resolver.find_model("") if resources.settings.model else None
    source = source_from_folder(folder, model=model, resolver=resolver)
    own = source.definition.limits
    limits = own.as_limits() if own else resources.limits
    source = replace(resources.in_server(source), memory=resources.memory, limits=limits)
    return _log_appended_tools(build(source))


def build_agent(
    resources: AgentResources, caller: Caller, snapshot: Data, alias_id: str, version: str
) -> Agent:
    """The agent that a snapshot describes; nothing in it is trusted.

    Raises:
        OrchestratorError: It is wrong, or what it names is not there or may not be used.
    """
    reader = DefinitionReader(resources, caller)
    source = reader.to_source(reader.read(_to_inline_members(snapshot)))
    source = replace(
        source,
        memory=resources.memory,
        agent_id=snapshot["agent"]["agentId"],
        alias_id=alias_id,
        version=version,
    )
    return _log_appended_tools(build(source))


def _log_appended_tools(agent: Agent) -> Agent:
    """Says in the log that a prompt is another one than its author wrote."""
    for finding in agent.diagnostics:
        if finding.code == APPENDED_TOOLS:
            _log.warning("agent %r: %s", agent.name, finding.message)
    return agent


def add_schemas(resources: AgentResources, caller: Caller, snapshot: dict[str, Any]) -> None:
    """Adds the texts of schemas in S3 to a snapshot: what was prepared does not change later.

    Raises:
        OrchestratorError: A schema is not there, cannot be read, or the caller may not read it.
    """
    reader = DefinitionReader(resources, caller)
    for group in snapshot["parts"][GROUP.name]:
        if "s3" in (group.get("apiSchema") or {}) and group["actionGroupState"] == "ENABLED":
            schema = reader.read_group(group)["apiSchema"]["payload"]
            snapshot["schemas"][group["actionGroupId"]] = schema


def _to_inline_members(snapshot: Data) -> dict[str, Any]:
    """A snapshot as the members of an inline agent (Bedrock: InvokeInlineAgent)."""
    agent, parts = snapshot["agent"], snapshot["parts"]
    members = pick(agent, _AGENT_MEMBERS)
    if not agent.get("guardrailConfiguration", {}).get("guardrailIdentifier"):
        members.pop("guardrailConfiguration", None)
    members["actionGroups"] = [
        _convert_group(one, snapshot["schemas"])
        for one in parts[GROUP.name]
        if one.get("actionGroupState") != "DISABLED"
    ]
    members["knowledgeBases"] = [
        pick(one, ("knowledgeBaseId", "description"))
        for one in parts[ASSOCIATION.name]
        if one.get("knowledgeBaseState") != "DISABLED"
    ]
    if agent.get("agentCollaboration", "DISABLED") != "DISABLED":
        members["collaboratorConfigurations"] = [
            _convert_collaborator(one) for one in parts[COLLABORATOR.name]
        ]
    return members


def _convert_group(group: Data, schemas: Data) -> dict[str, Any]:
    members = pick(group, _GROUP_MEMBERS)
    if "parentActionSignature" in group:
        members["parentActionGroupSignature"] = group["parentActionSignature"]
        members.pop("actionGroupExecutor", None)
    if group["actionGroupId"] in schemas:
        members["apiSchema"] = {"payload": schemas[group["actionGroupId"]]}
    return members


def _convert_collaborator(collaborator: Data) -> dict[str, Any]:
    return {
        "collaboratorInstruction": collaborator["collaborationInstruction"],
        "agentAliasArn": collaborator["agentDescriptor"].get("aliasArn"),
        **pick(collaborator, ("collaboratorName", "relayConversationHistory")),
    }
