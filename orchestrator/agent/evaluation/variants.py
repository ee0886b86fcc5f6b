"""Variants of an agent: with this model, with that folder of templates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.agent.agent import Agent
from orchestrator.agent.build import build, source_from_folder
from orchestrator.agent.source import AgentSource, resolve_script
from orchestrator.errors import ResourceNotFound
from orchestrator.models import Model, resolve_model
from orchestrator.models.local import LocalModel
from orchestrator.models.recording import ReplayModel
from orchestrator.models.scripted_model import ScriptedModel
from orchestrator.sessions import Sessions, SessionStore

OWN = "own model"
# Models that have one order of requests, or this machine's own processor.
_ONE_BY_ONE = (LocalModel, ReplayModel, ScriptedModel)


@dataclass(frozen=True)
class Variant:
    """One column of the matrix.

    Attributes:
        model: Used instead of the agent's models: a spec, or a model.
        prompts: Used instead of the agent's `templates/`.
        prompts_name: What names these; their path as it was given, when it is empty.
    """

    model: str | Model | None = None
    prompts: Path | None = None
    prompts_name: str = ""

    @property
    def name(self) -> str:
        """What names it in runs and reports."""
        spec = self.model.model_id if isinstance(self.model, Model) else self.model
        model = spec or OWN
        if self.prompts is None:
            return model
        return f"{model} + {self.prompts_name or self.prompts.as_posix()}"


def runs_one_by_one(model: Model) -> bool:
    """Whether a model must not be asked by several cases at the same time."""
    return isinstance(model, _ONE_BY_ONE)


class Models:
    """The models of variants, each made once; scripts and recordings begin anew in each agent."""

    def __init__(self) -> None:
        self._made: dict[str, Model] = {}

    def find(self, spec: str | Model | None, folder: Path) -> Model | None:
        """The model of a variant, for the agent in a folder."""
        if spec is None or isinstance(spec, Model):
            return spec
        if spec.startswith(("scripted:", "replay:")):
            return resolve_model(resolve_script(spec, folder) or spec)
        if spec not in self._made:
            self._made[spec] = resolve_model(spec)
        return self._made[spec]


def load_variant(
    folder: Path, variant: Variant, models: Models, sessions: Sessions | SessionStore | str | None
) -> Agent:
    """The agent in a folder, as a variant has it.

    Raises:
        OrchestratorError: The agent, its model or a template is wrong.
    """
    model = models.find(variant.model, folder)
    source = replace(source_from_folder(folder, model=model), sessions=sessions)
    if variant.prompts is not None:
        source = _use_prompts(source, variant.prompts)
    return build(source)


def _use_prompts(source: AgentSource, prompts: Path) -> AgentSource:
    if not prompts.is_dir():
        raise ResourceNotFound(f"there is no folder of templates {str(prompts)!r}")
    overrides = source.definition.prompt_override_configuration
    if overrides is None:
        return replace(source, templates=prompts)
    # A template that the agent names by its file is the folder's, where that has one of this name.
    configurations = []
    for one in overrides.prompt_configurations:
        named = one.base_prompt_template_file
        file = prompts / Path(named).name if named else None
        if file is not None and file.is_file():
            text = file.read_text(encoding="utf-8-sig")
            members = {"base_prompt_template": text, "base_prompt_template_file": None}
            one = one.model_copy(update=members)
        configurations.append(one)
    changed = overrides.model_copy(update={"prompt_configurations": tuple(configurations)})
    definition = source.definition.model_copy(update={"prompt_override_configuration": changed})
    return replace(source, definition=definition, templates=prompts)
