"""What an agent has besides its prompts, actions and knowledge: its guardrail, team, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.agent.source import AgentSource, errors_at
from orchestrator.engine.plan import Features, Member, Memory, Orchestration, Plan, RemoteAgent
from orchestrator.errors import DefinitionError
from orchestrator.memory import MemoryStore

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.definition import AgentCollaborator
    from orchestrator.guardrails import Guardrail
    from orchestrator.models.embeddings import Embedder
    from orchestrator.sessions import Sessions, SessionStore


@dataclass(frozen=True, slots=True)
class Collaborator:
    """An agent that a supervisor may give work to.

    Attributes:
        agent: The agent; a `RemoteAgent`, such as `BedrockAgent`, is asked over the network.
        instruction: When to give it work, for the supervisor's model.
        name: Its name in the team; the agent's own name when empty.
        relay_conversation_history: Whether it reads the supervisor's conversation with the user;
            otherwise it knows only what it was sent itself.
    """

    agent: Agent | RemoteAgent
    instruction: str
    name: str = ""
    relay_conversation_history: bool = False

    def as_member(self) -> Member:
        """The collaborator, as a plan takes it.

        Raises:
            DefinitionError: A remote agent has no name in the team, or it is no agent.
        """
        agent, relay = self.agent, self.relay_conversation_history
        if isinstance(agent, RemoteAgent):
            if not self.name:
                raise DefinitionError(f"give the collaborator {agent.alias_arn!r} a name")
            return Member(self.name, self.instruction, None, agent, relay)
        plan = getattr(agent, "plan", None)
        if not isinstance(plan, Plan):
            raise DefinitionError(
                f"a collaborator is an Agent, such as Agent.load(folder), or a BedrockAgent, and "
                f"not {agent!r}"
            )
        return Member(self.name or agent.name, self.instruction, plan, None, relay)


def build_features(source: AgentSource, build_plan: Callable[[AgentSource], Plan]) -> Features:
    """What a definition asks for besides.

    Raises:
        DefinitionError: Something in it is wrong.
    """
    definition = source.definition
    part = definition.guardrail_configuration
    return Features(
        guardrail=_build_guardrail(source),
        guard_results=part is not None and part.check_results,
        collaborators=_build_members(source, build_plan),
        routes=definition.agent_collaboration == "SUPERVISOR_ROUTER",
        memory=_build_memory(source),
        orchestration=source.objects.orchestration or _build_orchestration(source),
        aws_compat=definition.aws_compat,
    )


def _build_guardrail(source: AgentSource) -> Guardrail | None:
    if source.objects.guardrail is not None:
        return source.objects.guardrail
    from orchestrator.definition.guardrail_file import build_guardrail

    part = source.definition.guardrail_configuration
    if part is not None and part.guardrail_identifier:
        source.resolver.check_guardrail(part.guardrail_identifier)
    return build_guardrail(source.definition, source.folder, embedder=_embedder)


def _embedder() -> Embedder:
    from orchestrator.models import resolve_embedder

    return resolve_embedder("local")


def _build_orchestration(source: AgentSource) -> Orchestration | None:
    definition = source.definition
    if definition.orchestration is not None:
        return _read_script(source, definition.orchestration)
    spec = definition.orchestration_lambda
    return None if spec is None else _find_orchestration(source, spec)


def _find_orchestration(source: AgentSource, spec: str) -> Orchestration:
    from orchestrator.definition.files import handler_of, is_arn, locate
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
    from orchestrator.definition.files import locate
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


def _build_members(source: AgentSource, build_plan: Callable[[AgentSource], Plan]) -> list[Member]:
    from orchestrator.definition import collaborators_of

    return [
        _build_member(source, one, index, build_plan)
        for index, one in enumerate(collaborators_of(source.definition))
    ]


def _build_member(
    source: AgentSource,
    one: AgentCollaborator,
    index: int,
    build_plan: Callable[[AgentSource], Plan],
) -> Member:
    plan: Plan | None = None
    remote: RemoteAgent | None = None
    arn = one.agent_descriptor.alias_arn if one.agent_descriptor else None
    if arn is not None:
        plan = source.resolver.find_agent(arn)
    elif source.open_collaborator is not None:
        plan = build_plan(source.open_collaborator(index, one))
    if plan is None:
        from orchestrator.agent.bedrock_agent import BedrockAgent

        remote = BedrockAgent(str(arn))
    text = one.collaboration_instruction or ""
    relay = one.relay_conversation_history == "TO_COLLABORATOR"
    return Member(one.collaborator_name, text, plan, remote, relay)


def memory_store(
    memory: MemoryStore | str | Path | None,
    sessions: Sessions | SessionStore | str | Path | None,
) -> MemoryStore | None:
    """The store that `Agent.load(memory=...)` means; `None` for this process's memory."""
    # Sessions in a file outlive the process, so what is remembered of them has to.
    if memory is None and isinstance(sessions, (str, Path)):
        memory = Path(sessions).with_name("memory.sqlite")
    if not isinstance(memory, (str, Path)):
        return memory
    from orchestrator.memory import SqliteMemory

    return SqliteMemory(memory)
