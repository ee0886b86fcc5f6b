"""A compiled agent: every stage ready to run, nothing left to build during a turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from orchestrator.actions import Catalog, Executor
from orchestrator.errors import DefinitionError
from orchestrator.guardrails import Guardrail
from orchestrator.knowledge import KnowledgeBase
from orchestrator.limits import Limits
from orchestrator.memory import MemoryStore
from orchestrator.message import Message
from orchestrator.models.base import CallFormat, Model
from orchestrator.parsers import Parser
from orchestrator.prompts import Dialect, Template
from orchestrator.prompts.placeholders import (
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    MEMORY_SUMMARIZATION,
    ORCHESTRATION,
    POST_PROCESSING,
    PRE_PROCESSING,
    ROUTING_CLASSIFIER,
)
from orchestrator.prompts.steps import EMPTY

if TYPE_CHECKING:
    from orchestrator.engine.effects import Effect
    from orchestrator.engine.results import Result
    from orchestrator.engine.state import Turn

SINGLE_KNOWLEDGE_BASE = "single_knowledge_base"
"""The `aws_compat` option of an agent that has a knowledge base and nothing else: as the service,
it searches for the user's input as it is, and ignores its instruction."""

AWS_TRACE = "trace"
"""The `aws_compat` option for traces as the service writes them, where ours say more; see
`docs/traces.md`."""

SUSPEND, END = "suspend", "end"
"""The options of `unknown_outcomes`; see `Features`."""

INLINE_AGENT = "INLINE_AGENT"
"""The id of every agent that is defined in the call; its traces leave it out (recorded)."""

MOST_LEVELS = 3
"""How deep agents may lead agents that lead agents."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Override:
    """What an agent changes in one stage; a member that is left out keeps the dialect's."""

    template: str | None = None
    source: str | None = None  # where the text is from, for messages
    # The language it is written in; by default what the source's ending says
    language: str | None = None
    enabled: bool | None = None
    inference: Mapping[str, Any] = field(default_factory=dict)
    model: str | Model | None = None  # a model for this stage only, or its spec
    additional: Mapping[str, Any] = field(default_factory=dict)  # `additionalModelRequestFields`
    # Makes the custom parser, from the agent's identity, the stage, and whether its model calls
    # tools natively; the dialect's parser when `None`
    parser: Callable[[Mapping[str, str], str, bool], Callable[[], Parser]] | None = None
    parser_name: str = ""  # names that parser in traces (Bedrock: `overrideLambda`)


@dataclass(slots=True, eq=False, repr=False)
class RemoteReply:
    """What a remote agent answered."""

    text: str
    citations: Sequence[Mapping[str, Any]] = ()  # Bedrock's citations
    trace: Sequence[Mapping[str, Any]] = ()  # its trace parts, if it gave any
    files: Sequence[
        Mapping[str, Any]
    ] = ()  # files that it made: `name`, `type` and `bytes` of each


@runtime_checkable
class RemoteAgent(Protocol):
    """A remote agent. Safe for many threads at once."""

    alias_arn: str  # the ARN of its alias

    def invoke(
        self,
        text: str,
        session_id: str,
        session_attributes: Mapping[str, str],
        prompt_session_attributes: Mapping[str, str],
    ) -> RemoteReply:
        """Has the agent answer `text`. May block.

        Raises:
            ActionOutcomeUnknown: It was asked, and its answer was lost: nobody knows what it did.
            DependencyFailed: It failed, or could not be reached.
        """


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Member:
    """An agent that a supervisor may give work to (Bedrock: a collaborator)."""

    name: str
    instruction: str  # when to give it work, for the supervisor's model
    agent: Plan | None = None
    remote: RemoteAgent | None = None  # the agent, when it is remote
    # Whether it reads the supervisor's conversation with the user (`relayConversationHistory`)
    relay: bool = False

    @property
    def alias_arn(self) -> str:
        """The ARN that traces name."""
        if self.agent is not None:
            return self.agent.alias_arn
        return self.remote.alias_arn if self.remote is not None else ""


def _in_memory() -> MemoryStore:
    from orchestrator.memory import InMemoryMemory

    return InMemoryMemory()


@dataclass(frozen=True, slots=True)
class Memory:
    """What an agent remembers from one session to the next (Bedrock: session summaries)."""

    # Keeps the summaries; in memory when it is left out
    store: MemoryStore = field(default_factory=_in_memory)
    storage_days: int = 30  # for how many days, from 0 to 365
    max_recent_sessions: int = 20  # how many of the last sessions the model reads


class Orchestration(Protocol):
    """Decides what a turn does, instead of the built-in loop. Serves many turns at once.

    Besides, it may have `groups`, action groups that it calls and no model knows of, and a
    `digest`, which changes with what it does; by default, with its name.
    """

    name: str  # for errors

    def run(self, turn: Turn) -> Generator[Effect, Any, Result]:
        """The turn between pre- and post-processing: yields effects, and is sent their outcomes.

        It is run again from the turn's beginning, with the journal's outcomes, to go on after a
        return of control or a crash, and for the trace. So it has to do the same again when it is
        sent the same.
        """


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Features:
    """What an agent has besides its prompts, actions and knowledge."""

    guardrail: Guardrail | None = None
    guard_results: bool = False  # whether it checks the results of actions and searches, too
    # After how many characters it checks an answer that streams (Bedrock: `applyGuardrailInterval`)
    guard_interval: int = 50
    collaborators: Sequence[Member] = ()
    # Whether inputs go to a collaborator at once where one is fit for it (`SUPERVISOR_ROUTER`)
    routes: bool = False
    memory: Memory | None = None
    orchestration: Orchestration | None = None
    # Where to do as the service does, although it is not what users would expect:
    # `single_knowledge_base`, `trace`
    aws_compat: Collection[str] = ()
    # What becomes of a turn whose process stopped in an action, when nobody knows whether that took
    # effect: `suspend` has it wait for somebody's decision, `end` ends it with
    # `ActionOutcomeUnknown`
    unknown_outcomes: Literal["suspend", "end"] = "suspend"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StagePlan:
    """One stage of an agent, compiled."""

    stage: str
    enabled: bool  # whether a turn runs it
    dialect: Dialect
    template: Template
    model: Model
    inference: Mapping[str, Any]
    additional: Mapping[str, Any]  # `additionalModelRequestFields`
    # Converse tool specifications, when the dialect uses tools natively
    tools: Sequence[Mapping[str, Any]]
    call_format: CallFormat | None  # what a well-formed call looks like, when the stage makes calls
    creation_mode: str  # Bedrock's `promptCreationMode`, for traces
    new_parser: Callable[[], Parser]  # makes a parser for one reply
    digest: str  # changes with the prompt, the model or its settings
    parser_name: str = ""  # names the custom parser; empty for the dialect's
    # Which parser of ours `new_parser` makes, for the loop's replies; empty where it makes another
    loop_parser: str = ""
    verbatim: bool = False  # whether the reply is the answer as it is: ORCHESTRATION is off
    # Converse's `toolChoice`, of a custom orchestration
    tool_choice: Mapping[str, Any] | None = None
    # Whether the model knows only those functions that its prompt describes, and no `tools`
    tools_in_prompt: bool = False
    # The values that are the same in every turn, which are in the template already, and those of
    # what was appended to it; for snapshots of the plan
    fixed: Mapping[str, str] = field(default_factory=dict)
    appended: Mapping[str, str] | None = None

    def to_history_message(self, text: str) -> Message:
        """The text of an answer, as later turns see it in their history."""
        if not self.verbatim:
            return self.dialect.answer_message([{"text": f"<answer>{text}</answer>"}])
        blocks = [{"text": text if text.strip() else EMPTY}]
        return Message("assistant", blocks, "conversation_history")

    def attribute_values(self, attributes: Mapping[str, str]) -> dict[str, str]:
        """The placeholder value of prompt session attributes."""
        name = "prompt_session_attributes"
        return {name: self.dialect.partial(name, attributes=dict(attributes))}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """A compiled agent."""

    name: str
    agent_id: str  # ten characters, as Bedrock's ids
    alias_id: str  # the alias; `TSTALIASID` is the draft's
    version: str  # `DRAFT`, or a number
    identity: Mapping[str, str]  # `name`, `id`, `alias` and `version`, as in Bedrock's Lambda event
    alias_arn: str  # the ARN that traces name
    stages: Mapping[str, StagePlan]
    catalog: Catalog
    knowledge_bases: Mapping[str, KnowledgeBase]
    limits: Limits
    idle_ttl: int  # the idle time-out of a session, in nanoseconds
    # Changes with any prompt, model or tool: journals name it, so that whoever reads one later
    # knows whether the agent is still the same
    digest: str
    features: Features = Features()
    instruction: str = ""
    held: Sequence[Any] = ()  # what may have to be closed: executors and knowledge bases
    tenant: str = ""  # whose sessions and memories it has, among those that share it

    # Stands for the tenant in keys: 32 hexadecimal digits; empty without one
    tenant_key: str = field(init=False)
    # Whose sessions and memories they are: the agent's id, its alias and its tenant
    owner: str = field(init=False)
    collaborators: Mapping[str, Member] = field(init=False)
    pre_processing: StagePlan | None = field(init=False)  # that stage, if a turn runs it
    orchestration: StagePlan = field(init=False)
    post_processing: StagePlan | None = field(init=False)  # that stage, if a turn runs it
    # The stage that answers from search results, if searches go through it
    knowledge_response: StagePlan | None = field(init=False)
    routing: StagePlan | None = field(init=False)  # the stage that routes inputs, if one does
    # The stage that summarises sessions, if they are remembered
    memory_stage: StagePlan | None = field(init=False)
    guardrail: Guardrail | None = field(init=False)
    shortcut: bool = field(init=False)
    # Whether a turn is only pre-processing, the loop and post-processing
    plain: bool = field(init=False)
    # Whether it is only the loop, of an agent that leads no others
    only_reacts: bool = field(init=False)
    depth: int = field(init=False)  # how many levels of agents there are: 1 without collaborators

    def close(self) -> None:
        """Ends what the agent and its team have begun: servers, scratch folders, open files."""
        for one in self.held:
            if callable(close := getattr(one, "close", None)):
                close()
        for member in self.collaborators.values():
            if member.agent is not None:
                member.agent.close()

    def for_tenant(self, tenant: str) -> Plan:
        """The same agent and team, with sessions and memories that are the tenant's own."""
        features = self._change_team(lambda plan: plan.for_tenant(tenant))
        return replace(self, features=features, tenant=tenant)

    def with_models(self, change: Callable[[Model], Model]) -> Plan:
        """The same agent and team, with the models that `change` makes of theirs."""
        stages = {
            name: replace(stage, model=change(stage.model)) for name, stage in self.stages.items()
        }
        features = self._change_team(lambda plan: plan.with_models(change))
        return replace(self, stages=stages, features=features)

    def with_executors(self, change: Callable[[Executor], Executor]) -> Plan:
        """The same agent and team, with the executors that `change` makes of theirs."""
        features = self._change_team(lambda plan: plan.with_executors(change))
        return replace(self, catalog=self.catalog.with_executors(change), features=features)

    def _change_team(self, change: Callable[[Plan], Plan]) -> Features:
        team = [
            replace(one, agent=change(one.agent)) if one.agent is not None else one
            for one in self.features.collaborators
        ]
        return replace(self.features, collaborators=team) if team else self.features

    def __post_init__(self) -> None:
        """Finds what a turn runs."""
        features = self.features
        members = {one.name: one for one in features.collaborators}
        tenant_key = tenant_key_of(self.tenant)
        owner = owner_of(self.agent_id, self.alias_id, tenant_key)
        derived = {
            "tenant_key": tenant_key,
            "owner": owner,
            "collaborators": members,
            "pre_processing": self._find_enabled_stage(PRE_PROCESSING),
            "orchestration": self.stages[ORCHESTRATION],
            "post_processing": self._find_enabled_stage(POST_PROCESSING),
            "knowledge_response": self._find_enabled_stage(KNOWLEDGE_BASE_RESPONSE_GENERATION),
            "routing": self._require_stage(ROUTING_CLASSIFIER)
            if features.routes and members
            else None,
            "memory_stage": self._require_stage(MEMORY_SUMMARIZATION) if features.memory else None,
            "guardrail": features.guardrail,
            "shortcut": self._takes_shortcut(),
            "depth": 1 + max((it.agent.depth for it in members.values() if it.agent), default=0),
        }
        special = ("routing", "guardrail", "shortcut")
        derived["plain"] = not (features.orchestration or any(derived[name] for name in special))
        others = members or derived["pre_processing"] or derived["post_processing"]
        derived["only_reacts"] = derived["plain"] and not others
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def _find_enabled_stage(self, stage: str) -> StagePlan | None:
        found = self.stages.get(stage)
        return found if found is not None and found.enabled else None

    def _require_stage(self, stage: str) -> StagePlan | None:
        found = self.stages.get(stage)
        if found is None:
            raise DefinitionError(
                f"the dialect {self.stages[ORCHESTRATION].dialect.name!r} has no template for "
                f"{stage}, which agent {self.name!r} needs; give it one in templates/"
            )
        return found if found.enabled else None

    def _takes_shortcut(self) -> bool:
        return (
            SINGLE_KNOWLEDGE_BASE in self.features.aws_compat
            and len(self.knowledge_bases) == 1
            and not (self.catalog.operations or self.catalog.ask_user)
            and not self.features.collaborators
        )


def owner_of(agent_id: str, alias_id: str, tenant_key: str) -> str:
    """Whose sessions and memories those of an agent are."""
    # The key is of a fixed length, and last: no tenant's name makes another's owner.
    return f"{agent_id}/{alias_id}/{tenant_key}" if tenant_key else f"{agent_id}/{alias_id}"


def tenant_key_of(tenant: str) -> str:
    """What stands for a tenant in owners, and in names of folders; empty for none."""
    if not tenant:
        return ""
    return hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:32]
