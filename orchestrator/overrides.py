"""From a definition's prompt configurations to what a plan takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ValidationError
from orchestrator.models import Model, resolve_model
from orchestrator.stages import Override

if TYPE_CHECKING:
    from orchestrator.definition import AgentDefinition, PromptConfiguration

__all__ = ["named_model", "override_of", "overrides_of"]


def override_of(stage: str, given: Mapping[str, Any] | Override) -> Override:
    """The override that `Agent(prompts={stage: given})` means.

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
    return _as_override(configuration, text, f"prompts[{stage!r}]")


def overrides_of(definition: AgentDefinition, root: Path, *, replaced: bool) -> dict[str, Override]:
    """The overrides that a definition holds, by prompt type.

    Args:
        definition: The definition.
        root: The agent's folder, to which files and models' paths are relative.
        replaced: Whether the agent's own model stands in for every model that is named.

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
        text, source = (found.text, found.source) if found else (None, None)
        override = _as_override(configuration, text, source)
        if replaced:
            override = replace(override, model=None)
        elif configuration.foundation_model is not None:
            keys = ("promptOverrideConfiguration", "promptConfigurations", index, "foundationModel")
            named = named_model(definition, configuration.foundation_model, root, *keys)
            override = replace(override, model=named)
        made[stage] = override
    return made


def named_model(definition: AgentDefinition, spec: str, root: Path, *keys: str | int) -> Model:
    """The model that a definition names; paths of files are relative to its folder.

    Args:
        definition: The definition.
        spec: What it names the model.
        root: Its folder.
        *keys: Where in the definition it does so.

    Raises:
        DefinitionError: There is no such model, with file, line and column.
    """
    try:
        return resolve_model(spec, folder=root)
    except ValidationError as error:
        raise definition.source.error(error.message, *keys) from error


def _as_override(
    configuration: PromptConfiguration, text: str | None, source: str | None
) -> Override:
    inference = configuration.inference_configuration
    state = configuration.prompt_state
    return Override(
        template=text,
        source=source,
        enabled=None if state is None else state == "ENABLED",
        inference=inference.as_dict() if inference else {},
        model=configuration.foundation_model,
        additional=configuration.additional_model_request_fields or {},
    )
