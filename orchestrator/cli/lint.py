"""`orchestrator lint`: what is wrong or doubtful in an agent's folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.agents import find_model_id, get_agent_root
from orchestrator.cli.findings import as_findings, collect_findings, show_finding
from orchestrator.cli.options import Libraries, Model, Source
from orchestrator.cli.scripts import is_script, is_template, lint_script, lint_template_file
from orchestrator.cli.terminal import Terminal, assemble, clean, format_count, style_text
from orchestrator.cli.verb import AGENT_FAILED, verb
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError, OrchestratorError
from orchestrator.support.content_root import content_root
from orchestrator.support.spelling import did_you_mean, find_close

if TYPE_CHECKING:
    from orchestrator.agent.build import Attempt
    from orchestrator.definition import AgentDefinition
    from orchestrator.prompts import Dialect


READ_ONLY = "read-only-member"


@verb
def lint(
    terminal: Terminal,
    folder: Source,
    model: Model = None,
    lib: Libraries = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail on warnings too, and on what Bedrock's API may refuse."
        ),
    ] = False,
) -> None:
    """Check an agent's folder, a script or a template.

    Of an agent it checks the definition, actions, templates and collaborators. The exit code is 1
    when there are errors (with --strict: or warnings).

    [bold]Examples[/bold]
      $ orchestrator lint examples/insurance
      $ orchestrator lint my-agent --strict --json
      $ orchestrator lint examples/flows/papers.pl
      $ orchestrator lint greeting.prompty
    """
    if is_script(folder):
        found = lint_script(folder, lib or ())
    elif is_template(folder):
        found = lint_template_file(folder, strict=strict)
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


def lint_agent(folder: Path, model: str | None = None, *, strict: bool = False) -> list[Diagnostic]:
    """Checks an agent, and those that it leads, without running a turn or needing its models.

    The agent is built as `Agent.load` builds it, so what keeps it from loading is found. Python
    files that action groups name with `python:` are run, since their functions are the group;
    handlers and parsers are not.

    Returns:
        The findings in the order of their places.

    Raises:
        ResourceNotFound: There is nothing at `folder`.
    """
    found: list[Diagnostic] = []
    attempts: list[Attempt] = []
    with collect_findings(found):
        attempts = _try_build(folder, model)
    try:
        by_folder = {attempt.source.folder: attempt for attempt in reversed(attempts)}
        found += _lint_folder(folder, model, strict, by_folder, 1)
        known = [(it.file, it.line, it.column) for it in found if it.severity == "error"]
        for mistake in (it for attempt in attempts for it in _find_mistakes(attempt)):
            # A template is looked into more closely above than when it is built.
            if (mistake.file, mistake.line, mistake.column) not in known or mistake.file is None:
                found.append(mistake)
    finally:
        for attempt in attempts:
            attempt.close()
    return sorted(
        dict.fromkeys(found), key=lambda it: (it.file or "", it.line or 0, it.column or 0)
    )


def _try_build(folder: Path, model: str | None) -> list[Attempt]:
    from orchestrator.agent.build import source_from_folder, try_build
    from orchestrator.models.scripted_model import ScriptedModel

    source = source_from_folder(folder, model=model)
    # Without a model it loads with one that is given.
    stand_in = model or source.definition.foundation_model
    return try_build(source if stand_in else replace(source, model=ScriptedModel(())))


def _find_mistakes(attempt: Attempt) -> Iterator[Diagnostic]:
    for error in attempt.mistakes:
        if isinstance(error, DefinitionError):
            yield from as_findings(error)
        else:
            yield attempt.source.definition.source.diagnostic("error", "load", error.message)


def _lint_folder(
    folder: Path,
    model: str | None,
    strict: bool,
    attempts: Mapping[Path | None, Attempt],
    level: int,
) -> list[Diagnostic]:
    from orchestrator.definition import lint_collaborator, lint_definition, load_definition

    found: list[Diagnostic] = []
    definition: AgentDefinition | None = None
    root = get_agent_root(folder)
    with collect_findings(found):
        definition = load_definition(folder)
        found += lint_definition(definition)
        found += lint_collaborator(definition) if level > 1 else _check_model(definition, model)
        if (attempt := attempts.get(root)) is not None:
            found += _check_patterns(attempt)
            found += _find_appended_tools(attempt)
            found += _lint_script(attempt)
        found += _lint_team(definition, model, strict, attempts, level)
    found += _Templates(root, definition, model, strict).lint()
    return found


def _check_model(definition: AgentDefinition, model: str | None) -> Iterator[Diagnostic]:
    if model is None and definition.foundation_model is None:
        text = "the agent names no foundationModel, and needs one to run"
        way = "name one, such as `foundationModel: local`, or give one with --model"
        yield definition.source.diagnostic("info", "no-model", text, suggestion=way)


def _check_patterns(attempt: Attempt) -> Iterator[Diagnostic]:
    from orchestrator.actions.coercion import find_unchecked_patterns

    definition = attempt.source.definition
    groups = {it.name: it for it in attempt.parts.get("groups", ())}
    for index, group in enumerate(definition.action_groups):
        executor = group.action_group_executor
        if executor is not None and executor.mcp is not None:  # the server checks its arguments
            continue
        built = groups.get(group.action_group_name)
        for operation in built.operations if built else ():
            for pattern, why in find_unchecked_patterns(operation.schema):
                text = (
                    f"the pattern {pattern[:80]!r} of {operation.name!r} is not checked ({why}); "
                    "write it without, or check the argument in the action"
                )
                at = ("actionGroups", index, "actionGroupName")
                yield definition.source.diagnostic("warning", "pattern", text, *at)


def _find_appended_tools(attempt: Attempt) -> list[Diagnostic]:
    from orchestrator.prompts.appended_tools import APPENDED_TOOLS

    findings = attempt.agent.diagnostics if attempt.agent is not None else ()
    return [one for one in findings if one.code == APPENDED_TOOLS]


def _lint_script(attempt: Attempt) -> list[Diagnostic]:
    from orchestrator.definition.files import locate

    definition = attempt.source.definition
    if definition.orchestration is None:
        return []
    # Every turn passes these two.
    inputs = ("question", "content")
    found = lint_script(locate(definition, definition.orchestration, ("orchestration",)))
    found = [one for one in found if one.code != "argument" or _extract_name(one) not in inputs]
    if not {"groups", "knowledge_bases"} <= attempt.parts.keys():
        return found
    return list(_check_calls(found, _list_callable_names(attempt)))


def _check_calls(found: Sequence[Diagnostic], known: set[str]) -> Iterator[Diagnostic]:
    # The functions of the agent are there, whatever the program's own lint says of them.
    for one in found:
        name = _extract_name(one)
        if one.code == "function" and name not in known:
            text = f"the agent has no action @{name}(...){did_you_mean(name, known)}"
            yield replace(one, severity="warning", message=text, suggestion="")
        elif one.code != "function":
            yield one


def _list_callable_names(attempt: Attempt) -> set[str]:
    from orchestrator.definition import collaborators_of

    names: set[str] = set()
    for one in (it for group in attempt.parts["groups"] for it in group.operations):
        names |= {one.name, f"{one.group}__{one.name}", one.tool_use_name}
    bases = attempt.parts["knowledge_bases"]
    names |= {"search", *(one.id for one in bases)} if bases else set()
    names |= {one.collaborator_name for one in collaborators_of(attempt.source.definition)}
    return {re.sub(r"\W", "_", name) for name in names}


def _extract_name(finding: Diagnostic) -> str:
    return finding.message.split()[0].lstrip("$@")


def _lint_team(
    definition: AgentDefinition,
    model: str | None,
    strict: bool,
    attempts: Mapping[Path | None, Attempt],
    level: int,
) -> Iterator[Diagnostic]:
    from orchestrator.definition import collaborators_of
    from orchestrator.definition.files import locate_folder
    from orchestrator.engine.plan import MOST_LEVELS

    for index, member in enumerate(collaborators_of(definition)):
        where = member.agent_descriptor
        if where is None or where.folder is None or level == MOST_LEVELS:
            continue
        at = ("agentCollaborators", index, "agentDescriptor", "folder")
        folder = locate_folder(definition, where.folder, at)
        yield from _lint_folder(folder, model, strict, attempts, level + 1)


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
            with suppress(OrchestratorError):  # which building the agent reports
                model_id = find_model_id(self.definition, self.root, stage, self.model)
            try:
                name = dialect_for(model_id, self.own)
                dialect = load_dialect(name, self.own, model_id=model_id)
                dialects[name] = dialect
                yield from self.lint_stage(stage, dialect)
            except DefinitionError as error:
                yield from as_findings(error)
        if self.own is not None:
            yield from self.lint_folder(self.own, dialects)
        yield from self.lint_memory()

    def lint_memory(self) -> Iterator[Diagnostic]:
        # Beside `templates/`, a folder `memory/` may hold the texts about memory.
        folder = self.root / "memory"
        known = {it for it in _list_known_files(folder) if it.startswith("memory_")}
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.name.startswith((".", "README")):
                yield from _lint_file(file, folder, known if file.parent == folder else set())

    def lint_stage(self, stage: str, dialect: Dialect) -> Iterator[Diagnostic]:
        from orchestrator.definition import prompt_text
        from orchestrator.prompts import lint_template

        own = prompt_text(self.definition, stage, self.root) if self.definition else None
        if own is not None:
            yield from self.check_shadowed(stage, dialect, own.source)
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

    def check_shadowed(self, stage: str, dialect: Dialect, used: str) -> Iterator[Diagnostic]:
        default = dialect.stages.get(stage)
        file = Path(default.source) if default else None
        if file is None or self.own is None or not file.is_relative_to(self.own):
            return
        if file.resolve() != Path(used).resolve():
            text = (
                f"{str(file.relative_to(self.own))!r} is not used: agent.yaml has its own {stage}"
            )
            yield _make_unused_finding(file, text, "keep one of them")

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

    def lint_folder(self, own: Path, used: dict[str, Dialect]) -> Iterator[Diagnostic]:
        from orchestrator.prompts import load_dialect

        known = _list_known_files(own) | self.list_named_files()
        for file in sorted(own.rglob("*")):
            if file.is_file() and not file.name.startswith("."):
                yield from _lint_file(file, own, known)
        yield from self.check_other_dialects(own, used)
        for sub in sorted(it for it in own.iterdir() if it.is_dir()):
            try:
                dialect = used.get(sub.name) or load_dialect(sub.name, own)
                for stage, default in dialect.stages.items():
                    if Path(default.source).is_relative_to(sub):
                        yield from self.lint_default(stage, dialect)
            except DefinitionError as error:
                yield from as_findings(error)

    def check_other_dialects(self, own: Path, used: dict[str, Dialect]) -> Iterator[Diagnostic]:
        # `orchestration.txt` beside `orchestration.json`: which is read depends on the dialect.
        from orchestrator.prompts import STAGES

        named = self.list_named_files()
        stages = {stage.lower(): stage for stage in STAGES}
        for file in sorted(it for it in own.iterdir() if it.is_file() and it.name not in named):
            stage = stages.get(file.name.partition(".")[0])
            read = {
                name: Path(dialect.stages[stage].source)
                for name, dialect in used.items()
                if stage is not None and stage in dialect.stages
            }
            others = [(name, it) for name, it in read.items() if it.is_relative_to(own)]
            if others and file not in read.values():
                name, other = others[0]
                text = f"{file.name!r} is not used with the dialect {name!r}, which reads "
                text += repr(str(other.relative_to(own)))
                way = "keep it for models of other dialects, or in the folder of one of them"
                yield replace(_make_unused_finding(file, text, way), severity="info")

    def list_named_files(self) -> set[str]:
        overrides = self.definition and self.definition.prompt_override_configuration
        prompts = overrides.prompt_configurations if overrides else ()
        named = (prompt.base_prompt_template_file for prompt in prompts)
        return {Path(name).name for name in named if name}


def _list_known_files(own: Path) -> set[str]:
    from orchestrator.prompts.languages import ENDINGS
    from orchestrator.prompts.template_files import BODY_ENDINGS, read_yaml

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
    known |= {stem + ending for stem in stages for ending in (*ENDINGS, *BODY_ENDINGS)}
    return known | _list_included_files(own)


def _list_included_files(own: Path) -> set[str]:
    """The names of files that templates of other languages include, or refer to."""
    from orchestrator.prompts.languages import language_of
    from orchestrator.prompts.template_files import read_text

    files = {file.name: file for file in own.rglob("*") if file.is_file()}
    left = [file for file in files.values() if language_of(file) is not None]
    found: set[str] = set()
    while left:
        try:
            text = read_text(left.pop())
        except DefinitionError:  # reported when the template is loaded
            continue
        named = {name for name in files.keys() - found if name in text}
        found |= named
        left += [files[name] for name in named]
    return found


def _make_unused_finding(file: Path, message: str, suggestion: str) -> Diagnostic:
    return Diagnostic(
        severity="warning",
        code="unused-template",
        message=message,
        suggestion=suggestion,
        file=str(file),
    )


def _lint_file(file: Path, own: Path, known: set[str]) -> Iterator[Diagnostic]:
    from orchestrator.prompts.partials import compile_partial

    if file.name not in known:
        close = find_close(file.name, sorted(known))
        way = f"did you mean {close!r}?" if close else "give it a shipped file's name"
        yield _make_unused_finding(file, f"nothing reads {str(file.relative_to(own))!r}", way)
    elif file.suffix == ".j2" and known.isdisjoint((f"{file.stem}.json", f"{file.stem}.txt")):
        try:
            compile_partial(file.read_text(encoding="utf-8"), str(file))
        except DefinitionError as error:
            yield from as_findings(error)
        except UnicodeDecodeError:
            yield from as_findings(DefinitionError("the file is not UTF-8 text", file=file))
