"""A template that was dropped on an agent: which stage reads it, and what goes for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import ValidationError
from orchestrator.prompts import STAGES
from orchestrator.prompts.languages import is_prompt_yaml, language_of
from orchestrator.prompts.template_files import BODY_ENDINGS, ENDINGS, read_text
from orchestrator.server.workbench.projects import Project

if TYPE_CHECKING:
    from orchestrator.transfer import Change

FOLDER = "prompts"
"""The folder of an agent for templates that are no stage's."""


@dataclass(frozen=True, slots=True)
class TemplatePlan:
    """What a dropped template would do."""

    language: str
    inputs: Sequence[str]
    findings: Sequence[Diagnostic]
    changes: Sequence[Change]
    write: Callable[[], None]


def plan_template(project: Project, file: Path, stage: str) -> TemplatePlan:
    """What a template becomes: a stage's own, or without a stage a file in `prompts/`.

    Raises:
        ValidationError: There is no such stage, or its template is in the definition.
        OrchestratorError: The agent is wrong, or the file is no text.
    """
    from orchestrator.transfer.folder import changes, write_files

    text = read_text(file)
    path = _place_for_stage(project, file, stage) if stage else f"{FOLDER}/{file.name}"
    wanted = {path: text}
    found = [it for it in changes(wanted, project.folder) if it.path == path]
    gone = _list_replaced(project, path, stage) if stage else []

    def write() -> None:
        for one in gone:
            (project.folder / one.path).unlink()
        write_files(wanted, project.folder, force=True)

    language = _find_language(file, text)
    inputs, findings = _look_into(project, file, text, stage)
    return TemplatePlan(language, inputs, findings, [*found, *gone], write)


def _find_language(file: Path, text: str) -> str:
    return language_of(file) or ("semantic-kernel" if is_prompt_yaml(text) else "bedrock")


def _place_for_stage(project: Project, file: Path, stage: str) -> str:
    if stage not in STAGES:
        raise ValidationError(f"there is no stage {stage!r}: there are {', '.join(STAGES)}")
    source = project.agent().plan.stages[stage].template.source
    if source is None or not Path(source).is_absolute():
        raise ValidationError(
            f"the {stage} template is in the agent's definition: remove it there, or import the "
            "template without a stage"
        )
    name = file.name.lower()
    endings = (*sorted(ENDINGS, key=len, reverse=True), *BODY_ENDINGS)
    ending = next((one for one in endings if name.endswith(one)), None)
    if ending is None and name.endswith((".yaml", ".yml")):
        ending = ".sk.yaml"  # whose text said so
    if ending is None:
        raise ValidationError(
            f"{file.name!r} is no template by its name: they end in {', '.join(endings)}"
        )
    return f"templates/{stage.lower()}{ending}"


def _list_replaced(project: Project, path: str, stage: str) -> list[Change]:
    """The agent's own templates of the stage: a folder may have one."""
    from orchestrator.transfer import Change

    dialect = project.agent().plan.stages[stage].dialect.name
    folders = [project.folder / "templates", project.folder / "templates" / dialect]
    found = [
        folder / f"{stage.lower()}{ending}"
        for folder in folders
        for ending in (*BODY_ENDINGS, *ENDINGS)
    ]
    own = [it for it in found if it.is_file() and it != project.folder / path]
    for file in own:
        if file.is_symlink() or file.parent.resolve() != file.parent:
            raise ValidationError(f"{str(file)!r} is a link; nothing is written")
    return [Change(it.relative_to(project.folder).as_posix(), read_text(it), None) for it in own]


def _look_into(
    project: Project, file: Path, text: str, stage: str
) -> tuple[list[str], list[Diagnostic]]:
    from orchestrator.agent.lint import lint_template_file
    from orchestrator.prompts import lint_template

    if stage:
        dialect = project.agent().plan.stages[stage].dialect
        options: dict[str, Any] = {"language": language} if (language := language_of(file)) else {}
        found = list(lint_template(text, stage=stage, dialect=dialect, source=file.name, **options))
        return [], found
    from orchestrator.agent.files import load_template_file

    found = [_name_alone(one, file) for one in lint_template_file(file)]
    if any(one.severity == "error" for one in found):
        return [], found
    return [one.name for one in load_template_file(file).inputs], found


def _name_alone(finding: Diagnostic, file: Path) -> Diagnostic:
    from dataclasses import replace

    return replace(finding, file=file.name) if finding.file else finding
