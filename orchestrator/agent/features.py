"""From a definition to what an agent has besides its prompts, actions and knowledge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.engine.plan import MOST_LEVELS, Features, Member, Memory, Plan
from orchestrator.engine.remote import RemoteAgent
from orchestrator.errors import DefinitionError
from orchestrator.memory import MemoryStore

if TYPE_CHECKING:
    from orchestrator.definition import AgentCollaborator, AgentDefinition
    from orchestrator.flows.custom import Orchestration
    from orchestrator.models.embeddings import Embedder
    from orchestrator.sessions import Sessions, SessionStore

__all__ = ["features_of", "memory_store"]


def features_of(
    definition: AgentDefinition,
    root: Path | None,
    load: Callable[[Path], Plan],
    memory: MemoryStore | None,
    level: int = 1,
) -> Features:
    """What a definition gives its agent besides.

    Args:
        definition: The definition.
        root: The agent's folder, if it has one.
        load: Compiles the agent in another folder.
        memory: Keeps what is remembered; in memory when `None`.
        level: How many agents lead to this one, itself included.

    Raises:
        DefinitionError: Something in it is wrong.
    """
    from orchestrator.definition.guardrail_file import build_guardrail

    part = definition.guardrail_configuration
    return Features(
        guardrail=build_guardrail(definition, root, embedder=_embedder),
        guard_results=part is not None and part.check_results,
        collaborators=_members(definition, root, load, level),
        routes=definition.agent_collaboration == "SUPERVISOR_ROUTER",
        memory=_memory(definition, memory),
        orchestration=_orchestration(definition, root),
        aws_compat=definition.aws_compat,
    )


def _orchestration(definition: AgentDefinition, root: Path | None) -> Orchestration | None:
    if definition.orchestration is not None:
        return _script(definition, definition.orchestration, root)
    spec = definition.orchestration_lambda
    if spec is None:
        return None
    from orchestrator.definition.files import handler_of, is_arn, locate
    from orchestrator.flows.custom import LambdaOrchestration

    at = ("customOrchestration", "executor", "lambda")
    if not is_arn(spec):
        locate(definition, handler_of(spec)[0], at, root)
    try:
        return LambdaOrchestration(spec, root)
    except DefinitionError as error:
        if error.file is not None:
            raise
        raise definition.source.error(error.reason, *at) from error


def _script(definition: AgentDefinition, name: str, root: Path | None) -> Orchestration:
    from orchestrator.definition.files import locate
    from orchestrator.flows.languages import read_file
    from orchestrator.flows.orchestration import FlowOrchestration

    at = ("orchestration",)
    file = locate(definition, name, at, root)
    try:
        return FlowOrchestration(read_file(file))
    except DefinitionError as error:
        if error.line is not None:
            raise
        raise definition.source.error(error.reason, *at) from error


def _embedder() -> Embedder:
    from orchestrator.models import resolve_embedder

    return resolve_embedder("local")


def _memory(definition: AgentDefinition, store: MemoryStore | None) -> Memory | None:
    part = definition.memory_configuration
    if part is None:
        return None
    memory = Memory() if store is None else Memory(store)
    days = memory.storage_days if part.storage_days is None else part.storage_days
    summaries = part.session_summary_configuration
    most = summaries.max_recent_sessions if summaries else None
    return Memory(memory.store, days, most or memory.max_recent_sessions)


def _members(
    definition: AgentDefinition, root: Path | None, load: Callable[[Path], Plan], level: int
) -> list[Member]:
    from orchestrator.definition import collaborators_of

    return [
        _member(definition, one, index, root, load, level)
        for index, one in enumerate(collaborators_of(definition))
    ]


def _member(
    definition: AgentDefinition,
    one: AgentCollaborator,
    index: int,
    root: Path | None,
    load: Callable[[Path], Plan],
    level: int,
) -> Member:
    at = ("agentCollaborators", index, "agentDescriptor", "folder")
    where = one.agent_descriptor
    folder, arn = (where.folder, where.alias_arn) if where else (None, None)
    relay = one.relay_conversation_history == "TO_COLLABORATOR"
    plan: Plan | None = None
    remote: RemoteAgent | None = None
    if folder is not None:
        from orchestrator.definition.files import locate_folder

        path = locate_folder(definition, folder, at, root)
        if level >= MOST_LEVELS:  # before it is read, which would go down as far as folders do
            raise definition.source.error(
                f"with {one.collaborator_name!r} there are {level + 1} levels of agents that "
                f"lead agents; the most are {MOST_LEVELS}",
                *at,
            )
        plan = load(path)
    else:
        from orchestrator.agent.bedrock_agent import BedrockAgent

        remote = BedrockAgent(str(arn))
    text = one.collaboration_instruction or ""
    return Member(one.collaborator_name, text, plan, remote, relay)


def memory_store(
    memory: MemoryStore | str | Path | None,
    sessions: Sessions | SessionStore | str | Path | None,
) -> MemoryStore | None:
    """What keeps the memory that `Agent.load(memory=...)` means; in memory when `None`.

    Args:
        memory: A store, or the path of a SQLite file. By default a file beside that of the
            sessions, where they have one.
        sessions: Where sessions live.
    """
    if memory is None and isinstance(sessions, (str, Path)):
        memory = Path(sessions).with_name("memory.sqlite")
    if not isinstance(memory, (str, Path)):
        return memory
    from orchestrator.memory import SqliteMemory

    return SqliteMemory(memory)
