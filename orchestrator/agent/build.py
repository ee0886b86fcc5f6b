"""`build`: from an `AgentSource` to an `Agent`, the one way for all definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.actions import ActionGroup
from orchestrator.agent.agent import Agent
from orchestrator.agent.compile import check_instruction
from orchestrator.agent.overrides import build_overrides
from orchestrator.agent.source import AgentSource, Code, Resolver, errors_at
from orchestrator.agent.validate import memory_store
from orchestrator.definition import AgentCollaborator, collaborators_of, load_definition
from orchestrator.definition.action_group_builder import build_action_groups
from orchestrator.definition.files import handler_of, is_arn, locate, locate_folder
from orchestrator.definition.guardrail_file import build_guardrail
from orchestrator.definition.knowledge_base import build_knowledge_bases
from orchestrator.engine.plan import MOST_LEVELS, Features, Member, Memory, Orchestration, Plan
from orchestrator.errors import DefinitionError, OrchestratorError
from orchestrator.models import Model, resolve_embedder

if TYPE_CHECKING:
    from orchestrator.actions.handlers import LambdaFunction
    from orchestrator.guardrails import Guardrail
    from orchestrator.knowledge import KnowledgeBase


def source_from_folder(
    path: Path,
    *,
    model: str | Model | None = None,
    resolver: Resolver | None = None,
    level: int = 1,
) -> AgentSource:
    """The source of the agent in a folder; `level` counts the agents down to this one.

    Nothing of the folder runs here: its files are only read when the agent is built.

    Raises:
        DefinitionError: The definition is wrong, with file, line and column.
        ResourceNotFound: There is no such folder or file.
    """
    definition = load_definition(path)
    resolver = resolver or Resolver()
    root = path if path.is_dir() else path.parent

    def open_collaborator(index: int, one: AgentCollaborator) -> AgentSource:
        keys = ("agentCollaborators", index, "agentDescriptor", "folder")
        name = one.agent_descriptor.folder if one.agent_descriptor else None
        folder = locate_folder(definition, str(name), keys, root)
        if level >= MOST_LEVELS:  # before it is read, which would go down as far as folders do
            raise definition.source.error(
                f"with {one.collaborator_name!r} there are {level + 1} levels of agents that "
                f"lead agents; the most are {MOST_LEVELS}",
                *keys,
            )
        return source_from_folder(folder, model=model, resolver=resolver, level=level + 1)

    # A folder of texts about memory is found beside that of the templates, which may be missing.
    own = [root / name for name in ("templates", "memory")]
    return AgentSource(
        definition,
        root,
        resolver,
        open_collaborator=open_collaborator,
        model=model,
        templates=own[0] if any(map(Path.is_dir, own)) else None,
    )


def build(source: AgentSource) -> Agent:
    """Builds an agent, and those that it leads.

    Raises:
        DefinitionError: The definition is wrong, with file, line and column where it has them.
        OrchestratorError: What it names is not there, or may not be used.
    """
    return _assemble(source, {part: make(source) for part, make in _PARTS.items()})


@dataclass(slots=True)
class Attempt:
    """What came of building an agent, or one that it leads: its parts, and every mistake."""

    source: AgentSource
    parts: dict[str, Any] = field(default_factory=dict)  # those that could be built, by name
    mistakes: list[OrchestratorError] = field(default_factory=list)
    agent: Agent | None = None  # which there is when nothing was wrong

    def close(self) -> None:
        """Ends what the parts have begun, such as servers, and closes their files."""
        executors = [group.executor for group in self.parts.get("groups", ())]
        for one in (*executors, *self.parts.get("knowledge_bases", ())):
            if callable(close := getattr(one, "close", None)):
                close()


def try_build(source: AgentSource) -> list[Attempt]:
    """Builds an agent as `build` does, and goes on after a mistake to find the others.

    Gives an attempt for the agent, and one for each that it leads. Close them all.
    """
    attempts: list[Attempt] = []
    _try_build(source, attempts)
    return attempts


def _try_build(source: AgentSource, attempts: list[Attempt]) -> Agent | None:
    attempt = Attempt(source)
    attempts.append(attempt)

    def build_collaborator(one: AgentSource) -> Agent:
        agent = _try_build(one, attempts)
        if agent is None:
            raise _Reported
        return agent

    for part, make in _PARTS.items():
        try:
            is_team = part == "collaborators"
            made = _build_team(source, build_collaborator) if is_team else make(source)
            attempt.parts[part] = made
        except OrchestratorError as error:
            attempt.mistakes.append(error)
        except _Reported:
            continue
    if len(attempt.parts) < len(_PARTS):
        return None
    try:
        attempt.agent = _assemble(source, attempt.parts)
    except OrchestratorError as error:
        attempt.mistakes.append(error)
    return attempt.agent


class _Reported(Exception):
    """An agent that another one leads could not be built; its own attempt says why."""


def _assemble(source: AgentSource, parts: Mapping[str, Any]) -> Agent:
    definition = source.definition
    with errors_at(source, "instruction"):
        check_instruction(definition.agent_name, definition.instruction)
    limits = source.limits
    if limits is None and definition.limits is not None:
        limits = definition.limits.as_limits()
    guardrail = definition.guardrail_configuration
    agent = Agent(
        definition.agent_name,
        definition.instruction,
        parts["model"],
        action_groups=parts["groups"],
        knowledge_bases=parts["knowledge_bases"],
        templates=source.templates,
        prompts=parts["overrides"],
        sessions=source.sessions,
        limits=limits,
        idle_session_ttl=definition.idle_session_ttl_in_seconds,
        agent_id=source.agent_id or definition.agent_id or "",
        alias_id=source.alias_id,
        version=source.version,
        features=Features(
            guardrail=parts["guardrail"],
            guard_results=guardrail is not None and guardrail.check_results,
            collaborators=parts["collaborators"],
            routes=definition.agent_collaboration == "SUPERVISOR_ROUTER",
            memory=parts["memory"],
            orchestration=parts["orchestration"],
            aws_compat=definition.aws_compat,
            unknown_outcomes=definition.unknown_outcomes,
        ),
    )
    # `Agent(...)` knows no region and account: only a server has them.
    alias = f"agent-alias/{agent.plan.agent_id}/{agent.plan.alias_id}"
    arn = f"arn:aws:bedrock:{source.region}:{source.account}:{alias}"
    if arn != agent.plan.alias_arn:
        agent.plan = replace(agent.plan, alias_arn=arn)
    return agent


def _build_groups(source: AgentSource) -> list[ActionGroup]:
    find_schema = source.resolver.find_schema
    groups = build_action_groups(source.definition, source.folder, find_schema)
    for group in groups:
        executor = source.objects.executors.get(group.name) or _find_executor(group, source)
        if executor is not None:
            group.executor = executor
            prepare: Callable[..., Any] | None = getattr(executor, "prepare", None)
            if prepare is not None:
                group.operations = tuple(prepare(group.operations))
    return _insert_objects(groups, source.objects.groups)


def _find_executor(group: ActionGroup, source: AgentSource) -> Any:
    # Only the ARN of a function can have something else in its place.
    arn = getattr(group.executor, "arn", None)
    code = None if arn is None else source.resolver.find_function(arn)
    if arn is None or code is None:
        return None
    executor = _executor_of(code)
    executor.stands_for = arn
    return executor


def _executor_of(code: Code) -> LambdaFunction:
    """The executor that calls a function, or the function of a file, as AWS calls Lambda."""
    from orchestrator.actions.handlers import LambdaFunction, LambdaHandler
    from orchestrator.actions.lambda_process import LambdaProcess, has_processes

    if not isinstance(code, str):
        return LambdaFunction(code)
    # A file that stands for a Lambda function was written for Lambda, and not for this process.
    file, _, function = code.rpartition(":")
    return (LambdaProcess if has_processes() else LambdaHandler)(file, function)


def _build_knowledge_bases(source: AgentSource) -> list[KnowledgeBase]:
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


def _build_guardrail(source: AgentSource) -> Guardrail | None:
    if source.objects.guardrail is not None:
        return source.objects.guardrail
    part = source.definition.guardrail_configuration
    if part is not None and part.guardrail_identifier:
        version = part.guardrail_version or "DRAFT"
        found = source.resolver.find_guardrail(part.guardrail_identifier, version)
        if found is not None and part.file is None:
            return found
    embedder = partial(resolve_embedder, "local")
    return build_guardrail(source.definition, source.folder, embedder=embedder)


def _build_orchestration(source: AgentSource) -> Orchestration | None:
    definition = source.definition
    if source.objects.orchestration is not None:
        return source.objects.orchestration
    if definition.orchestration is not None:
        return _read_script(source, definition.orchestration)
    spec = definition.orchestration_lambda
    return None if spec is None else _find_orchestration(source, spec)


def _find_orchestration(source: AgentSource, spec: str) -> Orchestration:
    from orchestrator.flows.custom import LambdaOrchestration

    at = ("customOrchestration", "executor", "lambda")
    if is_arn(spec):
        code = source.resolver.find_function(spec)
        if code is not None:
            return LambdaOrchestration(code)
    else:
        locate(source.definition, handler_of(spec)[0], at, source.folder)
    with errors_at(source, *at):
        return LambdaOrchestration(spec, source.folder)


def _read_script(source: AgentSource, name: str) -> Orchestration:
    from orchestrator.flows.languages import read_file
    from orchestrator.flows.orchestration import FlowOrchestration

    file = locate(source.definition, name, ("orchestration",), source.folder)
    try:
        return FlowOrchestration(read_file(file))
    except DefinitionError as error:
        if error.line is not None:
            raise
        raise source.definition.source.error(error.reason, "orchestration") from error


def _build_memory(source: AgentSource) -> Memory | None:
    part = source.definition.memory_configuration
    if part is None:
        return None
    store = memory_store(source.memory, source.sessions)
    memory = Memory() if store is None else Memory(store)
    days = memory.storage_days if part.storage_days is None else part.storage_days
    summaries = part.session_summary_configuration
    most = summaries.max_recent_sessions if summaries else None
    return Memory(memory.store, days, most or memory.max_recent_sessions)


def _build_team(
    source: AgentSource, build_collaborator: Callable[[AgentSource], Agent] | None = None
) -> list[Member]:
    members, reported = [], None
    for index, one in enumerate(collaborators_of(source.definition)):
        try:
            members.append(_build_member(source, one, index, build_collaborator or build))
        except _Reported as error:  # the others are looked at, too
            reported = error
    if reported is not None:
        raise reported
    return members


def _build_member(
    source: AgentSource,
    one: AgentCollaborator,
    index: int,
    build_collaborator: Callable[[AgentSource], Agent],
) -> Member:
    plan: Plan | None = None
    remote = None
    arn = one.agent_descriptor.alias_arn if one.agent_descriptor else None
    if arn is not None:
        plan = source.resolver.find_agent(arn)
    elif source.open_collaborator is not None:
        plan = build_collaborator(source.open_collaborator(index, one)).plan
    if plan is None:
        from orchestrator.agent.bedrock_agent import BedrockAgent

        remote = BedrockAgent(str(arn))
    text = one.collaboration_instruction or ""
    relay = one.relay_conversation_history == "TO_COLLABORATOR"
    return Member(one.collaborator_name, text, plan, remote, relay)


# What an agent is made of. None of these needs another one.
_PARTS: Mapping[str, Callable[[AgentSource], Any]] = {
    "model": AgentSource.choose_model,
    "groups": _build_groups,
    "knowledge_bases": _build_knowledge_bases,
    "overrides": build_overrides,
    "guardrail": _build_guardrail,
    "collaborators": _build_team,
    "memory": _build_memory,
    "orchestration": _build_orchestration,
}
