"""What a definition in a call names, looked for: here first, then in AWS if the caller may use it.

A definition is read in two steps. `DefinitionReader` has plain data of it, for whoever wants to
know whether it is still the same; `CallerResolver` finds what its names mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from orchestrator.agent.source import Code, Resolver
from orchestrator.engine.plan import MOST_LEVELS, Plan
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.models import Model
from orchestrator.server.access.permissions import check_access, check_retrieval
from orchestrator.server.buckets import read_uri
from orchestrator.server.ids import Arns
from orchestrator.server.knowledge_bases.caller_base import AssociatedBase
from orchestrator.server.operations import Caller
from orchestrator.support.aws.clients import ALIAS_ARN

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

_MOST_SCHEMA_BYTES = 2_000_000
_LEVEL: ContextVar[int] = ContextVar("level_of_agents", default=1)
"""How many agents lead to the one that is being found: they are found one within the other."""

Data = Mapping[str, Any]


class DefinitionReader:
    """What is outside of a definition and belongs to it.

    Attributes:
        world: What the server has open.
        caller: Whose definition it is.
        led: What agents of this server it leads: their digests by ARN.
        plans: Those agents by ARN.
    """

    def __init__(self, world: ServerState, caller: Caller) -> None:
        """Begins to look.

        Args:
            world: What the server has open.
            caller: Whose definition it is.
        """
        self.world = world
        self.caller = caller
        self.led: dict[str, str] = {}
        self.plans: dict[str, Plan] = {}

    def read(self, definition: Data) -> dict[str, Any]:
        """The definition with the schemas in it that are in S3; finds the agents that it leads.

        Raises:
            Fault: The caller may not use what it names.
            ResourceNotFound: A schema, or an agent that it leads, is not there.
            DependencyFailed: A schema could not be read.
        """
        made = dict(definition)
        if "actionGroups" in made:
            made["actionGroups"] = [self._group(one) for one in made["actionGroups"]]
        if "collaborators" in made:
            made["collaborators"] = [self.read(one) for one in made["collaborators"]]
        for one in made.get("collaboratorConfigurations", ()):
            if arn := one.get("agentAliasArn"):
                self._add_collaborator(arn)
        return made

    def _group(self, group: Data) -> Data:
        place = (group.get("apiSchema") or {}).get("s3")
        if not place:
            return group
        uri = f"s3://{place.get('s3BucketName')}/{place.get('s3ObjectKey')}"
        content = read_uri(uri, self.caller, self.world.settings.buckets, _MOST_SCHEMA_BYTES)
        if len(content) > _MOST_SCHEMA_BYTES:
            raise ValidationError(f"the schema {uri!r} has more than {_MOST_SCHEMA_BYTES} bytes")
        try:
            return {**group, "apiSchema": {"payload": str(content, "utf-8-sig")}}
        except UnicodeDecodeError:
            raise ValidationError(f"the schema {uri!r} is not UTF-8 text") from None

    def _add_collaborator(self, arn: str) -> None:
        level = _LEVEL.get()
        if level > MOST_LEVELS:
            raise ValidationError(
                f"the agents that lead {arn!r} lead each other in a circle, or are more than "
                f"{MOST_LEVELS} levels"
            )
        token = _LEVEL.set(level + 1)
        try:
            self._find_collaborator(arn)
        finally:
            _LEVEL.reset(token)

    def _find_collaborator(self, arn: str) -> None:
        named = ALIAS_ARN.fullmatch(arn)
        if named and named.group("region", "account") == Arns.of(self.world.settings):
            agent = self.world.agents.resolve_alias(self.caller, named["agent"], named["alias"])
            plan = agent.for_tenant(self.caller.tenant).plan
            self.plans[arn], self.led[arn] = plan, plan.digest
        else:
            check_access(self.caller, arn)


class CallerResolver(Resolver):
    """What the names in a caller's definition mean, as far as the caller may use it."""

    decides_models = True

    def __init__(self, found: DefinitionReader) -> None:
        """Begins with what is outside of the definition.

        Args:
            found: What was found.
        """
        self._plans = found.plans
        self._world, self._caller = found.world, found.caller

    def find_model(self, spec: str) -> Model:
        """The model that the server has for an id."""
        return self._world.models.model(self._caller, spec)

    def find_function(self, arn: str) -> Code | None:
        """The code that stands for a Lambda function here; `None` for AWS's own."""
        check_access(self._caller, arn)
        return self._world.find_lambda(arn)

    def find_knowledge_base(
        self, id: str, description: str, configuration: Data | None
    ) -> AssociatedBase | None:
        """The server's knowledge base; `None` for one of AWS."""
        check_retrieval(self._caller, configuration)
        find = self._world.bases.base
        try:
            find(self._caller, id)
        except ResourceNotFound:
            check_access(self._caller, id)
            return None
        return AssociatedBase(id, description, lambda: find(self._caller, id), configuration)

    def check_guardrail(self, id: str) -> None:
        """Raises unless the caller may use the guardrail."""
        check_access(self._caller, id)

    def find_agent(self, alias_arn: str) -> Plan | None:
        """The agent of this server; `None` for one of AWS."""
        return self._plans.get(alias_arn)
