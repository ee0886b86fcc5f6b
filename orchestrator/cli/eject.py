"""`orchestrator templates`: the shipped prompts, as files of the user's own."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.findings import format_path
from orchestrator.cli.options import Folder, Model
from orchestrator.cli.render import to_stage_name
from orchestrator.cli.terminal import Terminal, show_commands
from orchestrator.cli.verb import verb
from orchestrator.errors import ValidationError
from orchestrator.support.content_root import get_agent_root

if TYPE_CHECKING:
    from orchestrator.definition import AgentDefinition
    from orchestrator.prompts import StageDefaults


@verb
def eject(
    terminal: Terminal,
    stage: Annotated[
        str,
        typer.Argument(
            metavar="STAGE", help="The stage, such as ORCHESTRATION or post-processing."
        ),
    ],
    folder: Folder = Path(),
    model: Model = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the agent's own template of the stage.")
    ] = False,
) -> None:
    """Write the default prompt of a stage into the agent's folder, to change it there.

    The prompt is that of the dialect of the agent's model. Its agent.yaml then names the file and
    switches the stage on; nothing else in agent.yaml changes.

    [bold]Examples[/bold]
      $ orchestrator templates eject ORCHESTRATION my-agent
      $ orchestrator templates eject post-processing my-agent --force
      $ orchestrator templates eject PRE_PROCESSING --model amazon.nova-pro-v1:0
    """
    from orchestrator.definition import load_definition
    from orchestrator.definition.edit import name_template, template_members
    from orchestrator.definition.files import read_file
    from orchestrator.support.atomic_files import write_atomically

    definition = load_definition(folder)
    ejection = _plan_ejection(definition, get_agent_root(folder), to_stage_name(stage), model)
    ejection.check(force=force)
    file = Path(definition.source.file)
    before = read_file(file)
    after = name_template(before, file.name, ejection.stage, ejection.template)
    write_atomically(ejection.target, ejection.default.template)
    if after is not None and after != before:
        write_atomically(file.resolve(), _keep_line_ends(after, file))
    members = template_members(ejection.stage, ejection.template)
    if terminal.json:
        terminal.document(
            {
                "stage": ejection.stage,
                "dialect": ejection.dialect,
                "template": str(ejection.target),
                "definition": str(file),
                **({"add": members} if after is None else {}),
            }
        )
        return
    _report(terminal, ejection, folder, file, members if after is None else {})


@dataclass(frozen=True)
class _Ejection:
    definition: AgentDefinition
    root: Path
    stage: str
    dialect: str
    default: StageDefaults
    template: str  # the file, relative to the agent's folder

    @property
    def target(self) -> Path:
        return self.root / self.template

    @property
    def was_off(self) -> bool:
        prompt = self.definition.prompt(self.stage)
        if prompt is None or prompt.prompt_state is None:
            return not (self.default.enabled or (prompt is not None and prompt.overridden))
        return prompt.prompt_state == "DISABLED"

    def check(self, *, force: bool) -> None:
        """Checks that nothing of the user's is lost, or hidden by the new file."""
        own = self._list_own_templates()
        others = [it for it in own if it.resolve() != self.target.resolve()]
        if others:
            raise ValidationError(
                f"{format_path(others[0])!r} is the agent's own template of {self.stage} already: "
                "change that file, or remove it first"
            )
        if own and not force:
            raise ValidationError(
                f"{format_path(self.target)!r} is there already, and nothing was written; change "
                "that file, or overwrite it with --force"
            )
        if not self.target.resolve().is_relative_to(self.root.resolve()):
            raise ValidationError(
                f"{self.template!r} leads out of the agent's folder through a link; nothing was "
                "written"
            )

    def _list_own_templates(self) -> list[Path]:
        from orchestrator.prompts.template_files import BODY_ENDINGS, ENDINGS

        folders = [self.root / it for it in ("templates", f"templates/{self.dialect}", "memory")]
        stem = self.stage.lower()
        named = [self.target] if self.target.exists() else []
        found = (it / (stem + end) for it in folders for end in (*BODY_ENDINGS, *ENDINGS))
        return named + [it for it in found if it.is_file()]


def _plan_ejection(
    definition: AgentDefinition, root: Path, stage: str, model: str | None
) -> _Ejection:
    from orchestrator.agent.source import find_model_id
    from orchestrator.prompts import dialect_for, load_dialect

    model_id = find_model_id(definition, root, stage, model)
    own = root / "templates"
    overrides = own if own.is_dir() else None
    name = dialect_for(model_id, overrides)
    # A shipped dialect is read as it was shipped, without the files that override it.
    custom = overrides is not None and (own / name / "dialect.yaml").is_file()
    default = load_dialect(name, overrides if custom else None).stages.get(stage)
    if default is None:
        raise ValidationError(f"the dialect {name!r} has no stage {stage}")
    source = Path(default.source)
    template = _find_named_file(definition, stage) or f"templates/{stage.lower()}{source.suffix}"
    return _Ejection(definition, root, stage, name, default, template)


def _find_named_file(definition: AgentDefinition, stage: str) -> str | None:
    """The file that the definition names for a stage, which is the place of its template."""
    from orchestrator.definition.files import PROMPTS
    from orchestrator.prompts.template_files import BODY_ENDINGS

    for index, prompt in enumerate(definition.prompts):
        if prompt.prompt_type != stage or not prompt.has_template:
            continue
        named = prompt.base_prompt_template_file
        if named is None:
            fail, at = "has its text here already", "basePromptTemplate"
        elif prompt.template_format not in (None, "bedrock"):
            fail, at = f"is written in {prompt.template_format}", "templateFormat"
        elif not named.endswith(BODY_ENDINGS):
            fail, at = "is in another language than Bedrock's", "basePromptTemplateFile"
        else:
            return named
        text = f"the template of {stage} {fail}: change it, or remove this member first"
        raise definition.source.error(text, *PROMPTS, index, at)
    return None


def _keep_line_ends(text: str, file: Path) -> str:
    return text.replace("\n", "\r\n") if b"\r\n" in file.read_bytes() else text


def _report(
    terminal: Terminal, ejection: _Ejection, folder: Path, file: Path, add: dict[str, str]
) -> None:
    target = format_path(ejection.target)
    terminal.path(f"wrote {target}: {ejection.stage} of the dialect {ejection.dialect!r}")
    if add:
        terminal.path(
            f"{format_path(file)} is written in a way that cannot be changed from here: add this "
            "to promptConfigurations in its promptOverrideConfiguration"
        )
        for number, (name, value) in enumerate(add.items()):
            terminal.path(f"  {'  ' if number else '- '}{name}: {value}")
    else:
        terminal.path(f"{format_path(file)} names it")
        if ejection.was_off:
            terminal.path(f"{ejection.stage} was off and runs from now on")
    terminal.print()
    quoted = shlex.quote(str(folder))
    commands = [
        (f'orchestrator render {quoted} {ejection.stage} "Hello"', "see what the model is sent"),
        (f"orchestrator lint {quoted}", "check it after a change"),
    ]
    show_commands(terminal, commands)
