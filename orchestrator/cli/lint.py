"""`orchestrator lint`: what is wrong or doubtful in an agent's folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.agents import get_agent_root
from orchestrator.cli.findings import as_findings, collect_findings, show_finding
from orchestrator.cli.options import Folder, Libraries, Model
from orchestrator.cli.scripts import is_script, is_template, lint_script, lint_template_file
from orchestrator.cli.terminal import Terminal, assemble, clean, format_count, style_text
from orchestrator.cli.verb import AGENT_FAILED, verb
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError, OrchestratorError
from orchestrator.support.content_root import content_root
from orchestrator.support.spelling import did_you_mean, find_close

if TYPE_CHECKING:
    from orchestrator.definition import AgentDefinition
    from orchestrator.prompts import Dialect


READ_ONLY = "read-only-member"


@verb
def lint(
    terminal: Terminal,
    folder: Folder,
    model: Model = None,
    lib: Libraries = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail on warnings too, and on what Bedrock's API may refuse."
        ),
    ] = False,
) -> None:
    """Check an agent's definition, actions and templates, a script, or a template.

    The exit code is 1 when there are errors (with --strict: or warnings).

    [bold]Examples[/bold]
      $ orchestrator lint examples/insurance
      $ orchestrator lint my-agent --strict --json
      $ orchestrator lint examples/flows/papers.pl
      $ orchestrator lint greeting.prompty
    """
    if is_script(folder):
        found = lint_script(folder, lib or ())
    elif is_template(folder):
        found = lint_template_file(folder)
    else:
        found = lint_agent(folder, model, strict=strict)
    count: Counter[str] = Counter(finding.severity for finding in found)
    if terminal.json:
        terminal.document(
            {
                "diagnostics": [finding.as_dict() for finding in found],
                "errors": count["error"],
                "warnings": count["warning"],
            }
        )
    else:
        for finding in found:
            if finding.code != READ_ONLY:
                show_finding(terminal, finding)
        _show_read_only(terminal, [finding for finding in found if finding.code == READ_ONLY])
        _show_summary(terminal, found, count)
    if count["error"] or (strict and count["warning"]):
        raise typer.Exit(AGENT_FAILED)


def _show_read_only(terminal: Terminal, found: Sequence[Diagnostic]) -> None:
    # Bedrock's answers have many members that only Bedrock sets: one line is enough for all.
    if not found:
        return
    names = ", ".join(finding.message.split("'")[1] for finding in found)
    text = f": {format_count(len(found), 'member')} that only Bedrock sets left out: {names}"
    terminal.block(assemble(("info", "info"), clean(text), (f" [{READ_ONLY}]", "quiet")))


def _show_summary(terminal: Terminal, found: Sequence[Diagnostic], count: Counter[str]) -> None:
    if not found:
        terminal.print(style_text("nothing to complain about", "good"))
        return
    parts = [
        (format_count(count[severity], severity), severity)
        for severity in ("error", "warning")
        if count[severity]
    ]
    if count["info"]:
        parts.append((f"{count['info']} for your information", "info"))
    terminal.print(style_text(", ").join(assemble(part) for part in parts))


def lint_agent(
    folder: Path, model: str | None = None, *, strict: bool = False, level: int = 1
) -> list[Diagnostic]:
    """Checks an agent, and those that it leads, without running a turn or needing its models.

    Python files that action groups name with `python:` are run, since their functions are the
    group; handlers and parsers are not.

    Returns:
        The findings in the order of their places.

    Raises:
        ResourceNotFound: There is nothing at `folder`.
    """
    from orchestrator.definition import lint_collaborator, lint_definition, load_definition
    from orchestrator.definition.guardrail_file import build_guardrail

    found: list[Diagnostic] = []
    definition: AgentDefinition | None = None
    with collect_findings(found):
        definition = load_definition(folder)
        found += lint_definition(definition)
        found += lint_collaborator(definition) if level > 1 else ()
        with collect_findings(found):
            found += _check_actions(definition)
        for check in (_check_knowledge, build_guardrail, _check_parsers):
            with collect_findings(found):
                check(definition)
        found += _lint_script(definition)
        found += _lint_team(definition, model, strict, level)
    found += _Templates(get_agent_root(folder), definition, model, strict).lint()
    return sorted(
        dict.fromkeys(found), key=lambda it: (it.file or "", it.line or 0, it.column or 0)
    )


def _check_actions(definition: AgentDefinition) -> list[Diagnostic]:
    from orchestrator.actions import Catalog
    from orchestrator.actions.coercion import find_unchecked_patterns
    from orchestrator.definition import build_action_groups

    catalog = Catalog(build_action_groups(definition))
    found = []
    for index, group in enumerate(definition.action_groups):
        executor = group.action_group_executor
        if executor is not None and executor.mcp is not None:  # the server checks its arguments
            continue
        operations = (it for it in catalog.operations if it.group == group.action_group_name)
        for operation in operations:
            for pattern, why in find_unchecked_patterns(operation.schema):
                text = (
                    f"the pattern {pattern[:80]!r} of {operation.name!r} is not checked ({why}); "
                    "write it without, or check the argument in the action"
                )
                at = ("actionGroups", index, "actionGroupName")
                found.append(definition.source.diagnostic("warning", "pattern", text, *at))
    return found


def _check_knowledge(definition: AgentDefinition) -> None:
    from orchestrator.definition.knowledge_base import build_knowledge_bases

    build_knowledge_bases(definition, definition.source.folder)


def _lint_script(definition: AgentDefinition) -> list[Diagnostic]:
    from orchestrator.definition.files import locate

    if definition.orchestration is None:
        return []
    # Every turn passes these two.
    inputs = ("question", "content")
    found = lint_script(locate(definition, definition.orchestration, ("orchestration",)))
    found = [one for one in found if one.code != "argument" or _extract_name(one) not in inputs]
    return _check_calls(definition, found)


def _check_calls(definition: AgentDefinition, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    # The functions of the agent are there, whatever the program's own lint says of them.
    try:
        known = _list_callable_names(definition)
    except DefinitionError:  # another check reports it
        return list(found)
    findings = []
    for one in found:
        name = _extract_name(one)
        if one.code == "function" and name not in known:
            text = f"the agent has no action @{name}(...){did_you_mean(name, known)}"
            findings.append(replace(one, severity="warning", message=text, suggestion=""))
        elif one.code != "function":
            findings.append(one)
    return findings


def _list_callable_names(definition: AgentDefinition) -> set[str]:
    from orchestrator.actions import Catalog
    from orchestrator.definition import build_action_groups, collaborators_of
    from orchestrator.definition.knowledge_base import build_knowledge_bases

    names: set[str] = set()
    for one in Catalog(build_action_groups(definition)).operations:
        names |= {one.name, f"{one.group}__{one.name}", one.tool_use_name}
    bases = build_knowledge_bases(definition, definition.source.folder)
    names |= {"search", *(one.id for one in bases)} if bases else set()
    names |= {one.collaborator_name for one in collaborators_of(definition)}
    return {re.sub(r"\W", "_", name) for name in names}


def _extract_name(finding: Diagnostic) -> str:
    return finding.message.split()[0].lstrip("$@")


def _check_parsers(definition: AgentDefinition) -> None:
    from orchestrator.agent.overrides import build_overrides
    from orchestrator.agent.source import AgentSource

    # With a model for all stages, those that they name need not be there.
    build_overrides(AgentSource(definition, definition.source.folder or Path(), model="local"))


def _lint_team(
    definition: AgentDefinition, model: str | None, strict: bool, level: int
) -> Iterator[Diagnostic]:
    from orchestrator.definition import collaborators_of
    from orchestrator.definition.files import locate_folder
    from orchestrator.engine.plan import MOST_LEVELS

    for index, member in enumerate(collaborators_of(definition)):
        where = member.agent_descriptor
        if where is None or where.folder is None:
            continue
        at = ("agentCollaborators", index, "agentDescriptor", "folder")
        if level == MOST_LEVELS:
            text = f"this is level {level + 1} of agents that lead agents; the most are {level}"
            yield definition.source.diagnostic("error", "levels", text, *at)
            continue
        folder = locate_folder(definition, where.folder, at)
        yield from lint_agent(folder, model, strict=strict, level=level + 1)


# Folders of templates that come with the package.
_SHIPPED = ("templates", "memory")


# An agent's prompts are those of its definition, else of a dialect: its own in `templates/`, or the
# shipped one for its model. Files in `templates/` that no stage uses are checked too.
@dataclass(frozen=True)
class _Templates:
    root: Path
    definition: AgentDefinition | None
    model: str | None
    strict: bool

    @cached_property
    def own(self) -> Path | None:
        folder = self.root / "templates"
        return folder if folder.is_dir() else None

    def lint(self) -> Iterator[Diagnostic]:
        from orchestrator.prompts import STAGES, dialect_for, load_dialect

        dialects: dict[str, Dialect] = {}
        for stage in STAGES:
            model_id = ""
            try:
                model_id = self.find_model_id(stage)
            except OrchestratorError as error:
                yield self.make_model_finding(error, stage)
            try:
                name = dialect_for(model_id, self.own)
                dialect = load_dialect(name, self.own, model_id=model_id)
                dialects[name] = dialect
                yield from self.lint_stage(stage, dialect)
            except DefinitionError as error:
                yield from as_findings(error)
        if self.own is not None:
            yield from self.lint_folder(self.own, dialects)

    def find_model_id(self, stage: str) -> str:
        # Empty when no model is named: the dialect is then the default one.
        from orchestrator.agent.source import AgentSource
        from orchestrator.models import resolve_model

        if self.model is not None:
            return resolve_model(self.model).model_id
        if self.definition is None:
            return ""
        prompt = self.definition.prompt(stage)
        spec = (prompt and prompt.foundation_model) or self.definition.foundation_model
        if not spec:
            return ""
        return AgentSource(self.definition, self.root).find_model(spec).model_id

    def lint_stage(self, stage: str, dialect: Dialect) -> Iterator[Diagnostic]:
        from orchestrator.definition import prompt_text
        from orchestrator.prompts import lint_template

        own = prompt_text(self.definition, stage, self.root) if self.definition else None
        if own is not None:
            yield from lint_template(
                own.text,
                stage=stage,
                dialect=dialect,
                source=own.source,
                strict=self.strict,
                language=own.language,
            )
        else:
            yield from self.lint_default(stage, dialect)

    def lint_default(self, stage: str, dialect: Dialect) -> Iterator[Diagnostic]:
        from orchestrator.prompts import lint_template

        default = dialect.stages.get(stage)
        if default is None:
            return
        source = Path(default.source)
        shipped = any(source.is_relative_to(content_root() / folder) for folder in _SHIPPED)
        for finding in lint_template(
            default.template,
            stage=stage,
            dialect=dialect,
            source=default.source,
            strict=self.strict and not shipped,
        ):
            # What a shipped template could do better is not for its users to mend.
            if not shipped or finding.severity == "error":
                yield finding

    def make_model_finding(self, error: OrchestratorError, stage: str) -> Diagnostic:
        # At the definition's member that names the model; `--model` has no place in a file.
        if self.definition is None or self.model is not None:
            return Diagnostic(severity="error", code="model", message=error.message)
        keys: tuple[str | int, ...] = ("foundationModel",)
        overrides = self.definition.prompt_override_configuration
        for index, prompt in enumerate(overrides.prompt_configurations if overrides else ()):
            if prompt.prompt_type == stage and prompt.foundation_model:
                at = ("promptOverrideConfiguration", "promptConfigurations", index)
                keys = (*at, "foundationModel")
        return self.definition.source.diagnostic("error", "model", error.message, *keys)

    def lint_folder(self, own: Path, used: dict[str, Dialect]) -> Iterator[Diagnostic]:
        from orchestrator.prompts import load_dialect

        known = _list_known_files(own) | self.list_named_files()
        for file in sorted(own.rglob("*")):
            if file.is_file() and not file.name.startswith("."):
                yield from _lint_file(file, own, known)
        for sub in sorted(it for it in own.iterdir() if it.is_dir()):
            try:
                dialect = used.get(sub.name) or load_dialect(sub.name, own)
                for stage, default in dialect.stages.items():
                    if Path(default.source).is_relative_to(sub):
                        yield from self.lint_default(stage, dialect)
            except DefinitionError as error:
                yield from as_findings(error)

    def list_named_files(self) -> set[str]:
        overrides = self.definition and self.definition.prompt_override_configuration
        prompts = overrides.prompt_configurations if overrides else ()
        named = (prompt.base_prompt_template_file for prompt in prompts)
        return {Path(name).name for name in named if name}


def _list_known_files(own: Path) -> set[str]:
    from orchestrator.prompts.languages import ENDINGS
    from orchestrator.prompts.template_files import read_yaml

    known = {"README.md", "dialect.yaml"}
    known |= {file.name for file in (content_root() / "templates").glob("*/*")}
    known |= {file.name for file in (content_root() / "memory").glob("memory_*")}
    for file in own.glob("*/dialect.yaml"):
        try:
            stages = read_yaml(file.read_text(encoding="utf-8"), file).get("stages") or {}
            known |= {str(it["template"]) for it in stages.values() if "template" in it}
        except (DefinitionError, AttributeError, TypeError, UnicodeDecodeError):
            # Reported when the dialect is loaded.
            continue
    stages = {Path(name).stem for name in known if name.endswith((".json", ".txt"))}
    return known | {stem + ending for stem in stages for ending in ENDINGS}


def _lint_file(file: Path, own: Path, known: set[str]) -> Iterator[Diagnostic]:
    from orchestrator.prompts.partials import compile_partial

    if file.name not in known:
        close = find_close(file.name, sorted(known))
        yield Diagnostic(
            severity="warning",
            code="unused-template",
            message=f"nothing reads {str(file.relative_to(own))!r}",
            suggestion=f"did you mean {close!r}?" if close else "give it a shipped file's name",
            file=str(file),
        )
    elif file.suffix == ".j2" and known.isdisjoint((f"{file.stem}.json", f"{file.stem}.txt")):
        try:
            compile_partial(file.read_text(encoding="utf-8"), str(file))
        except DefinitionError as error:
            yield from as_findings(error)
        except UnicodeDecodeError:
            yield from as_findings(DefinitionError("the file is not UTF-8 text", file=file))
