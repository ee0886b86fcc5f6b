"""From a definition's prompt configurations to what a plan takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.actions.parser_lambda import ParserFunction, lambda_parser, parser_function
from orchestrator.engine.plan import Override
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.models import Model, file_of_model, resolve_model
from orchestrator.parsers import Parser

if TYPE_CHECKING:
    from orchestrator.definition import AgentDefinition, PromptConfiguration

__all__ = ["override_of", "overrides_of", "resolve_named_model"]


def override_of(
    stage: str,
    given: Mapping[str, Any] | Override,
    override_lambda: str | Callable[..., Any] | None = None,
) -> Override:
    """The override that `Agent(prompts={stage: given})` means.

    Args:
        stage: The prompt type.
        given: Members of its prompt configuration.
        override_lambda: The parser that `parserMode: OVERRIDDEN` means.

    Raises:
        DefinitionError: A member is unknown or wrong.
    """
    if isinstance(given, Override):
        return given
    from orchestrator.definition import definition_of

    definition = definition_of(
        {
            "agentName": "agent",
            "promptOverrideConfiguration": {
                "promptConfigurations": [{"promptType": stage, **given}]
            },
        }
    )
    configuration = definition.prompt(stage)
    if configuration is None:
        raise AssertionError("the configuration was just given")
    text = configuration.base_prompt_template if configuration.overridden else None
    made = _as_override(configuration, text, f"prompts[{stage!r}]", configuration.template_format)
    if configuration.parser_mode != "OVERRIDDEN":
        return made
    if override_lambda is None:
        raise DefinitionError(
            f"the parser of {stage} is OVERRIDDEN, and there is none; give override_lambda="
        )
    return _with_parser(made, parser_function(override_lambda), override_lambda)


def overrides_of(
    definition: AgentDefinition,
    root: Path,
    *,
    replaced: bool,
    models: Callable[[str], Model | None] | None = None,
) -> dict[str, Override]:
    """The overrides that a definition holds, by prompt type.

    Args:
        definition: The definition.
        root: The agent's folder, to which files and models' paths are relative.
        replaced: Whether the agent's own model stands in for every model that is named.
        models: Gives the model that is used for one that is named, if it is another.

    Raises:
        DefinitionError: A template's file cannot be used, or there is no such model.
    """
    from orchestrator.definition import prompt_text

    configurations = definition.prompt_override_configuration
    made: dict[str, Override] = {}
    for index, configuration in enumerate(
        configurations.prompt_configurations if configurations else ()
    ):
        stage = configuration.prompt_type
        found = prompt_text(definition, stage, root)
        told = (found.text, found.source, found.language) if found else (None, None, None)
        override = _as_override(configuration, *told)
        if replaced:
            override = replace(override, model=None)
        elif configuration.foundation_model is not None:
            keys = ("promptOverrideConfiguration", "promptConfigurations", index, "foundationModel")
            spec = configuration.foundation_model
            named = resolve_named_model(definition, spec, root, *keys, instead=models)
            override = replace(override, model=named)
        if configuration.parser_mode == "OVERRIDDEN":
            override = _add_lambda_parser(definition, override, index, root)
        made[stage] = override
    return made


def _add_lambda_parser(
    definition: AgentDefinition, made: Override, index: int, root: Path
) -> Override:
    configurations = definition.prompt_override_configuration
    spec = configurations.override_lambda if configurations else None
    at = ("promptOverrideConfiguration", "overrideLambda")
    if spec is None:
        raise definition.source.error(
            "the stage's parser is OVERRIDDEN, and there is none: give overrideLambda a handler "
            "file of the agent's folder, or the ARN of a Lambda function",
            *("promptOverrideConfiguration", "promptConfigurations", index, "parserMode"),
        )
    try:
        return _with_parser(made, parser_function(spec, root), spec)
    except DefinitionError as error:
        if error.file is not None:
            raise
        raise definition.source.error(error.reason, *at) from error


def _with_parser(made: Override, function: ParserFunction, spec: object) -> Override:
    def parser(agent: Mapping[str, str], stage: str, tool_use: bool) -> Callable[[], Parser]:
        return lambda_parser(function, stage, agent, tool_use=tool_use)

    name = spec if isinstance(spec, str) else getattr(spec, "__qualname__", "function")
    return replace(made, parser=parser, parser_name=name)


def resolve_named_model(
    definition: AgentDefinition,
    spec: str,
    root: Path,
    *keys: str | int,
    instead: Callable[[str], Model | None] | None = None,
) -> Model:
    """The model that a definition names; its files are those of its folder.

    Args:
        definition: The definition.
        spec: What it names the model.
        root: Its folder.
        *keys: Where in the definition it does so.
        instead: Gives the model that is used for it, if it is another.

    Raises:
        DefinitionError: There is no such model, or its file is outside of the folder, with file,
            line and column.
    """
    from orchestrator.definition.files import locate

    found = instead(spec) if instead is not None else None
    if found is not None:
        return found
    if file := file_of_model(spec, folder=root):
        locate(definition, file, keys, root)
    try:
        return resolve_model(spec, folder=root)
    except ValidationError as error:
        raise definition.source.error(error.message, *keys) from error


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
