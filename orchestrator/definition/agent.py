"""`AgentDefinition`: what an agent *is* (Bedrock: CreateAgent and its associations)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from orchestrator.definition.action_group import ActionGroupDefinition, OneOf
from orchestrator.definition.fields import (
    AGENT_ID_PATTERN,
    VERSION_PATTERN,
    Document,
    Many,
    Name,
    Part,
    Text,
    find_duplicate,
    mistake,
)
from orchestrator.definition.knowledge_base import KnowledgeBaseAssociation
from orchestrator.definition.prompt_override import PromptConfiguration, PromptOverrideConfiguration
from orchestrator.limits import REPLY_BYTES, SCRIPT_WORK, Limits

# The alias of the working draft, which every agent has (Bedrock).
TEST_ALIAS = "TSTALIASID"
# Characters. AWS: the quota of Bedrock Agents; the API's model still says 4,000.
LONGEST_INSTRUCTION = 20_000
RAISED_LENGTHS = {"Instruction": LONGEST_INSTRUCTION}
"""Longest texts, by shapes of the API, where the service's quota is above what its model says."""

# Whom a supervisor's model sends its answers to; no collaborator may be called so.
USER = "User"

AtLeastOne = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class OrchestrationExecutor(Part):
    """What orchestrates instead of the built-in loop.

    Attributes:
        lambda_: The ARN of a Lambda function; or a handler file of the agent's folder,
            `orchestration.py` or `orchestration.py:function`, which is ours.
    """

    lambda_: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None, alias="lambda"
    )


class CustomOrchestration(Part):
    """A custom orchestration.

    Attributes:
        executor: What orchestrates.
    """

    executor: OrchestrationExecutor | None = None


class GuardrailConfiguration(Part):
    """The guardrail that checks questions and answers: one of Bedrock's, or a file.

    Attributes:
        guardrail_identifier: Its id or ARN.
        guardrail_version: Its version: a number in quotes, or `DRAFT`.
        file: A local guardrail, relative to the agent's folder. Ours.
        check_results: Whether it checks the results of actions and searches, too. Ours.
    """

    guardrail_identifier: Annotated[str, Field(max_length=2048)] | None = None
    guardrail_version: Annotated[str, StringConstraints(pattern=VERSION_PATTERN)] | None = None
    file: str | None = None
    check_results: bool = False


class SessionSummaryConfiguration(Part):
    """How session summaries are used.

    Attributes:
        max_recent_sessions: How many of the last sessions prompts have a summary of.
    """

    max_recent_sessions: AtLeastOne | None = None


class MemoryConfiguration(Part):
    """What the agent remembers from one session to the next.

    Attributes:
        enabled_memory_types: The kinds of memory; there is one.
        storage_days: For how many days, from 0 to 365.
        session_summary_configuration: How session summaries are used.
    """

    enabled_memory_types: Annotated[Many[Literal["SESSION_SUMMARY"]], Field(max_length=1)]
    storage_days: Annotated[int, Field(ge=0, le=365)] | None = None
    session_summary_configuration: SessionSummaryConfiguration | None = None

    @model_validator(mode="after")
    def _check_memory_types(self) -> MemoryConfiguration:
        # AWS: exactly one memory type, and there is only SESSION_SUMMARY.
        if not self.enabled_memory_types:
            raise mistake("there is no type; write SESSION_SUMMARY", "enabledMemoryTypes")
        return self


class AgentDescriptor(OneOf):
    """Where another agent is: in AWS, or in a folder.

    Attributes:
        alias_arn: The ARN of its alias.
        folder: Its folder, inside of this agent's and relative to it. Ours.
    """

    alias_arn: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    folder: str | None = None


class AgentCollaborator(Part):
    """Another agent that this one may give work to.

    Attributes:
        collaborator_name: Its name in this team.
        agent_descriptor: Where it is.
        collaboration_instruction: When to give it work, for the model.
        relay_conversation_history: `TO_COLLABORATOR` lets it read the conversation.
    """

    READ_ONLY: ClassVar[frozenset[str]] = frozenset(
        ("agentId", "agentVersion", "collaboratorId", "clientToken", "createdAt", "lastUpdatedAt")
    )

    collaborator_name: Name
    agent_descriptor: AgentDescriptor | None = None
    # AWS: AssociateAgentCollaborator takes 1 to 4000 characters.
    collaboration_instruction: Annotated[Text, Field(min_length=1, max_length=4000)] | None = None
    relay_conversation_history: Literal["TO_COLLABORATOR", "DISABLED"] | None = None

    @model_validator(mode="after")
    def _check_reachable(self) -> AgentCollaborator:
        # Bedrock sends a supervisor's `AgentCommunication__sendMessage` to "User" to the caller
        # (recorded).
        if self.collaborator_name == USER:
            raise mistake(f"messages to {USER!r} are answers; rename it", "collaboratorName")
        if self.agent_descriptor is None:
            raise mistake(
                f"say where {self.collaborator_name!r} is: agentDescriptor: "
                "{folder: <its folder>} or {aliasArn: <the ARN of its alias>}"
            )
        return self


class AgentAlias(Part):
    """An alias that callers know the agent by; a server takes it for the agent as it is.

    Attributes:
        agent_alias_name: Its name.
        agent_alias_id: Ten letters and digits, as GetAgentAlias gives them.
    """

    READ_ONLY: ClassVar[frozenset[str]] = frozenset(
        (
            *("agentId", "agentAliasArn", "agentAliasStatus", "agentAliasHistoryEvents"),
            *("aliasInvocationState", "clientToken", "createdAt", "updatedAt", "description"),
            *("failureReasons", "routingConfiguration"),
        )
    )

    agent_alias_name: Name
    agent_alias_id: Annotated[str, StringConstraints(pattern=AGENT_ID_PATTERN)]

    @model_validator(mode="after")
    def _check_not_test_alias(self) -> AgentAlias:
        # The working draft always answers under this id; a second one would hide it.
        if self.agent_alias_id == TEST_ALIAS:
            raise mistake("every agent has it; leave it out", "agentAliasId")
        return self


class LimitsConfiguration(Part):
    """Budgets of one turn; what is left out takes the default of `orchestrator.Limits`.

    Attributes:
        iterations: Steps of the loop, that is orchestration model calls.
        model_calls: Model calls of all stages together.
        tokens: Input and output tokens of all model calls together.
        actions: Calls of actions and knowledge bases.
        parallel: Calls of one reply that run at the same time.
        reprompts: Replies in a row that could not be understood.
        script_work: What a script does by itself, in units; a statement is 100.
        seconds: Wall-clock time of the turn; null for no limit.
        action_seconds: Wall-clock time of one action; null for no limit.
        session_wait: How long an invocation waits for a session that another one has, in seconds;
            null not to wait.
        result_bytes: Size of one action's result in bytes.
        input_chars: Length of the user's input in characters.
        reply_bytes: Size of one model's reply as it comes from a server, in bytes.
    """

    iterations: AtLeastOne = 10
    model_calls: AtLeastOne = 25
    tokens: AtLeastOne = 500_000
    actions: Annotated[int, Field(ge=0)] = 50
    parallel: AtLeastOne = 8
    reprompts: Annotated[int, Field(ge=0)] = 4
    script_work: AtLeastOne = SCRIPT_WORK
    seconds: Seconds | None = 600.0
    action_seconds: Seconds | None = 60.0
    session_wait: Seconds | None = None
    result_bytes: AtLeastOne = 200_000
    input_chars: AtLeastOne = 25_000_000
    reply_bytes: AtLeastOne = REPLY_BYTES

    def as_limits(self) -> Limits:
        """The budgets as the engine takes them."""
        return Limits(**self.model_dump(exclude_unset=True))


class AgentDefinition(Document):
    """An agent: its instruction, model, prompts, actions and knowledge.

    The members are those of Amazon Bedrock's CreateAgent, CreateAgentActionGroup,
    AssociateAgentKnowledgeBase and AssociateAgentCollaborator, and GetAgent's `agentId`. Our own
    are `basePromptTemplateFile`, `apiSchema.file`, `actionGroupExecutor.python`, a handler file as
    `actionGroupExecutor.lambda`, `environment`, `retrievalConfiguration`, `aliases` and
    `limits`.

    What only Bedrock's control plane would refuse (a short instruction, a long description) is no
    error here; `lint_definition` warns of it. Names, ranges and prompt types are checked.

    Attributes:
        agent_name: The agent's name.
        agent_id: Ten letters and digits, as GetAgent gives it; made from the name when left out.
            Sessions belong to it.
        aliases: Aliases that callers of a server know the agent by. Ours.
        description: What the agent is for, for people.
        instruction: What the agent is and does, for the model. Bedrock wants 40 to
            20,000 characters.
        foundation_model: A Bedrock model or inference profile, `local`, `local:<model>`,
            `openai:<model>@<base url>`, `scripted:<file>` or `replay:<file>`.
        idle_session_ttl_in_seconds: Idle seconds after which a session ends, from 60 to 5400.
        agent_resource_role_arn: The IAM role, for Bedrock only.
        customer_encryption_key_arn: The KMS key, for Bedrock only.
        tags: Tags, for Bedrock only.
        action_groups: What the agent can do.
        knowledge_bases: What the agent can look up.
        prompt_override_configuration: Changes to the prompts of the stages.
        guardrail_configuration: The guardrail that checks questions and answers.
        memory_configuration: What the agent remembers from one session to the next.
        agent_collaboration: Whether the agent leads others, and how.
        agent_collaborators: The agents that it leads.
        orchestration_type: `CUSTOM_ORCHESTRATION` uses `customOrchestration`.
        custom_orchestration: A custom orchestration.
        orchestration: A script that orchestrates, relative to the agent's folder: `*.pl`,
            `*.ai.yaml` or `*.ppe.yaml`; it stands in the place of `customOrchestration`. Ours.
        aws_compat: Where to do as the service does, although users would expect something else:
            `single_knowledge_base`, `trace`. Ours.
        unknown_outcomes: What becomes of a turn whose process stopped in an action, when nobody
            knows whether that took effect: it waits for a decision, or ends. Ours.
        limits: Budgets of one turn.
    """

    READ_ONLY: ClassVar[frozenset[str]] = frozenset(
        (
            *("agentArn", "agentVersion", "agentStatus", "clientToken"),
            *("createdAt", "updatedAt", "preparedAt", "failureReasons", "recommendedActions"),
        )
    )

    agent_name: Name
    agent_id: Annotated[str, StringConstraints(pattern=AGENT_ID_PATTERN)] | None = None
    aliases: Many[AgentAlias] = ()
    description: str | None = None
    instruction: str = ""
    foundation_model: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    # AWS: CreateAgent takes 60 to 5400 seconds, and an inline agent 60 to 3600.
    idle_session_ttl_in_seconds: Annotated[int, Field(ge=60, le=5400)] = Field(
        default=1800, alias="idleSessionTTLInSeconds"
    )
    agent_resource_role_arn: Annotated[str, Field(max_length=2048)] | None = None
    customer_encryption_key_arn: Annotated[str, Field(max_length=2048)] | None = None
    tags: dict[str, str] | None = None
    action_groups: Many[ActionGroupDefinition] = ()
    knowledge_bases: Many[KnowledgeBaseAssociation] = ()
    prompt_override_configuration: PromptOverrideConfiguration | None = None
    guardrail_configuration: GuardrailConfiguration | None = None
    memory_configuration: MemoryConfiguration | None = None
    agent_collaboration: Literal["SUPERVISOR", "SUPERVISOR_ROUTER", "DISABLED"] | None = None
    # AWS: a supervisor has at most ten collaborators (quotas of Bedrock Agents).
    agent_collaborators: Annotated[Many[AgentCollaborator], Field(max_length=10)] = ()
    orchestration_type: Literal["DEFAULT", "CUSTOM_ORCHESTRATION"] | None = None
    custom_orchestration: CustomOrchestration | None = None
    orchestration: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    aws_compat: Many[Literal["single_knowledge_base", "trace"]] = ()
    unknown_outcomes: Literal["suspend", "end"] = "suspend"
    limits: LimitsConfiguration | None = None

    @property
    def orchestration_lambda(self) -> str | None:
        """What orchestrates instead of the built-in loop, when something does."""
        part = self.custom_orchestration
        if self.orchestration_type != "CUSTOM_ORCHESTRATION" or part is None:
            return None
        return part.executor.lambda_ if part.executor else None

    @model_validator(mode="after")
    def _check_orchestration(self) -> AgentDefinition:
        if self.orchestration and (self.orchestration_type or self.custom_orchestration):
            raise mistake(
                "the script would orchestrate, and customOrchestration too; leave "
                "orchestrationType and customOrchestration out",
                "orchestration",
            )
        if self.orchestration_type == "CUSTOM_ORCHESTRATION" and not self.orchestration_lambda:
            raise mistake(
                "nothing orchestrates; give customOrchestration: {executor: {lambda: <a handler "
                "file, or an ARN>}}",
                "orchestrationType",
            )
        return self

    @property
    def prompts(self) -> tuple[PromptConfiguration, ...]:
        """The configurations of the stages."""
        overrides = self.prompt_override_configuration
        return overrides.prompt_configurations if overrides else ()

    def prompt(self, prompt_type: str) -> PromptConfiguration | None:
        """The configuration of one stage, when there is one."""
        return next((it for it in self.prompts if it.prompt_type == prompt_type), None)

    @model_validator(mode="after")
    def _check_unique_names(self) -> AgentDefinition:
        for noun, parts, member in (
            ("alias with the id", "aliases", "agent_alias_id"),
            ("alias", "aliases", "agent_alias_name"),
            ("action group", "action_groups", "action_group_name"),
            ("knowledge base", "knowledge_bases", "knowledge_base_id"),
            ("collaborator", "agent_collaborators", "collaborator_name"),
        ):
            if found := find_duplicate(getattr(one, member) for one in getattr(self, parts)):
                index, name = found
                at = (to_camel(parts), index, to_camel(member))
                raise mistake(f"there is a second {noun} {name!r}; rename one", *at)
        return self
