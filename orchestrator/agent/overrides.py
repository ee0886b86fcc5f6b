"""From a definition's prompt configurations to what a plan takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.agent.source import AgentSource, errors_at
from orchestrator.engine.plan import Override, Plan
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.parsers import Parser

if TYPE_CHECKING:
    from orchestrator.definition import PromptConfiguration


def override_from_argument(
    stage: str,
    members: Mapping[str, Any] | Override,
    override_lambda: str | Callable[..., Any] | None = None,
) -> Override:
    """The override that `Agent(prompts={stage: members})` means."""
    if isinstance(members, Override):
        return members
    from orchestrator.definition import definition_of

    definition = definition_of(
        {
            "agentName": "agent",
            "promptOverrideConfiguration": {
                "promptConfigurations": [{"promptType": stage, **members}]
            },
        }
    )
    configuration = definition.prompt(stage)
    if configuration is None:
        raise AssertionError("the definition was just made with the configuration")
    text = configuration.base_prompt_template if configuration.overridden else None
    override = _as_override(
        configuration, text, f"prompts[{stage!r}]", configuration.template_format
    )
    # As in Bedrock, parserMode decides; an override_lambda alone changes nothing.
    if configuration.parser_mode != "OVERRIDDEN":
        return override
    if override_lambda is None:
        raise DefinitionError(
            f"the parser of {stage} is OVERRIDDEN, and there is none; give override_lambda="
        )
    return _with_parser(override, override_lambda, override_lambda)


def change_overrides(
    plan: Plan,
    overrides: Mapping[str, Override],
    prompts: Mapping[str, str | Mapping[str, Any] | Override],
) -> dict[str, Override]:
    """The overrides of an agent with those of `Agent.with_changes`.

    Raises:
        ValidationError: The agent has no such stage.
    """
    changed = dict(overrides)
    for name, given in prompts.items():
        stage = plan.stages.get(name)
        if stage is None:
            raise ValidationError(f"there is no stage {name!r}; there are {', '.join(plan.stages)}")
        if not isinstance(given, str):
            changed[name] = override_from_argument(name, given)
            continue
        language = stage.template.language
        changed[name] = replace(
            overrides.get(name, Override()),
            template=given,
            source=stage.template.source,
            language=None if language == "bedrock" else language,
            enabled=stage.enabled,  # a stage that is off is not meant to run because it was edited
        )
    return changed


def build_overrides(source: AgentSource) -> dict[str, Override]:
    """The overrides that a definition holds, by prompt type.

    Raises:
        DefinitionError: A template's file cannot be used, or there is no such model.
    """
    return {
        one.prompt_type: _build_override(source, one, index)
        for index, one in enumerate(source.definition.prompts)
    }


def _build_override(
    source: AgentSource, configuration: PromptConfiguration, index: int
) -> Override:
    from orchestrator.definition import prompt_text

    at = ("promptOverrideConfiguration", "promptConfigurations", index)
    text = prompt_text(source.definition, configuration.prompt_type, source.folder or Path())
    override = _as_override(configuration, *(text or (None, None, None)))
    # A model that stands for the agent's stands for those of its stages, too.
    model = configuration.foundation_model if source.model is None else None
    named = None if model is None else source.find_model(model, *at, "foundationModel")
    override = replace(override, model=named)
    if configuration.parser_mode == "OVERRIDDEN":
        return _add_lambda_parser(source, override, *at)
    return override


def _add_lambda_parser(source: AgentSource, override: Override, *at: str | int) -> Override:
    if source.objects.parser is not None:
        function = source.objects.parser
        return _with_parser(override, function, function)
    configurations = source.definition.prompt_override_configuration
    spec = configurations.override_lambda if configurations else None
    if spec is None:
        raise source.definition.source.error(
            "the stage's parser is OVERRIDDEN, and there is none: give overrideLambda a handler "
            "file of the agent's folder, or the ARN of a Lambda function",
            *(*at, "parserMode"),
        )
    with errors_at(source, "promptOverrideConfiguration", "overrideLambda"):
        if spec.startswith("arn:"):
            code = source.resolver.find_function(spec)
            return _with_parser(override, spec if code is None else code, spec)
        if source.folder is None:
            raise DefinitionError(
                f"overrideLambda {spec!r} is relative to an agent's folder, and there is none; "
                "give an ARN, a function, or folder="
            )
        return _with_parser(override, spec, spec, source.folder)


def _with_parser(
    override: Override,
    code: str | Callable[..., Any],
    spec: str | Callable[..., Any],
    folder: Path | None = None,
) -> Override:
    # Few agents have one, and it brings what carries out Lambda handlers.
    from orchestrator.actions.parser_lambda import lambda_parser, parser_function

    function = parser_function(code, folder)

    def parser(agent: Mapping[str, str], stage: str, tool_use: bool) -> Callable[[], Parser]:
        return lambda_parser(function, stage, agent, tool_use=tool_use)

    name = spec if isinstance(spec, str) else getattr(spec, "__qualname__", "function")
    return replace(override, parser=parser, parser_name=name)


def _as_override(
    configuration: PromptConfiguration,
    text: str | None,
    source: str | None,
    language: str | None,
) -> Override:
    inference = configuration.inference_configuration
    state = configuration.prompt_state
    return Override(
        template=text,
        source=source,
        language=language,
        enabled=None if state is None else state == "ENABLED",
        inference=inference.as_dict() if inference else {},
        model=configuration.foundation_model,
        additional=configuration.additional_model_request_fields or {},
    )
