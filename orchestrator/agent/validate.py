"""The arguments of `Agent(...)`, checked before anything is compiled: none is ignored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from orchestrator.actions import ActionGroup
from orchestrator.actions.names import check_name
from orchestrator.agent.overrides import override_from_argument
from orchestrator.engine.plan import (
    AWS_TRACE,
    END,
    MOST_LEVELS,
    SINGLE_KNOWLEDGE_BASE,
    SUSPEND,
    Features,
    Member,
    Memory,
    Orchestration,
    Override,
    Plan,
    RemoteAgent,
)
from orchestrator.errors import DefinitionError
from orchestrator.guardrails import Guardrail
from orchestrator.knowledge import KnowledgeBase
from orchestrator.limits import Limits
from orchestrator.memory import MemoryStore
from orchestrator.prompts.placeholders import STAGES

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.sessions import Sessions, SessionStore

_SUPERVISOR = "SUPERVISOR"
_COLLABORATIONS = (_SUPERVISOR, "SUPERVISOR_ROUTER")
_COMPAT = frozenset({AWS_TRACE, SINGLE_KNOWLEDGE_BASE})
_MOST_DAYS = 365  # (Bedrock: MemoryConfiguration.storageDays)


@dataclass(frozen=True, slots=True)
class Collaborator:
    """An agent that a supervisor may give work to."""

    # The agent; a `RemoteAgent`, such as `BedrockAgent`, is asked over the network
    agent: Agent | RemoteAgent
    instruction: str  # when to give it work, for the supervisor's model
    name: str = ""  # its name in the team; the agent's own name when empty
    # Whether it reads the supervisor's conversation with the user; otherwise it knows only what it
    # was sent itself
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


def features_from_arguments(
    features: Features | None,
    *,
    guardrail: Guardrail | None,
    collaborators: Sequence[Collaborator],
    collaboration: str,
    memory: Memory | MemoryStore | str | Path | None,
    orchestration: Orchestration | Callable[..., Any] | None,
    aws_compat: Collection[str],
    unknown_outcomes: Literal["suspend", "end"],
) -> Features:
    """The features that arguments of `Agent` mean; none may stand beside `features`."""
    if collaboration not in _COLLABORATIONS:
        raise DefinitionError(
            f"collaboration={collaboration!r} is unknown; it is {' or '.join(_COLLABORATIONS)}"
        )
    if features is None:
        way = 'say when to ask it: Collaborator(agent, "everything about invoices")'
        _check_all("collaborators", collaborators, Collaborator, way)
        if orchestration is not None:
            from orchestrator.flows.custom import orchestration_of

            orchestration = orchestration_of(orchestration)
        return Features(
            guardrail=guardrail,
            collaborators=[one.as_member() for one in collaborators],
            routes=collaboration != _SUPERVISOR,
            memory=_memory(memory),
            orchestration=orchestration,
            aws_compat=aws_compat,
            unknown_outcomes=unknown_outcomes,
        )
    _check_one("features", features, Features, "Features(...)")
    arguments: dict[str, Any] = {
        "guardrail": guardrail,
        "collaborators": collaborators or None,
        "collaboration": None if collaboration == _SUPERVISOR else collaboration,
        "memory": memory,
        "orchestration": orchestration,
        "aws_compat": aws_compat or None,
        "unknown_outcomes": None if unknown_outcomes == SUSPEND else unknown_outcomes,
    }
    for argument, value in arguments.items():
        if value is not None:
            member = "routes" if argument == "collaboration" else argument
            raise DefinitionError(
                f"{argument}= would be ignored beside features=; give it inside: "
                f"Features({member}=...)"
            )
    return features


def _memory(memory: Memory | MemoryStore | str | Path | None) -> Memory | None:
    if memory is None or isinstance(memory, Memory):
        return memory
    store = memory_store(memory, None)
    return None if store is None else Memory(store)


def memory_store(
    memory: MemoryStore | str | Path | None,
    sessions: Sessions | SessionStore | str | Path | None,
) -> MemoryStore | None:
    """The store that `Agent.load(memory=...)` means; `None` for this process's memory."""
    # Sessions in a store outlive the process, so what is remembered of them has to.
    name = sessions if memory is None else memory
    if not isinstance(name, (str, Path)):
        return None if memory is None else cast("MemoryStore", memory)
    from orchestrator.memory.urls import find_memory_beside, open_memory

    return open_memory(find_memory_beside(name) if memory is None else name)


def overrides_from_arguments(
    prompts: Mapping[str, Mapping[str, Any] | Override] | None,
    override_lambda: str | Callable[..., Any] | None,
) -> dict[str, Override]:
    """The overrides that `prompts` and `override_lambda` of `Agent` mean, by prompt type."""
    prompts = prompts or {}
    _check_one("prompts", prompts, Mapping, "a mapping from prompt types to overrides")
    for stage, members in prompts.items():
        if stage not in STAGES:
            raise DefinitionError(
                f"prompts= has an unknown stage {stage!r}; there are {', '.join(STAGES)}"
            )
        way = 'a mapping such as {"basePromptTemplate": ..., "promptCreationMode": "OVERRIDDEN"}'
        _check_one(f"prompts[{stage!r}]", members, (Mapping, Override), way)
    overrides = {
        stage: override_from_argument(stage, members, override_lambda)
        for stage, members in prompts.items()
    }
    if override_lambda is not None and not any(one.parser for one in overrides.values()):
        raise DefinitionError(
            "override_lambda= would be ignored: no stage has the parserMode OVERRIDDEN; set it, as "
            'in prompts={"ORCHESTRATION": {"parserMode": "OVERRIDDEN"}}'
        )
    return overrides


def check_texts(name: object, instruction: object) -> None:
    """Refuses a name and an instruction that are something else than texts."""
    _check_one("name", name, str, "a text")
    _check_one("instruction", instruction, str, "a text that says what the agent is for")


def check_parts(
    groups: Sequence[ActionGroup], bases: Sequence[KnowledgeBase], limits: Limits | None, ttl: int
) -> None:
    """Refuses action groups, knowledge bases, limits and time-outs that are something else."""
    way = 'ActionGroup("name", actions=[...]) holds functions'
    _check_all("action_groups", groups, ActionGroup, way)
    way = "give objects with `id`, `description` and `retrieve`, such as LocalKnowledgeBase(...)"
    _check_all("knowledge_bases", bases, KnowledgeBase, way)
    if limits is not None:
        _check_one("limits", limits, Limits, "Limits(...), such as Limits(iterations=5)")
    _check_count("idle_session_ttl", ttl, 1)


def check_features(name: str, features: Features) -> None:
    """Refuses what cannot be, or would have no effect."""
    if features.guardrail is not None:
        way = "LocalGuardrail(...), or BedrockGuardrail(id) for one of Bedrock's"
        _check_one("guardrail", features.guardrail, Guardrail, way)
    elif features.guard_results:
        raise DefinitionError("guard_results=True has no effect without a guardrail=; give one")
    _check_count("guard_interval", features.guard_interval, 1)
    if features.memory is not None:
        _check_memory(features.memory)
    if isinstance(features.aws_compat, str):
        raise DefinitionError(f"aws_compat= is a list: [{features.aws_compat!r}]")
    if unknown := set(features.aws_compat) - _COMPAT:
        raise DefinitionError(
            f"agent {name!r} has unknown aws_compat options {sorted(unknown)}; there are "
            f"{', '.join(sorted(_COMPAT))}"
        )
    if features.unknown_outcomes not in (SUSPEND, END):
        raise DefinitionError(
            f"unknown_outcomes={features.unknown_outcomes!r} is unknown; it is {SUSPEND} or {END}"
        )
    _check_team(name, features)


def _check_memory(memory: Memory) -> None:
    _check_one("memory", memory, Memory, "Memory(store), or a store")
    way = "a memory store, such as InMemoryMemory() or SqliteMemory(path)"
    _check_one("memory", memory.store, MemoryStore, way)
    _check_count("storage_days", memory.storage_days, 0, _MOST_DAYS)
    _check_count("max_recent_sessions", memory.max_recent_sessions, 1)


def _check_team(name: str, features: Features) -> None:
    members = features.collaborators
    _check_all("collaborators", members, Member, "Collaborator(...).as_member() gives one")
    if features.routes and not members:
        raise DefinitionError(
            f"agent {name!r} is to route inputs (SUPERVISOR_ROUTER) and leads nobody; give it "
            "collaborators="
        )
    _check_names(name, [one.name for one in members])
    deepest = max((one.agent.depth for one in members if one.agent), default=0)
    if deepest >= MOST_LEVELS:
        raise DefinitionError(
            f"agent {name!r} leads agents that lead agents, {deepest + 1} levels deep; the most "
            f"are {MOST_LEVELS}"
        )


def _check_names(name: str, collaborators: Sequence[str]) -> None:
    # Models send their answers to `User`, and mix up upper and lower case.
    known = {"user": "User"}
    for one in collaborators:
        check_name(one, "collaborator")
        other = known.get(one.casefold())
        if other is not None:
            raise DefinitionError(
                f"a collaborator of agent {name!r} is called {one!r}, and there is {other!r} "
                "already; rename one (names that differ only in case are the same)"
            )
        known[one.casefold()] = one


def _check_all(argument: str, value: object, wanted: type, way: str) -> None:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DefinitionError(
            f"{argument}= is a list of {wanted.__name__}s, not {_describe_value(value)}"
        )
    for one in value:
        if not _is_a(argument, one, wanted):
            raise DefinitionError(
                f"{argument}= holds {wanted.__name__}s, and {_describe_value(one)} is none; {way}"
            )


def _check_one(argument: str, value: object, wanted: type | tuple[type, ...], way: str) -> None:
    if not _is_a(argument, value, wanted):
        raise DefinitionError(f"{argument}= is {way}, and not {_describe_value(value)}")


def _is_a(argument: str, value: object, wanted: type | tuple[type, ...]) -> bool:
    if isinstance(value, type):
        return False
    try:
        return isinstance(value, wanted) or _has_members(value, wanted)
    except Exception as error:  # of a property or `__getattr__` of the user's own
        raise DefinitionError(
            f"{argument}= has {_describe_value(value)}, which raised {type(error).__name__} when "
            "it was asked for its members"
        ) from error


def _has_members(value: object, wanted: type | tuple[type, ...]) -> bool:
    # From Python 3.12 on, `isinstance` of a protocol does not see what `__getattr__` hands on.
    if isinstance(wanted, tuple) or not getattr(wanted, "_is_protocol", False):
        return False
    members = {*vars(wanted), *getattr(wanted, "__annotations__", ())}
    return all(hasattr(value, name) for name in members if not name.startswith("_"))


def _check_count(argument: str, value: object, least: int, most: int | None = None) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        if value >= least and (most is None or value <= most):
            return
    span = f"from {least}" if most is None else f"from {least} to {most}"
    raise DefinitionError(f"{argument}= is a whole number {span}, and not {value!r}")


def _describe_value(value: object) -> str:
    # Plain values are shown as they are. Others may hold secrets, so only their type is named.
    if value is None or isinstance(value, (str, int, float)):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__!r}"
    return f"an object of the class {type(value).__name__!r}"
