"""`build`: from an `AgentSource` to an `Agent`, the one way for all definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.actions import ActionGroup
from orchestrator.agent.agent import Agent
from orchestrator.agent.features import build_features
from orchestrator.agent.overrides import build_overrides
from orchestrator.agent.source import AgentSource, Code
from orchestrator.engine.plan import Plan

if TYPE_CHECKING:
    from orchestrator.knowledge import KnowledgeBase


def build(source: AgentSource) -> Agent:
    """Builds an agent, and those that it leads.

    Raises:
        DefinitionError: The definition is wrong, with file, line and column where it has them.
        OrchestratorError: What it names is not there, or may not be used.
    """
    definition = source.definition
    limits = source.limits
    if limits is None and definition.limits is not None:
        limits = definition.limits.as_limits()
    agent = Agent(
        definition.agent_name,
        definition.instruction,
        source.choose_model(),
        action_groups=_build_groups(source),
        knowledge_bases=_build_knowledge_bases(source),
        templates=source.templates,
        prompts=build_overrides(source),
        sessions=source.sessions,
        limits=limits,
        idle_session_ttl=definition.idle_session_ttl_in_seconds,
        agent_id=source.agent_id or definition.agent_id or "",
        alias_id=source.alias_id,
        version=source.version,
        features=build_features(source, _build_plan),
    )
    # `Agent(...)` knows no region and account: only a server has them.
    agent.plan = _set_alias_arn(agent.plan, source)
    return agent


def _build_plan(source: AgentSource) -> Plan:
    return build(source).plan


def _set_alias_arn(plan: Plan, source: AgentSource) -> Plan:
    alias = f"agent-alias/{plan.agent_id}/{plan.alias_id}"
    arn = f"arn:aws:bedrock:{source.region}:{source.account}:{alias}"
    return plan if arn == plan.alias_arn else replace(plan, alias_arn=arn)


def _build_groups(source: AgentSource) -> list[ActionGroup]:
    from orchestrator.definition import build_action_groups

    groups = build_action_groups(source.definition, source.folder)
    for group in groups:
        executor = source.objects.executors.get(group.name) or _find_executor(group, source)
        if executor is not None:
            _set_executor(group, executor)
    return _insert_objects(groups, source.objects.groups)


def _find_executor(group: ActionGroup, source: AgentSource) -> Any:
    # Only the ARN of a function can have something else in its place.
    arn = getattr(group.executor, "arn", None)
    code = None if arn is None else source.resolver.find_function(arn)
    return None if code is None else executor_of(code)


def executor_of(code: Code) -> Any:
    """The executor that calls a function, or the function of a file, as AWS calls Lambda."""
    from orchestrator.actions.lambda_handler import LambdaFunction, LambdaHandler

    if not isinstance(code, str):
        return LambdaFunction(code)
    file, _, function = code.rpartition(":")
    return LambdaHandler(file, function)


def _set_executor(group: ActionGroup, executor: Any) -> None:
    group.executor = executor
    prepare: Callable[..., Any] | None = getattr(executor, "prepare", None)
    if prepare is not None:
        group.operations = tuple(prepare(group.operations))


def _build_knowledge_bases(source: AgentSource) -> list[KnowledgeBase]:
    from orchestrator.definition.knowledge_base import build_knowledge_bases

    definition = source.definition
    # A folder of the agent's own is what it is; the id of one of Bedrock's may stand for another.
    named = {one.knowledge_base_id: one for one in definition.knowledge_bases if not one.folder}
    bases = []
    for base in build_knowledge_bases(definition, source.folder):
        part = named.get(base.id)
        settings = (base.description, part.retrieval_configuration) if part else None
        found = source.resolver.find_knowledge_base(base.id, *settings) if settings else None
        bases.append(found or base)
    return _insert_objects(bases, source.objects.bases)


def _insert_objects(built: Sequence[Any], objects: Mapping[int, Any]) -> list[Any]:
    merged = list(built)
    for place, one in objects.items():
        merged.insert(place, one)
    return merged
