"""Compiles an agent: everything that a turn needs is made here, once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator import parsers
from orchestrator.actions import CODE_INTERPRETER, ActionGroup, Catalog
from orchestrator.agent.validate import check_features
from orchestrator.engine.plan import Features, Override, Plan, StagePlan
from orchestrator.engine.toolbox import Toolbox
from orchestrator.errors import DefinitionError
from orchestrator.knowledge import KnowledgeBase
from orchestrator.limits import Limits
from orchestrator.models.base import Model
from orchestrator.parsers.stages import Verbatim
from orchestrator.prompts import Dialect, Template, compile_template, dialect_for, load_dialect
from orchestrator.prompts.appended_tools import append_tools, describes_tools, read_appended_tools
from orchestrator.prompts.placeholders import ORCHESTRATION, PRE_PROCESSING, STAGES
from orchestrator.prompts.values import AgentFacts, render_agent_values

if TYPE_CHECKING:
    from orchestrator.models.example_classifier import CategoryExamples


@dataclass(slots=True, eq=False, repr=False)
class _Parts:
    # What all stages of one agent are made from.
    instruction: str
    model: Model
    toolbox: Toolbox
    features: Features
    identity: Mapping[str, str]
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


def check_instruction(name: str, instruction: str) -> None:
    """Raises `DefinitionError` when an agent has no instruction."""
    if not instruction.strip():
        raise DefinitionError(f"agent {name!r} has no instruction: say what it is for")


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
    features: Features | None = None,
    resolve: Callable[[str | Model], Model],
) -> Plan:
    """Compiles an agent of the arguments of `Agent`.

    `resolve` turns the model spec of a stage into a model.
    """
    check_instruction(name, instruction)
    if templates is not None and not (templates.is_dir() or _has_memory_beside(templates)):
        raise DefinitionError(
            f"the templates folder {str(templates)!r} of agent {name!r} is not there; make it, or "
            "leave `templates=` out"
        )
    # Checked before anything is compiled, so that a mistake is cheap.
    features = features or Features()
    check_features(name, features)
    unseen = _find_hidden_groups(groups, features)
    catalog = Catalog(groups, unseen)
    agent_id = agent_id or derive_agent_id(name)
    identity = {"name": name, "id": agent_id, "alias": alias_id, "version": version}
    toolbox = Toolbox(catalog, knowledge_bases, [one.name for one in features.collaborators])
    parts = _Parts(instruction, model, toolbox, features, identity, templates, dialect, resolve)
    stages = _stages(overrides or {}, parts)
    return Plan(
        name=name,
        agent_id=agent_id,
        alias_id=alias_id,
        version=version,
        identity=identity,
        alias_arn=f"arn:aws:bedrock:us-east-1:000000000000:agent-alias/{agent_id}/{alias_id}",
        stages=stages,
        catalog=catalog,
        knowledge_bases={base.id: base for base in knowledge_bases},
        limits=limits or Limits(),
        idle_ttl=idle_ttl_seconds * 1_000_000_000,
        digest=_plan_digest(stages.values(), features),
        features=features,
        instruction=instruction,
        held=(*(group.executor for group in (*groups, *unseen)), *knowledge_bases),
    )


def _find_hidden_groups(groups: Sequence[ActionGroup], features: Features) -> list[ActionGroup]:
    # The loop of a custom orchestration calls these itself, so no model sees them.
    own = getattr(features.orchestration, "groups", ())
    code = any(group.signature == CODE_INTERPRETER and group.enabled for group in groups)
    return [group for group in own if not (code and group.signature == CODE_INTERPRETER)]


def _plan_digest(stages: Iterable[StagePlan], features: Features) -> str:
    compiled: list[Any] = [[stage.enabled, stage.digest, stage.tools] for stage in stages]
    team = [
        [it.name, it.alias_arn, it.agent.digest if it.agent else ""]
        for it in features.collaborators
    ]
    if features.orchestration is not None:
        own = getattr(features.orchestration, "digest", features.orchestration.name)
        return _digest([compiled, team, own])
    return _digest([compiled, team] if team else compiled)


def _has_memory_beside(templates: Path) -> bool:
    # Texts about memory are looked for there, also by agents that have no other templates.
    return templates.name == "templates" and templates.with_name("memory").is_dir()


def _stages(overrides: Mapping[str, Override], parts: _Parts) -> dict[str, StagePlan]:
    stages = {}
    for stage in STAGES:
        override = overrides.get(stage, Override())
        model = parts.resolve(override.model) if override.model else parts.model
        if stage in parts.dialect(model).stages:
            stages[stage] = _stage(stage, override, model, parts)
    pre = stages[PRE_PROCESSING]
    override = overrides.get(PRE_PROCESSING, Override())
    own = override.template or override.model
    if pre.enabled and not own and _is_embedded(pre):
        stages[PRE_PROCESSING] = _use_example_classifier(pre, parts)
    main = stages[ORCHESTRATION]
    if main.dialect.grounded and _is_embedded(main):
        stages[ORCHESTRATION] = _learn_scope(main, parts)
    return stages


def _is_embedded(stage: StagePlan) -> bool:
    if stage.dialect.name != "local":
        return False
    from orchestrator.models.local import LocalModel

    # A model that was scripted or recorded in its place answers for itself.
    return type(stage.model) is LocalModel


def _use_example_classifier(stage: StagePlan, parts: _Parts) -> StagePlan:
    # The embedded model sorts inputs worse than their nearest examples do.
    from orchestrator.models import resolve_embedder
    from orchestrator.models.example_classifier import ExampleClassifier

    examples, text = _read_examples(stage)
    model = ExampleClassifier(_describe_choices(stage, parts), examples, resolve_embedder("local"))
    return replace(stage, model=model, digest=_digest([stage.digest, model.model_id, text]))


def _learn_scope(stage: StagePlan, parts: _Parts) -> StagePlan:
    # Nor does it see well what has nothing to do with its task.
    from orchestrator.models import resolve_embedder
    from orchestrator.models.scope import build_scope

    choices = _describe_choices(stage, parts)
    if stage.call_format is None or not choices:
        return stage
    examples, _ = _read_examples(stage)
    members = {it.name: it.instruction for it in parts.features.collaborators}
    embedder = resolve_embedder("local")
    scope = build_scope(parts.instruction, choices, examples.texts, embedder, members)
    return replace(stage, call_format=replace(stage.call_format, scope=scope))


def _read_examples(stage: StagePlan) -> tuple[CategoryExamples, str]:
    from orchestrator.models.example_classifier import EXAMPLES_FILE, CategoryExamples

    text, source = stage.dialect.read(EXAMPLES_FILE)
    return CategoryExamples.read(text, source), text


def _describe_choices(stage: StagePlan, parts: _Parts) -> list[Mapping[str, Any]]:
    tools = parts.toolbox.descriptions(stage.dialect.protocol)
    members = [
        {"name": it.name, "description": it.instruction} for it in parts.features.collaborators
    ]
    own = [tool for tool in tools if not re.match("user(__|::)askuser|AgentComm", tool["name"])]
    return [*own, *members]


def derive_agent_id(name: str) -> str:
    """The id of an agent that has none: ten letters and digits, made from its name."""
    return hashlib.sha256(name.encode()).hexdigest()[:10].upper()


def _stage(stage: str, override: Override, model: Model, parts: _Parts) -> StagePlan:
    dialect = parts.dialect(model)
    default = dialect.stages[stage]
    own = override.template is not None
    off = stage == ORCHESTRATION and override.enabled is False
    text, source = (_UNPROMPTED, None) if off else _template_text(stage, override, dialect)
    template = compile_template(
        text,
        stage=stage,
        dialect=dialect,
        source=source,
        language=override.language if own and not off else None,
    )
    fixed = _compute_fixed_values([use.name for use in template.placeholders], dialect, parts)
    calls = stage == ORCHESTRATION and not off
    reads = _find_prompt_dialect(dialect, model, parts) if calls else None
    template, appended, values = _append_tools(template, reads, model, parts)
    native = dialect.protocol == "tool_use"
    new_parser = Verbatim if off else parsers.maker(dialect.parser, stage)
    if override.parser is not None:
        new_parser = override.parser(parts.identity, stage, native)
    return StagePlan(
        stage=stage,
        # A stage that is off by default is meant to run when its template is overridden.
        enabled=default.enabled or own if override.enabled is None else override.enabled,
        dialect=dialect,
        template=template.fill_fixed(fixed),
        model=model,
        inference={
            **(_drop_stop_sequences(default.inference) if off else default.inference),
            **template.inference,
            **override.inference,
        },
        additional=override.additional,
        tools=parts.toolbox.tool_specs() if calls and native else (),
        call_format=parts.toolbox.call_format(dialect) if calls else None,
        creation_mode="OVERRIDDEN" if own else "DEFAULT",
        new_parser=new_parser,
        loop_parser=dialect.parser if calls and override.parser is None else "",
        digest=_digest(
            [
                *_to_digest_input(template),
                fixed,
                model.model_id,
                dialect.name,
                override.inference,
                *appended,
            ]
        ),
        parser_name=override.parser_name,
        verbatim=off,
        tools_in_prompt=reads is not None,
        fixed=fixed,
        appended=values,
    )


def _find_prompt_dialect(dialect: Dialect, model: Model, parts: _Parts) -> Dialect | None:
    """The dialect that describes functions in the prompt, where the model knows no others."""
    if dialect.tools_in_prompt or parts.dialect_name is None:
        return dialect if dialect.tools_in_prompt else None
    # A dialect that was chosen by its name gives the model's requests tools, which an embedded
    # model does not read.
    own = load_dialect(dialect_for(model.model_id, parts.templates), parts.templates)
    return own if own.tools_in_prompt and own.protocol == dialect.protocol else None


def _append_tools(
    template: Template, reads: Dialect | None, model: Model, parts: _Parts
) -> tuple[Template, list[Any], dict[str, str] | None]:
    """The template with the functions that it does not describe.

    With it, what its digest has of them, and their values. `reads` is the dialect that describes
    them in the prompt, if the model knows no others.
    """
    # The prompts of a custom orchestration are its own.
    if reads is None or describes_tools(template) or parts.features.orchestration is not None:
        return template, [], None
    added, dialect = read_appended_tools(reads)
    values = _compute_fixed_values(added.names, dialect, parts)
    if not any(map(str.strip, values.values())):  # the agent has none
        return template, [], None
    return append_tools(template, added, values, model.model_id), [added.text, values], values


def _to_digest_input(template: Template) -> list[str]:
    language = template.language
    return [template.text] if language == "bedrock" else [template.text, language]


def _drop_stop_sequences(inference: Mapping[str, Any]) -> dict[str, Any]:
    # The sequences end a dialect's calls and answers; in any other reply they are text.
    return {name: value for name, value in inference.items() if name != "stopSequences"}


_UNPROMPTED = '{"messages": [{"role": "user", "content": [{"text": "$question$"}]}]}'
# Without ORCHESTRATION the user's text goes to the model as it is (AWS: "Advanced prompts").


def _template_text(stage: str, override: Override, dialect: Dialect) -> tuple[str, str | None]:
    if override.template is not None:
        return override.template, override.source
    default = dialect.stages[stage]
    return default.template, str(default.source)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _compute_fixed_values(names: Iterable[str], dialect: Dialect, parts: _Parts) -> dict[str, str]:
    toolbox = parts.toolbox
    facts = AgentFacts(
        instruction=parts.instruction,
        tools=toolbox.descriptions(dialect.protocol),
        ask_user=toolbox.catalog.ask_user and not toolbox.recipients,
        knowledge_bases=[
            {"id": base.id, "description": base.description} for base in toolbox.knowledge_bases
        ],
        collaborators=[
            {"name": one.name, "instruction": one.instruction}
            for one in parts.features.collaborators
        ],
        memory=parts.features.memory is not None,
        code_interpreter=any(
            one.group == "codeinterpreteraction" for one in toolbox.catalog.operations
        ),
    )
    return render_agent_values(names, dialect, facts)
