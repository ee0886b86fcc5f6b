"""What a definition in a call names, looked for: here first, then in AWS if the caller may use it.

A definition is read in two steps. `Found` has plain data of it, for whoever wants to know whether
it is still the same; `Resolved` puts objects in the place of names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.actions.lambda_function import LambdaFunction
from orchestrator.engine.plan import INLINE_AGENT, MOST_LEVELS, Features, Member, Override, Plan
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.models import Model
from orchestrator.server.access.permissions import check_access
from orchestrator.server.agents.latency import is_optimized, optimize_model
from orchestrator.server.buckets import read_uri
from orchestrator.server.ids import Arns
from orchestrator.server.operations import Caller
from orchestrator.server.runtime.knowledge_bases import AssociatedBase
from orchestrator.server.runtime.resources import check_retrieval
from orchestrator.support.aws.arns import ALIAS_ARN

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


class DefinitionResolver:
    """A definition's names, each with what it names in its place."""

    def __init__(self, found: DefinitionReader) -> None:
        """Begins with what is outside of it.

        Args:
            found: What was found.
        """
        self._found = found
        self._world, self._caller = found.world, found.caller
        self._stages: dict[str, dict[str, Model]] = {}
        self._parsers: dict[str, str] = {}
        self._own: dict[str, dict[str, Plan]] = {}

    def resolve_members(self, definition: Data, quick: bool = False) -> dict[str, Any]:
        """The members that `orchestrator.agent.from_request` takes, with objects for names.

        Args:
            definition: The definition, as `Found` has read it.
            quick: Whether the agent that leads this one has latency-optimised models.

        Raises:
            OrchestratorError: What it names is not there.
            Fault: The caller may not use it.
        """
        made = dict(definition)
        name = str(made.get("agentName") or INLINE_AGENT)
        quick = quick or is_optimized(made.get("bedrockModelConfigurations"))
        if "foundationModel" in made:
            made["foundationModel"] = self._model(made["foundationModel"], quick)
        if "actionGroups" in made:
            made["actionGroups"] = [self._group(one) for one in made["actionGroups"]]
        if "knowledgeBases" in made:
            made["knowledgeBases"] = [self._base(one) for one in made["knowledgeBases"]]
        if guardrail := made.get("guardrailConfiguration"):
            check_access(self._caller, guardrail["guardrailIdentifier"])
        if overrides := made.get("promptOverrideConfiguration"):
            made["promptOverrideConfiguration"] = self._prompts(name, overrides, quick)
        if executor := (made.get("customOrchestration") or {}).get("executor"):
            function = self._function(executor["lambda"]) if "lambda" in executor else None
            made["customOrchestration"] = {"executor": {**executor, "lambda": function}}
        if "collaborators" in made:
            made["collaborators"] = [
                self.resolve_members(one, quick) for one in made["collaborators"]
            ]
        self._own[name] = {
            one["collaboratorName"]: self._found.plans[one["agentAliasArn"]]
            for one in made.get("collaboratorConfigurations", ())
            if one.get("agentAliasArn") in self._found.plans
        }
        return made

    def arguments(self, made: dict[str, Any]) -> dict[str, Any]:
        """What `Agent` is made of, with the stages' models and the server's own agents in it.

        Args:
            made: What `orchestrator.agent.from_request` has made of the members.
        """
        name = made["name"]
        prompts = {stage: self._prompt(name, stage, it) for stage, it in made["prompts"].items()}
        own, features = self._own.get(name) or {}, made["features"]
        return {**made, "prompts": prompts, "features": _with_collaborators(features, own)}

    def _prompt(self, name: str, stage: str, override: Override) -> Override:
        models, parser = self._stages.get(name, {}), self._parsers.get(name)
        named = parser if parser and override.parser is not None else override.parser_name
        return replace(override, model=models.get(stage, override.model), parser_name=named)

    def _model(self, model_id: str, quick: bool) -> Model:
        model = self._world.models.model(self._caller, model_id)
        return optimize_model(model) if quick else model

    def _group(self, group: Data) -> Data:
        arn = (group.get("actionGroupExecutor") or {}).get("lambda")
        if not arn:
            return group
        check_access(self._caller, arn)
        code = self._world.find_lambda(arn)
        if code is None:
            return group
        executor: Any = LambdaFunction(code) if callable(code) else _build_handler(code)
        return {**group, "actionGroupExecutor": {"lambda": executor}}

    def _function(self, arn: str) -> str | Callable[..., Any]:
        """The ARN of a Lambda function of AWS, or what stands for it here."""
        from orchestrator.actions.parser_lambda import parser_function

        check_access(self._caller, arn)
        code = self._world.find_lambda(arn)
        if code is None:
            return arn
        return code if callable(code) else parser_function(code)

    def _base(self, given: Data) -> Any:
        id, configuration = given["knowledgeBaseId"], given.get("retrievalConfiguration")
        check_retrieval(self._caller, configuration)
        find = self._world.bases.base
        try:
            find(self._caller, id)
        except ResourceNotFound:
            check_access(self._caller, id)
            return given
        return AssociatedBase(
            id,
            given.get("description") or "",
            lambda: find(self._caller, id),
            configuration,
        )

    def _prompts(self, name: str, overrides: Data, quick: bool) -> dict[str, Any]:
        made, models = dict(overrides), self._stages.setdefault(name, {})
        if "overrideLambda" in made:
            self._parsers[name] = made["overrideLambda"]  # what traces tell, whatever stands for it
            made["overrideLambda"] = self._function(made["overrideLambda"])
        configurations = []
        for one in made.get("promptConfigurations", ()):
            if "foundationModel" in one:
                models[one["promptType"]] = self._model(one["foundationModel"], quick)
                one = {key: it for key, it in one.items() if key != "foundationModel"}
            configurations.append(one)
        made["promptConfigurations"] = configurations
        return made


def _with_collaborators(features: Features, own: Mapping[str, Plan]) -> Features:
    if not own:
        return features
    return replace(features, collaborators=[_with_plan(it, own) for it in features.collaborators])


def _with_plan(member: Member, own: Mapping[str, Plan]) -> Member:
    plan = own.get(member.name)
    return member if plan is None else replace(member, agent=plan, remote=None)


def _build_handler(code: str) -> Any:
    from orchestrator.actions.lambda_handler import LambdaHandler

    file, _, function = code.rpartition(":")
    return LambdaHandler(Path(file), function)
