"""Agents whose whole definition is in one call (Bedrock: InvokeInlineAgent).

The members are those of an `agent.yaml`, and are read by the same models. What differs is the team
(`collaborators` holds definitions, `collaboratorConfigurations` says who of them this agent leads),
and that Python objects may stand where a document can only name things: models, action groups,
executors, knowledge bases, guardrails, parsers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.actions import ActionGroup, Executor, ReturnControl
from orchestrator.agent.features import features_of
from orchestrator.agent.overrides import override_of, overrides_of, resolve_named_model
from orchestrator.engine.plan import INLINE_AGENT, MOST_LEVELS, Features, Member, Override, Plan
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.models import Model, resolve_model

if TYPE_CHECKING:
    from orchestrator.definition import AgentCollaborator, AgentDefinition
    from orchestrator.flows.custom import Orchestration

__all__ = ["inline_agent"]

_TEAM = ("collaborators", "collaboratorConfigurations")
_OF_INVOKE = {
    "inputText": "question",
    "sessionId": "session_id",
    "endSession": "end_session",
    "inlineSessionState": "inline_session_state",
    "streamingConfigurations": "streaming_configurations",
    "promptCreationConfigurations": "prompt_creation_configurations",
}
_DEFAULT = "DEFAULT"


def inline_agent(
    given: Mapping[str, Any],
    model: str | Model | None,
    folder: Path | None,
    compiled: Callable[..., Plan],
    *,
    trusted: bool = False,
) -> dict[str, Any]:
    """What `Agent` is made of, from the members of an InvokeInlineAgent request.

    Args:
        given: The members, in Bedrock's spelling or Python's.
        model: Used instead of every model that is named.
        folder: Where the files are that the definition names; without one it may name none.
        compiled: Makes an `Agent` of such arguments, and gives its plan.
        trusted: Whether it may reach out of itself; see `Agent.inline`.

    Raises:
        DefinitionError: Something in it is wrong.
    """
    members = _to_bedrock_spelling(given)
    team = {
        str(_to_bedrock_spelling(one).get("agentName", "")): one
        for one in _get_list(members, "collaborators")
        if isinstance(one, Mapping)
    }
    latency = _latency(members)
    return _Inline(members, model, folder, compiled, trusted, team, (), latency).arguments()


@dataclass(frozen=True, slots=True)
class _Inline:
    """One definition of a team.

    Attributes:
        members: Its members, in Bedrock's spelling.
        model: Used instead of every model that is named.
        folder: Where files are, if anywhere.
        compiled: Makes an agent's plan.
        trusted: Whether the definitions may reach out of themselves.
        team: The definitions of all collaborators, by name.
        above: The names of the agents that lead this one.
        latency: `optimized` when models of Bedrock that are named are to answer faster.
    """

    members: Mapping[str, Any]
    model: str | Model | None
    folder: Path | None
    compiled: Callable[..., Plan]
    trusted: bool
    team: Mapping[str, Any]
    above: tuple[str, ...]
    latency: str

    def arguments(self) -> dict[str, Any]:
        """What `Agent` is made of."""
        from orchestrator.definition import build_action_groups, definition_of
        from orchestrator.definition.knowledge_base import build_knowledge_bases
        from orchestrator.definition.trust import refuse_untrusted

        self._refuse_misplaced()
        data, objects = _split_objects(self.members)
        definition = definition_of({**data, "agentCollaborators": self._collaborators()})
        if not self.trusted:
            named = self.model is None
            refuse_untrusted(definition, folder=self.folder is not None, models=named)
        groups = _with_executors(build_action_groups(definition, self.folder), objects.executors)
        bases = build_knowledge_bases(definition, self.folder)
        limits = definition.limits
        return {
            "name": definition.agent_name,
            "instruction": definition.instruction,
            "model": self._model(definition, objects.model),
            "action_groups": _insert_objects(groups, objects.groups),
            "knowledge_bases": _insert_objects(bases, objects.bases),
            "prompts": self._overrides(definition, objects.parser),
            "limits": limits.as_limits() if limits else None,
            "idle_session_ttl": definition.idle_session_ttl_in_seconds,
            "agent_id": INLINE_AGENT,
            "features": self._features(definition, objects),
        }

    def _refuse_misplaced(self) -> None:
        for member, option in _OF_INVOKE.items():
            if member in self.members:
                raise DefinitionError(
                    f"{member!r} belongs to a question, and not to the definition: give it to "
                    f"invoke() as {option}"
                )
        if "enableTrace" in self.members:
            raise DefinitionError("'enableTrace' is not needed: every reply has its trace")

    def _collaborators(self) -> list[dict[str, Any]]:
        # As `agentCollaborators`, which says the same of agents elsewhere.
        told = []
        known = ("collaboratorName", "collaboratorInstruction", "agentAliasArn")
        for one in _get_list(self.members, "collaboratorConfigurations"):
            one = _to_bedrock_spelling(one)
            name, arn = one.get("collaboratorName"), one.get("agentAliasArn")
            told.append(
                {
                    "collaboratorName": name,
                    "collaborationInstruction": one.get("collaboratorInstruction"),
                    "agentDescriptor": {"aliasArn": arn} if arn else {"folder": str(name)},
                    **{key: it for key, it in one.items() if key not in known},
                }
            )
        if told and self.members.get("agentCollaboration") is None:
            raise DefinitionError(
                "there are collaboratorConfigurations and no agentCollaboration: set it to "
                "SUPERVISOR or SUPERVISOR_ROUTER"
            )
        return told

    def _features(self, definition: AgentDefinition, objects: _Objects) -> Features:
        alone = definition.model_copy(update={"agent_collaboration": None})
        features = features_of(alone, self.folder, _refuse_folder, None)
        if objects.guardrail is not None:
            features = replace(features, guardrail=objects.guardrail)
        if objects.orchestration is not None:
            features = replace(features, orchestration=objects.orchestration)
        routes = definition.agent_collaboration == "SUPERVISOR_ROUTER"
        return replace(features, collaborators=self._build_members(definition), routes=routes)

    def _build_members(self, definition: AgentDefinition) -> list[Member]:
        from orchestrator.definition import collaborators_of

        try:
            led = collaborators_of(definition)
        except DefinitionError:
            raise DefinitionError(
                f"the agent {definition.agent_name!r} leads others and has no "
                "collaboratorConfigurations; add some, or set agentCollaboration: DISABLED"
            ) from None
        return [self._member(definition.agent_name, one) for one in led]

    def _member(self, leader: str, one: AgentCollaborator) -> Member:
        name, text = one.collaborator_name, one.collaboration_instruction or ""
        relay = one.relay_conversation_history == "TO_COLLABORATOR"
        where = one.agent_descriptor
        if where is not None and where.alias_arn is not None:
            from orchestrator.agent.bedrock_agent import BedrockAgent

            return Member(name, text, None, BedrockAgent(where.alias_arn), relay)
        if name not in self.team:
            raise DefinitionError(
                f"the agent {leader!r} leads {name!r}, which has no agentAliasArn and is not the "
                f"agentName of one of the collaborators; there are {', '.join(self.team) or 'none'}"
            )
        above = (*self.above, leader)
        if name in above:
            raise DefinitionError(
                f"the agents lead each other in a circle: {' → '.join((*above, name))}"
            )
        if len(above) >= MOST_LEVELS:
            raise DefinitionError(
                f"with {name!r} there are {len(above) + 1} levels of agents that lead agents; the "
                f"most are {MOST_LEVELS}"
            )
        members = _to_bedrock_spelling(self.team[name])
        latency = _latency(members) or self.latency
        below = replace(self, members=members, above=above, latency=latency)
        return Member(name, text, self.compiled(**below.arguments()), None, relay)

    def _model(self, definition: AgentDefinition, given: Model | None) -> str | Model:
        spec = self.model or given or definition.foundation_model
        if spec is None:
            raise DefinitionError(
                f"the agent {definition.agent_name!r} has no foundationModel; name one"
            )
        try:
            if isinstance(spec, str) and spec is definition.foundation_model:
                found = resolve_named_model(definition, spec, self.folder or Path())
            else:
                found = resolve_model(spec)
        except (DefinitionError, ValidationError) as error:
            raise DefinitionError(f"foundationModel: {error.message}") from error
        return self._apply_latency(found) if isinstance(spec, str) else found

    def _apply_latency(self, named: Model) -> Model:
        """A model that was named, as fast as the definition asks for."""
        if self.latency:
            from orchestrator.models.bedrock import BedrockModel

            if isinstance(named, BedrockModel):
                return BedrockModel(named.model_id, latency=self.latency)
        return named

    def _overrides(
        self, definition: AgentDefinition, parser: Callable[..., Any] | None
    ) -> dict[str, Override]:
        configurations = definition.prompt_override_configuration
        if configurations is None:
            return {}
        named = configurations.override_lambda or ""
        if named and self.folder is None and not named.startswith("arn:"):
            raise DefinitionError(
                f"overrideLambda {named!r} is relative to an agent's folder, and there is none; "
                "give an ARN, a function, or folder="
            )
        parsed = [
            one.prompt_type
            for one in configurations.prompt_configurations
            if parser is not None and one.parser_mode == "OVERRIDDEN"
        ]
        if parsed:
            without = [
                one.model_copy(update={"parser_mode": _DEFAULT})
                for one in configurations.prompt_configurations
            ]
            changed = configurations.model_copy(update={"prompt_configurations": tuple(without)})
            definition = definition.model_copy(update={"prompt_override_configuration": changed})
        made = overrides_of(definition, self.folder or Path(), replaced=self.model is not None)
        for stage in parsed:
            own = override_of(stage, {"parserMode": "OVERRIDDEN"}, parser)
            made[stage] = replace(made[stage], parser=own.parser, parser_name=own.parser_name)
        return {
            name: replace(one, model=self._apply_latency(one.model))
            if isinstance(one.model, Model)
            else one
            for name, one in made.items()
        }


@dataclass(slots=True)
class _Objects:
    """The Python objects of a definition, which its models do not take.

    Attributes:
        model: The model.
        groups: Action groups, by their places in the list.
        executors: Executors, by the names of their groups.
        bases: Knowledge bases, by their places in the list.
        guardrail: The guardrail.
        parser: The parser that `overrideLambda` is.
        orchestration: What orchestrates instead of the built-in loop.
    """

    model: Model | None
    groups: dict[int, Any]
    executors: dict[str, Any]
    bases: dict[int, Any]
    guardrail: Any = None
    parser: Callable[..., Any] | None = None
    orchestration: Orchestration | None = None


def _split_objects(members: Mapping[str, Any]) -> tuple[dict[str, Any], _Objects]:
    """The plain data of a definition, and the objects in it."""
    data = {key: it for key, it in members.items() if key not in _TEAM}
    data.setdefault("agentName", INLINE_AGENT)
    data.pop("bedrockModelConfigurations", None)  # see `_latency`
    objects = _Objects(None, {}, {}, {})
    if isinstance(data.get("foundationModel"), Model):
        objects.model = data.pop("foundationModel")
    plain = []
    for place, group in enumerate(_get_list(data, "actionGroups")):
        if isinstance(group, ActionGroup):
            objects.groups[place] = group
        else:
            plain.append(_without_executor(group, objects.executors))
    bases = _get_list(data, "knowledgeBases")
    objects.bases = {
        place: base for place, base in enumerate(bases) if not isinstance(base, Mapping)
    }
    guardrail = data.get("guardrailConfiguration")
    if callable(getattr(guardrail, "check", None)):
        objects.guardrail = data.pop("guardrailConfiguration")
    data["actionGroups"] = plain
    data["knowledgeBases"] = [base for base in bases if isinstance(base, Mapping)]
    _take_parser(data, objects)
    _take_orchestration(data, objects)
    return data, objects


def _take_parser(data: dict[str, Any], objects: _Objects) -> None:
    overrides = data.get("promptOverrideConfiguration")
    if isinstance(overrides, Mapping):
        spelled = _to_bedrock_spelling(overrides)
        if callable(spelled.get("overrideLambda")):
            objects.parser = spelled.pop("overrideLambda")
            data["promptOverrideConfiguration"] = spelled


def _take_orchestration(data: dict[str, Any], objects: _Objects) -> None:
    script = data.get("orchestration")
    if hasattr(script, "as_orchestration"):
        objects.orchestration = data.pop("orchestration").as_orchestration()
    given = data.get("customOrchestration")
    executor = _to_bedrock_spelling(given).get("executor") if isinstance(given, Mapping) else None
    function = (
        _to_bedrock_spelling(executor).get("lambda") if isinstance(executor, Mapping) else None
    )
    if callable(function):
        from orchestrator.flows.custom import LambdaOrchestration

        del data["customOrchestration"]
        if data.get("orchestrationType") == "CUSTOM_ORCHESTRATION":
            del data["orchestrationType"]
            objects.orchestration = LambdaOrchestration(function)


def _without_executor(group: Any, executors: dict[str, Any]) -> Any:
    if not isinstance(group, Mapping):
        return group
    spelled = _to_bedrock_spelling(group)
    given = spelled.get("actionGroupExecutor")
    found = _to_bedrock_spelling(given).get("lambda") if isinstance(given, Mapping) else given
    if isinstance(found, ReturnControl | Executor):
        executor: Any = found
    elif callable(found):
        from orchestrator.actions.lambda_function import LambdaFunction

        executor = LambdaFunction(found)
    else:
        return group
    executors[str(spelled.get("actionGroupName"))] = executor
    return {**spelled, "actionGroupExecutor": {"customControl": "RETURN_CONTROL"}}


def _with_executors(
    groups: Sequence[ActionGroup], executors: Mapping[str, Any]
) -> list[ActionGroup]:
    for group in groups:
        executor = executors.get(group.name)
        if executor is not None:
            group.executor = executor
            prepare = getattr(executor, "prepare", None)
            if prepare is not None:
                group.operations = tuple(prepare(group.operations))
    return list(groups)


def _insert_objects(made: Sequence[Any], objects: Mapping[int, Any]) -> list[Any]:
    merged = list(made)
    for place, one in objects.items():
        merged.insert(place, one)
    return merged


def _latency(members: Mapping[str, Any]) -> str:
    given = _to_bedrock_spelling(members.get("bedrockModelConfigurations") or {})
    latency = _to_bedrock_spelling(given.get("performanceConfig") or {}).get("latency")
    if latency not in (None, "standard", "optimized"):
        raise DefinitionError(
            f"bedrockModelConfigurations.performanceConfig.latency is {latency!r}; it is "
            "'standard' or 'optimized'"
        )
    return "optimized" if latency == "optimized" else ""


def _get_list(members: Mapping[str, Any], name: str) -> Sequence[Any]:
    given = members.get(name)
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise DefinitionError(f"{name!r} must be a list, not {type(given).__name__!r}")
    return given


def _to_bedrock_spelling(given: Any) -> dict[str, Any]:
    """The members of a mapping in Bedrock's spelling.

    Raises:
        DefinitionError: It is no mapping, or has a member in both spellings.
    """
    if not isinstance(given, Mapping):
        raise DefinitionError(f"a part of a definition is a mapping, not {type(given).__name__!r}")
    found: dict[str, Any] = {}
    for name, value in given.items():
        spelled = _camel(str(name))
        if spelled in found:
            raise DefinitionError(f"{spelled!r} is given in both spellings; remove one")
        found[spelled] = value
    return found


def _camel(name: str) -> str:
    if name == "idle_session_ttl_in_seconds":
        return "idleSessionTTLInSeconds"
    first, *rest = name.split("_")
    return (first + "".join(word.capitalize() for word in rest)) if first else name


def _refuse_folder(folder: Path) -> Plan:
    raise AssertionError(f"an inline agent has no collaborator in a folder: {folder}")
