"""`promptOverrideConfiguration`: checked when it comes in, complete when it is shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from orchestrator.errors import OrchestratorError, TemplateError, ValidationError
from orchestrator.prompts import Dialect, compile_template, dialect_for, load_dialect
from orchestrator.prompts.placeholders import MEMORY_SUMMARIZATION, ROUTING_CLASSIFIER, STAGES
from orchestrator.server.inference.models import Models
from orchestrator.server.operations import Caller

_OF_A_TEMPLATE = ("basePromptTemplate", "inferenceConfiguration", "promptState")
_PREFIX = re.compile(r"the template for the \w+ prompt type has failed validation: ")

Data = Mapping[str, Any]


def list_stages(agent: Data) -> list[str]:
    """The stages that an agent with these members has."""
    absent = set()
    if not agent.get("memoryConfiguration"):
        absent.add(MEMORY_SUMMARIZATION)
    if agent.get("agentCollaboration") != "SUPERVISOR_ROUTER":
        absent.add(ROUTING_CLASSIFIER)
    return [stage for stage in STAGES if stage not in absent]


def default_configurations(
    model_id: str, stages: Collection[str] = STAGES, templates: Path | None = None
) -> list[dict[str, Any]]:
    """The prompt configurations of an agent that changes nothing, one for each stage.

    The folder `templates` wins over the shipped ones.
    """
    dialect = _load_dialect(model_id, templates)
    return [
        {
            "promptType": stage,
            "promptCreationMode": "DEFAULT",
            "promptState": "ENABLED" if found.enabled else "DISABLED",
            "basePromptTemplate": found.template,
            "inferenceConfiguration": dict(found.inference),
            "parserMode": "DEFAULT",
        }
        for stage in stages
        if (found := dialect.stages.get(stage))
    ]


class Prompts:
    """The prompts of agents that were made through the API."""

    def __init__(self, models: Models) -> None:
        # The model that answers for an id decides which templates are the default.
        self._models = models

    def read(self, caller: Caller, agent: Data) -> dict[str, Any] | None:
        """What is stored of an agent's `promptOverrideConfiguration`: what it changes.

        A configuration that is `DEFAULT` and repeats the default, as GetAgent shows it, changes
        nothing.
        """
        config: Data | None = agent.get("promptOverrideConfiguration")
        if config is None:
            return None
        defaults = {it["promptType"]: it for it in self._defaults(caller, agent, STAGES)}
        changes: list[dict[str, Any]] = []
        types: set[str] = set()
        for one in config.get("promptConfigurations") or ():
            stage = one.get("promptType")
            _check_type(stage, types)
            changes += _find_changes(one, defaults.get(stage, {}))
        result: dict[str, Any] = {"promptConfigurations": changes}
        if config.get("overrideLambda"):
            result["overrideLambda"] = config["overrideLambda"]
        _check_parsers(result)
        self._check_templates(caller, agent, changes)
        return result if changes or "overrideLambda" in result else None

    def add_defaults(self, caller: Caller, agent: Data) -> dict[str, Any]:
        """An agent with all stages in its `promptOverrideConfiguration`, as GetAgent shows it.

        Stages that it does not change have the mode `DEFAULT` and the template that is used.
        """
        result = dict(agent)
        own = result.pop("promptOverrideConfiguration", {})
        config = {it["promptType"]: it for it in own.get("promptConfigurations", ())}
        defaults = self._defaults(caller, agent, list_stages(agent))
        configurations = [
            {**_without_template(it, config), **config.pop(it["promptType"], {})} for it in defaults
        ]
        configurations += ({"parserMode": "DEFAULT", **it} for it in config.values())
        for one in configurations:
            # `templateFormat` is this project's own; GetAgent has no such member.
            one.pop("templateFormat", None)
        if configurations:
            result["promptOverrideConfiguration"] = {**own, "promptConfigurations": configurations}
        return result

    def _defaults(
        self, caller: Caller, agent: Data, stages: Collection[str]
    ) -> list[dict[str, Any]]:
        model_id = self._model_id(caller, agent.get("foundationModel"))
        return default_configurations(model_id, stages) if model_id else []

    def _model_id(self, caller: Caller, spec: str | None) -> str:
        """The id of the model that answers for one that is named."""
        if spec is None:
            return ""
        try:
            return str(self._models.model(caller, spec).model_id)
        except OrchestratorError:  # it is refused when the agent is prepared
            return spec

    def _check_templates(self, caller: Caller, agent: Data, changes: Sequence[Data]) -> None:
        wrong: list[str] = []
        for one in changes:
            spec = one.get("foundationModel") or agent.get("foundationModel")
            model_id = self._model_id(caller, spec)
            text, stage = one.get("basePromptTemplate"), one["promptType"]
            if model_id and text is not None:
                wrong += _find_errors(
                    text, stage, _load_dialect(model_id, None), one.get("templateFormat")
                )
        if wrong:
            raise ValidationError(";".join(wrong))


def _check_type(stage: str | None, seen: set[str]) -> None:
    if stage is None:
        raise ValidationError("a promptConfiguration has no promptType; add one")
    if stage in seen:
        raise ValidationError(f"there are two promptConfigurations of {stage}; make them one")
    seen.add(stage)


def _find_changes(one: Data, default: Data) -> Iterator[dict[str, Any]]:
    """What a configuration changes, if it does."""
    stage = one["promptType"]
    mode = one.get("promptCreationMode") or (
        "OVERRIDDEN" if "basePromptTemplate" in one else "DEFAULT"
    )
    if mode == "OVERRIDDEN":
        if "basePromptTemplate" not in one:
            raise ValidationError(
                f"the promptCreationMode of {stage} is OVERRIDDEN and there is no "
                "basePromptTemplate; give one"
            )
        yield {"promptState": "ENABLED", **one, "promptCreationMode": mode}
        return
    for member in _OF_A_TEMPLATE:
        if member in one and one[member] != default.get(member):
            raise ValidationError(
                f"the promptCreationMode of {stage} is DEFAULT, and its {member} is not the "
                f"default: leave {member} out, or set promptCreationMode to OVERRIDDEN and give "
                "the whole configuration"
            )
    rest = {key: it for key, it in one.items() if key not in _OF_A_TEMPLATE}
    changes = rest.keys() - {"promptType", "promptCreationMode", "parserMode"}
    if changes or rest.get("parserMode") == "OVERRIDDEN":
        yield {**rest, "promptCreationMode": mode}


def _without_template(default: Data, config: Data) -> dict[str, Any]:
    """A stage's default, without what an override of it stands for."""
    own = config.get(default["promptType"], {})
    if own.get("promptCreationMode") != "OVERRIDDEN":
        return dict(default)
    return {key: it for key, it in default.items() if key not in _OF_A_TEMPLATE}


def _check_parsers(result: Data) -> None:
    parsed = [
        it["promptType"]
        for it in result["promptConfigurations"]
        if it.get("parserMode") == "OVERRIDDEN"
    ]
    if parsed and "overrideLambda" not in result:
        raise ValidationError(
            f"the parserMode of {', '.join(parsed)} is OVERRIDDEN and there is no overrideLambda; "
            "give the ARN of a Lambda function"
        )
    if not parsed and "overrideLambda" in result:
        raise ValidationError(
            "there is an overrideLambda and no promptConfiguration whose parserMode is "
            "OVERRIDDEN; set one, or leave overrideLambda out"
        )


def _find_errors(
    text: str, stage: str, dialect: Dialect, language: str | None = None
) -> Iterator[str]:
    try:
        compile_template(text, stage=stage, dialect=dialect, language=language)
    except TemplateError as error:
        at = f"line {error.line}, column {error.column}: " if error.line else ""
        reason = _PREFIX.sub("", error.reason)
        yield (
            f"The provided BasePromptTemplate for the {stage} prompt type has failed validation "
            f"with the following message: {at}{reason}. Check the BasePromptTemplate and retry "
            "your request."
        )


def _load_dialect(model_id: str, templates: Path | None) -> Dialect:
    if templates is None:
        return _load_default_dialect(model_id)
    return load_dialect(dialect_for(model_id, templates), templates, model_id=model_id)


@lru_cache(maxsize=64)
def _load_default_dialect(model_id: str) -> Dialect:
    return load_dialect(dialect_for(model_id), model_id=model_id)
