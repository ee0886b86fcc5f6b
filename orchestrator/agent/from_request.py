"""Agents whose whole definition is in one call (Bedrock: InvokeInlineAgent).

The members are those of an `agent.yaml`, and are read by the same models. What differs is the team
(`collaborators` holds definitions, `collaboratorConfigurations` says who of them this agent leads),
and that Python objects may stand where a document can only name things: models, action groups,
executors, knowledge bases, guardrails, parsers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.actions import ActionGroup, Executor, ReturnControl
from orchestrator.agent.source import AgentSource, Objects, Resolver
from orchestrator.engine.plan import INLINE_AGENT, MOST_LEVELS
from orchestrator.errors import DefinitionError
from orchestrator.models import Model
from orchestrator.support.spelling import to_camel

if TYPE_CHECKING:
    from orchestrator.definition import AgentCollaborator, AgentDefinition

_TEAM = ("collaborators", "collaboratorConfigurations")
_OF_INVOKE = {
    "inputText": "question",
    "sessionId": "session_id",
    "endSession": "end_session",
    "inlineSessionState": "inline_session_state",
    "streamingConfigurations": "streaming_configurations",
    "promptCreationConfigurations": "prompt_creation_configurations",
}


def source_from_request(
    members: Mapping[str, Any],
    *,
    model: str | Model | None = None,
    folder: Path | None = None,
    resolver: Resolver | None = None,
    trusted: bool = False,
) -> AgentSource:
    """The source of the agent that an InvokeInlineAgent request defines.

    `members` are in Bedrock's spelling or Python's; `model` is used instead of every model that
    they name. Files that they name are in `folder`. `trusted` is as for `Agent.inline`.

    Raises:
        DefinitionError: Something in it is wrong.
    """
    members = _to_bedrock_spelling(members)
    team = {
        str(_to_bedrock_spelling(one).get("agentName", "")): one
        for one in _get_list(members, "collaborators")
        if isinstance(one, Mapping)
    }
    reader = _Reader(model, folder, resolver or Resolver(), trusted, team)
    return reader.read(members)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the definitions of one team."""

    model: str | Model | None  # used instead of every model that is named
    folder: Path | None  # where files are, if anywhere
    resolver: Resolver  # finds what they name
    trusted: bool  # whether the definitions may reach out of themselves
    team: Mapping[str, Any]  # the definitions of all collaborators, by name
    above: tuple[str, ...] = ()  # the names of the agents that lead the one that is read
    optimized: bool = False  # whether one of these asks for latency-optimised models

    def read(self, members: Mapping[str, Any]) -> AgentSource:
        from orchestrator.definition import definition_of
        from orchestrator.definition.trust import refuse_untrusted

        _refuse_misplaced(members)
        data, objects = _split_objects(members)
        definition = definition_of({**data, "agentCollaborators": _collaborators(members)})
        # Callers of a server send definitions: they must not reach files, programs or hosts.
        if not self.trusted:
            named = self.model is None and not self.resolver.decides_models
            refuse_untrusted(definition, folder=self.folder is not None, models=named)
        _check_team(definition)
        here = replace(self, optimized=self.optimized or _asks_for_optimized(members))

        def open_collaborator(_: int, one: AgentCollaborator) -> AgentSource:
            return here._read_collaborator(definition.agent_name, one.collaborator_name)

        return AgentSource(
            definition,
            self.folder,
            self.resolver,
            objects,
            open_collaborator,
            self.model,
            here.optimized,
            agent_id=INLINE_AGENT,
        )

    def _read_collaborator(self, leader: str, name: str) -> AgentSource:
        if name not in self.team:
            raise DefinitionError(
                f"the agent {leader!r} leads {name!r}, which has no agentAliasArn and is not the "
                f"agentName of one of the collaborators; there are {', '.join(self.team) or 'none'}"
            )
        # Checked while reading: a circle would otherwise be read without end.
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
        return replace(self, above=above).read(_to_bedrock_spelling(self.team[name]))


def _refuse_misplaced(members: Mapping[str, Any]) -> None:
    for member, option in _OF_INVOKE.items():
        if member in members:
            raise DefinitionError(
                f"{member!r} belongs to a question, and not to the definition: give it to "
                f"invoke() as {option}"
            )
    if "enableTrace" in members:
        raise DefinitionError("'enableTrace' is not needed: every reply has its trace")


def _collaborators(members: Mapping[str, Any]) -> list[dict[str, Any]]:
    # `agentCollaborators` says the same of agents that are defined on their own. The name of a
    # definition in the call stands where that has a folder.
    converted = []
    known = ("collaboratorName", "collaboratorInstruction", "agentAliasArn")
    for one in _get_list(members, "collaboratorConfigurations"):
        one = _to_bedrock_spelling(one)
        name, arn = one.get("collaboratorName"), one.get("agentAliasArn")
        converted.append(
            {
                "collaboratorName": name,
                "collaborationInstruction": one.get("collaboratorInstruction"),
                "agentDescriptor": {"aliasArn": arn} if arn else {"folder": str(name)},
                **{key: it for key, it in one.items() if key not in known},
            }
        )
    if converted and members.get("agentCollaboration") is None:
        raise DefinitionError(
            "there are collaboratorConfigurations and no agentCollaboration: set it to "
            "SUPERVISOR or SUPERVISOR_ROUTER"
        )
    return converted


def _check_team(definition: AgentDefinition) -> None:
    from orchestrator.definition import collaborators_of

    try:
        collaborators_of(definition)
    except DefinitionError:
        raise DefinitionError(
            f"the agent {definition.agent_name!r} leads others and has no "
            "collaboratorConfigurations; add some, or set agentCollaboration: DISABLED"
        ) from None


def _split_objects(members: Mapping[str, Any]) -> tuple[dict[str, Any], Objects]:
    data = {key: it for key, it in members.items() if key not in _TEAM}
    # InvokeInlineAgent needs no agentName; recorded traces call the agent INLINE_AGENT.
    data.setdefault("agentName", INLINE_AGENT)
    # `_asks_for_optimized` reads it.
    data.pop("bedrockModelConfigurations", None)
    objects = Objects()
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


def _take_parser(data: dict[str, Any], objects: Objects) -> None:
    overrides = data.get("promptOverrideConfiguration")
    if isinstance(overrides, Mapping):
        spelled = _to_bedrock_spelling(overrides)
        if callable(spelled.get("overrideLambda")):
            objects.parser = spelled.pop("overrideLambda")
            data["promptOverrideConfiguration"] = spelled


def _take_orchestration(data: dict[str, Any], objects: Objects) -> None:
    script = data.get("orchestration")
    if hasattr(script, "as_orchestration"):
        objects.orchestration = data.pop("orchestration").as_orchestration()
    custom = data.get("customOrchestration")
    executor = _to_bedrock_spelling(custom).get("executor") if isinstance(custom, Mapping) else None
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
    value = spelled.get("actionGroupExecutor")
    found = _to_bedrock_spelling(value).get("lambda") if isinstance(value, Mapping) else value
    if isinstance(found, ReturnControl | Executor):
        executor: Any = found
    elif callable(found):
        from orchestrator.actions.handlers import LambdaFunction

        executor = LambdaFunction(found)
    else:
        return group
    executors[str(spelled.get("actionGroupName"))] = executor
    # A stand-in that the definition accepts; `build` puts the executor in its place.
    return {**spelled, "actionGroupExecutor": {"customControl": "RETURN_CONTROL"}}


def _asks_for_optimized(members: Mapping[str, Any]) -> bool:
    settings = _to_bedrock_spelling(members.get("bedrockModelConfigurations") or {})
    latency = _to_bedrock_spelling(settings.get("performanceConfig") or {}).get("latency")
    if latency not in (None, "standard", "optimized"):
        raise DefinitionError(
            f"bedrockModelConfigurations.performanceConfig.latency is {latency!r}; it is "
            "'standard' or 'optimized'"
        )
    return bool(latency == "optimized")


def _get_list(members: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = members.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise DefinitionError(f"{name!r} must be a list, not {type(value).__name__!r}")
    return value


def _to_bedrock_spelling(part: Any) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        raise DefinitionError(f"a part of a definition is a mapping, not {type(part).__name__!r}")
    found: dict[str, Any] = {}
    for name, value in part.items():
        # The one member whose Bedrock spelling is not plain camel case.
        ttl = name == "idle_session_ttl_in_seconds"
        spelled = "idleSessionTTLInSeconds" if ttl else to_camel(str(name))
        if spelled in found:
            raise DefinitionError(f"{spelled!r} is given in both spellings; remove one")
        found[spelled] = value
    return found
