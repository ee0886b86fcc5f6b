"""What a definition says that has no effect, or that Bedrock would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from orchestrator.actions.names import check_text
from orchestrator.definition.agent import (
    LONGEST_INSTRUCTION,
    AgentCollaborator,
    AgentDefinition,
)
from orchestrator.definition.files import PROMPTS
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError
from orchestrator.support.documents import Keys
from orchestrator.support.redaction import is_credential


def collaborators_of(definition: AgentDefinition) -> tuple[AgentCollaborator, ...]:
    """The agents that an agent leads: none unless `agentCollaboration` says that it leads others.

    Raises:
        DefinitionError: It says so, and there are none.
    """
    if definition.agent_collaboration in (None, "DISABLED"):
        return ()
    if not definition.agent_collaborators:
        raise definition.source.error(
            "an agent that leads others needs agentCollaborators; name some, or set "
            "agentCollaboration: DISABLED",
            "agentCollaboration",
        )
    return definition.agent_collaborators


def lint_definition(definition: AgentDefinition) -> list[Diagnostic]:
    """What works here but may not do what was meant, or would be refused by Bedrock.

    Notes of the reading come first, then warnings.
    """
    found = (
        *_check_instruction(definition),
        *_check_bedrock_limits(definition),
        *_check_templates(definition),
        *_check_parser(definition),
        *_check_team(definition),
        *_check_orchestration(definition),
        *_check_credentials(definition),
    )
    return [*definition.source.notes, *_diagnostics(definition, found)]


def lint_collaborator(definition: AgentDefinition) -> list[Diagnostic]:
    """What an agent says that has no effect while another agent leads it."""
    # Only notes, because the agent may run alone, too.
    return _diagnostics(definition, _check_collaborator(definition))


def _diagnostics(definition: AgentDefinition, found: Iterable[Warning_]) -> list[Diagnostic]:
    return [
        definition.source.diagnostic(
            "info" if code in _NOTES else "warning", code, text, *keys, suggestion=way
        )
        for code, text, way, keys in found
    ]


_NOTES = frozenset({"default-template", "unused-memory", "unused-time-out"})

Warning_ = tuple[str, str, str, Keys]


def _check_instruction(definition: AgentDefinition) -> Iterator[Warning_]:
    length = len(definition.instruction)
    at: Keys = ("instruction",)
    try:
        check_text(definition.instruction, "the instruction")
    except DefinitionError as error:
        yield "invisible-character", error.message, "", at
    # AWS: at least 40 characters; here any length works, so that a first try is short. That there
    # is none is an error of whoever builds the agent.
    if 0 < length < 40:
        text = f"the instruction has {length} characters, and Bedrock wants at least 40"
        yield "bedrock-limit", text, "say what the agent is and does", at
    elif length > LONGEST_INSTRUCTION:
        most = f"Bedrock takes at most {LONGEST_INSTRUCTION:,}"
        text = f"the instruction has {length:,} characters, and {most}"
        yield "bedrock-limit", text, "shorten it before it goes to Bedrock", at


def _check_bedrock_limits(definition: AgentDefinition) -> Iterator[Warning_]:
    for text_at, description, most in _iter_descriptions(definition):
        if description and len(description) > most:
            text = f"this has {len(description)} characters, and Bedrock takes at most {most}"
            yield "bedrock-limit", text, "shorten it before it goes to Bedrock", text_at
    # AWS: 20 action groups an agent (quotas of Bedrock Agents).
    if (count := len(definition.action_groups)) > 20:
        text = f"there are {count} action groups, and Bedrock takes at most 20"
        yield "bedrock-limit", text, "join some", ("actionGroups",)


def _iter_descriptions(definition: AgentDefinition) -> Iterator[tuple[Keys, str | None, int]]:
    # AWS: 200 characters for descriptions, 1200 for a function's, 500 for a parameter's.
    yield ("description",), definition.description, 200
    for index, base in enumerate(definition.knowledge_bases):
        yield ("knowledgeBases", index, "description"), base.description, 200
    for index, group in enumerate(definition.action_groups):
        yield ("actionGroups", index, "description"), group.description, 200
        for number, function in enumerate(
            group.function_schema.functions if group.function_schema else ()
        ):
            at = ("actionGroups", index, "functionSchema", "functions", number)
            yield (*at, "description"), function.description, 1200
            for name, detail in (function.parameters or {}).items():
                yield (*at, "parameters", name, "description"), detail.description, 500


def _check_templates(definition: AgentDefinition) -> Iterator[Warning_]:
    for index, prompt in enumerate(definition.prompts):
        at = (*PROMPTS, index, "promptCreationMode")
        if prompt.base_prompt_template is not None and not prompt.overridden:
            # This is what GetAgent returns of every stage that was not overridden.
            text = f"{prompt.prompt_type} uses the shipped template, since its mode is DEFAULT"
            yield "default-template", text, "", at
        elif prompt.has_template and not prompt.overridden:
            text = f"the template of {prompt.prompt_type} is not used: its mode is DEFAULT"
            way = "set promptCreationMode: OVERRIDDEN, or leave the template out"
            yield "unused-template", text, way, at
        elif prompt.prompt_creation_mode == "OVERRIDDEN" and not prompt.has_template:
            text = f"{prompt.prompt_type} is OVERRIDDEN without a template: the default one is used"
            way = "give basePromptTemplate or basePromptTemplateFile, unless templates/ has one"
            yield "missing-template", text, way, at


def _check_parser(definition: AgentDefinition) -> Iterator[Warning_]:
    overrides = definition.prompt_override_configuration
    if overrides is None or overrides.override_lambda is None:
        return
    # AWS: `overrideLambda` counts for stages with `parserMode: OVERRIDDEN` only.
    if not any(it.parser_mode == "OVERRIDDEN" for it in overrides.prompt_configurations):
        text = "the parser is not used: no stage has parserMode: OVERRIDDEN"
        way = "set it where the parser is meant for, or leave overrideLambda out"
        yield "unused-parser", text, way, (PROMPTS[0], "overrideLambda")


def _check_orchestration(definition: AgentDefinition) -> Iterator[Warning_]:
    if definition.custom_orchestration and definition.orchestration_lambda is None:
        text = "customOrchestration is not used: orchestrationType is not CUSTOM_ORCHESTRATION"
        way = "set orchestrationType: CUSTOM_ORCHESTRATION, or leave it out"
        yield "unused-orchestration", text, way, ("customOrchestration",)


def _check_credentials(definition: AgentDefinition) -> Iterator[Warning_]:
    for index, group in enumerate(definition.action_groups):
        executor = group.action_group_executor
        at: Keys = ("actionGroups", index, "actionGroupExecutor")
        for member in ("http", "mcp"):
            headers = getattr(getattr(executor, member, None), "headers", None) or {}
            yield from _check_literals(headers, "header", (*at, member, "headers"))
        if executor is not None and executor.mcp is not None:
            where: Keys = ("actionGroups", index, "environment")
            yield from _check_literals(group.environment or {}, "variable", where)


def _check_literals(values: Mapping[str, str], what: str, at: Keys) -> Iterator[Warning_]:
    for name, value in values.items():
        if "${" not in value and is_credential(name, value):
            text = f"the {what} {name!r} looks like a credential, and is in the definition itself"
            way = "write ${env:NAME}, and set NAME in the environment of the process"
            yield "literal-credential", text, way, (*at, name)


def _check_team(definition: AgentDefinition) -> Iterator[Warning_]:
    if definition.agent_collaborators and definition.agent_collaboration is None:
        text = "the collaborators are not used: there is no agentCollaboration"
        way = "set agentCollaboration: SUPERVISOR or SUPERVISOR_ROUTER"
        yield "unused-collaborators", text, way, ("agentCollaborators",)
    for index, member in enumerate(definition.agent_collaborators):
        if member.collaboration_instruction is None:
            text = f"nothing says when to give {member.collaborator_name!r} work"
            way = "add a collaborationInstruction, which Bedrock wants, too"
            yield "missing-instruction", text, way, ("agentCollaborators", index)


def _check_collaborator(definition: AgentDefinition) -> Iterator[Warning_]:
    # A collaborator answers in its supervisor's session: memory and time-out are the supervisor's.
    if definition.memory_configuration is not None:
        text = "the memory is not used in a team: only that of the agent that leads it is"
        yield "unused-memory", text, "", ("memoryConfiguration",)
    if "idle_session_ttl_in_seconds" in definition.model_fields_set:
        text = "the time-out is not used in a team: its sessions are those of the agent that leads"
        yield "unused-time-out", text, "", ("idleSessionTTLInSeconds",)
