"""A compiled agent: every stage ready to run, nothing left to build during a turn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator import parsers
from orchestrator.actions import ActionGroup, Catalog, Operation
from orchestrator.errors import DefinitionError
from orchestrator.knowledge import KnowledgeBase
from orchestrator.limits import Limits
from orchestrator.models.base import CallFormat, Model, OperationFormat
from orchestrator.parsers import Parser
from orchestrator.prompts import Dialect, Template, compile_template, dialect_for, load_dialect
from orchestrator.prompts.placeholders import (
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    ORCHESTRATION,
    POST_PROCESSING,
    PRE_PROCESSING,
)

__all__ = [
    "KNOWLEDGE_BASE_RESPONSE_GENERATION",
    "ORCHESTRATION",
    "POST_PROCESSING",
    "PRE_PROCESSING",
    "STAGES",
    "Override",
    "Plan",
    "StagePlan",
    "build_plan",
    "tool_name",
]

STAGES = (
    PRE_PROCESSING,
    ORCHESTRATION,
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    POST_PROCESSING,
)
"""The stages that an agent is compiled to."""

_OF_A_TURN = frozenset(
    {
        "question",
        "prompt_session_attributes",
        "conversation_history",
        "agent_scratchpad",
        "latest_response",
        "responses",
        "bot_response",
        "query",
        "search_results",
    }
)
"""Placeholders whose values are not the same in every turn."""

_SEARCH = {
    "searchQuery": {"type": "string", "description": "What to search for, as a full sentence."}
}
_SEARCH_SCHEMA = {"type": "object", "properties": _SEARCH, "required": ["searchQuery"]}


@dataclass(frozen=True, slots=True)
class Override:
    """What an agent changes in one stage; a member that is left out keeps the dialect's.

    Attributes:
        template: The template's text.
        source: Where the text is from, for messages.
        enabled: Whether the stage runs.
        inference: Members of the inference configuration.
        model: A model for this stage only, or its spec.
        additional: `additionalModelRequestFields`.
    """

    template: str | None = None
    source: str | None = None
    enabled: bool | None = None
    inference: Mapping[str, Any] = field(default_factory=dict)
    model: str | Model | None = None
    additional: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage of an agent, compiled.

    Attributes:
        stage: The prompt type.
        enabled: Whether a turn runs it.
        dialect: The dialect of the stage's model.
        template: The compiled template.
        model: Who answers.
        inference: Bedrock's inference configuration.
        additional: `additionalModelRequestFields`.
        tools: Converse tool specifications, when the dialect uses tools natively.
        call_format: What a well-formed call looks like, when the stage makes calls.
        creation_mode: Bedrock's `promptCreationMode`, for traces.
        new_parser: Makes a parser for one reply.
        digest: Changes with the prompt, the model or its settings.
    """

    stage: str
    enabled: bool
    dialect: Dialect
    template: Template
    model: Model
    inference: Mapping[str, Any]
    additional: Mapping[str, Any]
    tools: Sequence[Mapping[str, Any]]
    call_format: CallFormat | None
    creation_mode: str
    new_parser: Callable[[], Parser]
    digest: str

    def values(self, question: str, attributes: Mapping[str, str]) -> dict[str, str]:
        """Placeholder values of one turn.

        Args:
            question: The user's input.
            attributes: Prompt session attributes.
        """
        values = {"question": question}
        if attributes:
            values["prompt_session_attributes"] = self.dialect.partial(
                "prompt_session_attributes", attributes=dict(attributes)
            )
        return values


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled agent.

    Attributes:
        name: The agent's name.
        agent_id: Ten characters, as Bedrock's ids.
        alias_id: The alias; `TSTALIASID` is the draft's.
        version: `DRAFT`, or a number.
        stages: The four stages by prompt type.
        catalog: All operations.
        knowledge_bases: By id.
        limits: Budgets of a turn.
        idle_ttl: The idle time-out of a session, in nanoseconds.
        digest: Changes with any prompt, model or tool: journals name it, so that whoever reads
            one later knows whether the agent is still the same.
        identity: `name`, `id`, `alias` and `version`, as in Bedrock's Lambda event.
        alias_arn: The ARN that traces name.
        pre_processing: That stage, if a turn runs it.
        orchestration: The stage of the loop.
        post_processing: That stage, if a turn runs it.
    """

    name: str
    agent_id: str
    alias_id: str
    version: str
    identity: Mapping[str, str]
    alias_arn: str
    stages: Mapping[str, StagePlan]
    catalog: Catalog
    knowledge_bases: Mapping[str, KnowledgeBase]
    limits: Limits
    idle_ttl: int
    digest: str

    pre_processing: StagePlan | None = field(init=False)
    orchestration: StagePlan = field(init=False)
    post_processing: StagePlan | None = field(init=False)

    def __post_init__(self) -> None:
        stages = self.stages
        for name, stage in (
            ("pre_processing", stages[PRE_PROCESSING]),
            ("orchestration", stages[ORCHESTRATION]),
            ("post_processing", stages[POST_PROCESSING]),
        ):
            runs = stage.enabled or name == "orchestration"
            object.__setattr__(self, name, stage if runs else None)


@dataclass(slots=True)
class _Parts:
    # What all stages of one agent are made from.
    instruction: str
    model: Model
    catalog: Catalog
    knowledge_bases: Sequence[KnowledgeBase]
    templates: Path | None
    dialect_name: str | None
    resolve: Callable[[str | Model], Model]
    dialects: dict[str, Dialect] = field(default_factory=dict)

    def dialect(self, model: Model) -> Dialect:
        id = model.model_id
        if id not in self.dialects:  # stages mostly share their model
            name = self.dialect_name or dialect_for(id, self.templates)
            self.dialects[id] = load_dialect(name, self.templates).for_model(id)
        return self.dialects[id]


def build_plan(
    *,
    name: str,
    instruction: str,
    model: Model,
    groups: Sequence[ActionGroup] = (),
    knowledge_bases: Sequence[KnowledgeBase] = (),
    overrides: Mapping[str, Override] | None = None,
    templates: Path | None = None,
    dialect: str | None = None,
    limits: Limits | None = None,
    idle_ttl_seconds: int = 1800,
    agent_id: str = "",
    alias_id: str = "TSTALIASID",
    version: str = "DRAFT",
    resolve: Callable[[str | Model], Model],
) -> Plan:
    """Compiles an agent.

    Args:
        name: The agent's name.
        instruction: What it is for.
        model: Answers every stage that names no model of its own.
        groups: Action groups.
        knowledge_bases: What it may search.
        overrides: Changes by prompt type.
        templates: The user's own templates folder, whose files win over the shipped ones.
        dialect: The dialect of all stages; chosen by each model's id when `None`.
        limits: Budgets of a turn.
        idle_ttl_seconds: Idle time-out of a session.
        agent_id: Ten letters and digits; made from the name when empty.
        alias_id: The alias.
        version: The version.
        resolve: Turns the model spec of a stage into a model.

    Raises:
        DefinitionError: Something in it is wrong; `TemplateError` when it is a template.
    """
    if not instruction.strip():
        raise DefinitionError(f"agent {name!r} has no instruction: say what it is for")
    if templates is not None and not templates.is_dir():
        raise DefinitionError(
            f"the templates folder {str(templates)!r} of agent {name!r} is not there; make it, or "
            "leave `templates=` out"
        )
    catalog = Catalog(groups)
    parts = _Parts(instruction, model, catalog, knowledge_bases, templates, dialect, resolve)
    overrides = overrides or {}
    stages = {stage: _stage(stage, overrides.get(stage, Override()), parts) for stage in STAGES}
    agent_id = agent_id or made_id(name)
    return Plan(
        name=name,
        agent_id=agent_id,
        alias_id=alias_id,
        version=version,
        identity={"name": name, "id": agent_id, "alias": alias_id, "version": version},
        alias_arn=f"arn:aws:bedrock:us-east-1:000000000000:agent-alias/{agent_id}/{alias_id}",
        stages=stages,
        catalog=catalog,
        knowledge_bases={base.id: base for base in knowledge_bases},
        limits=limits or Limits(),
        idle_ttl=idle_ttl_seconds * 1_000_000_000,
        digest=_digest([[stage.enabled, stage.digest, stage.tools] for stage in stages.values()]),
    )


def made_id(name: str) -> str:
    """The id of an agent that has none: ten letters and digits, made from its name."""
    return hashlib.sha256(name.encode()).hexdigest()[:10].upper()


def _stage(stage: str, override: Override, parts: _Parts) -> StagePlan:
    model = parts.resolve(override.model) if override.model else parts.model
    dialect = parts.dialect(model)
    default = dialect.stages[stage]
    own = override.template is not None
    template = compile_template(
        override.template if override.template is not None else default.template,
        stage=stage,
        dialect=dialect,
        source=override.source if own else str(default.source),
    )
    fixed = _fixed_values(template, dialect, parts)
    calls = stage == ORCHESTRATION
    if calls and override.enabled is False:
        raise DefinitionError(
            "an agent without the ORCHESTRATION stage is not supported yet; leave its "
            "promptState out, or ask the model itself"
        )
    return StagePlan(
        stage=stage,
        # A stage that is off by default is meant to run when its template is overridden.
        enabled=default.enabled or own if override.enabled is None else override.enabled,
        dialect=dialect,
        template=template.fixed(fixed),
        model=model,
        inference={**default.inference, **override.inference},
        additional=override.additional,
        tools=_tool_specs(parts) if calls and dialect.protocol == "tool_use" else (),
        call_format=_call_format(dialect, parts) if calls else None,
        creation_mode="OVERRIDDEN" if own else "DEFAULT",
        new_parser=parsers.maker(dialect.parser, stage),
        digest=_digest([template.text, fixed, model.model_id, dialect.name, override.inference]),
    )


def _digest(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _fixed_values(template: Template, dialect: Dialect, parts: _Parts) -> dict[str, str]:
    # Whatever a turn does not bring is known now; what nobody brings is empty.
    values = {use.name: "" for use in template.placeholders if use.name not in _OF_A_TURN}
    values |= {
        "instruction": parts.instruction,
        "tools": dialect.partial("tools", tools=_descriptions(dialect, parts)),
    }
    if parts.catalog.ask_user:
        values["ask_user_missing_information"] = dialect.partial("ask_user_missing_information")
    if parts.knowledge_bases:
        for name in ("knowledge_base_guideline", "knowledge_base_additional_guideline"):
            values[name] = dialect.partial(name)
    return values


def _descriptions(dialect: Dialect, parts: _Parts) -> list[dict[str, Any]]:
    searches = [
        {
            "name": f"GET::x_amz_knowledgebase_{base.id}::Search",
            "description": base.description,
            "parameters": [{"name": "searchQuery", "required": True, **_SEARCH["searchQuery"]}],
        }
        for base in parts.knowledge_bases
    ]
    return [*parts.catalog.descriptions(dialect.protocol), *searches]


def _tool_specs(parts: _Parts) -> Sequence[Mapping[str, Any]]:
    searches = [
        {
            "toolSpec": {
                "name": f"GET__x_amz_knowledgebase_{base.id}__Search",
                "description": base.description or "Searches a knowledge base.",
                "inputSchema": {"json": _SEARCH_SCHEMA},
            }
        }
        for base in parts.knowledge_bases
    ]
    specs = parts.catalog.tool_specs()
    return (*specs, *searches) if searches else specs


def tool_name(operation: Operation, protocol: str) -> str:
    """An operation's name in the protocol's grammar."""
    return operation.tool_use_name if protocol == "tool_use" else operation.xml_name


def _call_format(dialect: Dialect, parts: _Parts) -> CallFormat:
    protocol = dialect.protocol
    mark = "__" if protocol == "tool_use" else "::"
    searches = [
        OperationFormat(f"GET{mark}x_amz_knowledgebase_{base.id}{mark}Search", _SEARCH_SCHEMA)
        for base in parts.knowledge_bases
    ]
    operations = [
        OperationFormat(tool_name(operation, protocol), operation.schema)
        for operation in parts.catalog.operations
    ]
    ask_user, unknown = parts.catalog.ask_user, dialect.unknown_value
    return CallFormat(protocol, (*operations, *searches), ask_user, unknown)
