"""Looks into an agent's templates: those that stages use, and files that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.agent.source import find_model_id
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError, OrchestratorError
from orchestrator.support.content_root import content_root
from orchestrator.support.findings import as_findings
from orchestrator.support.spelling import find_close

if TYPE_CHECKING:
    from orchestrator.definition import AgentDefinition
    from orchestrator.prompts import Dialect


# Folders of templates that come with the package.
_SHIPPED = ("templates", "memory")


# An agent's prompts are those of its definition, else of a dialect: its own in `templates/`, or the
# shipped one for its model. Files in `templates/` that no stage uses are checked too.
@dataclass(frozen=True)
class TemplateLint:
    """The findings about an agent's templates, in the order in which they are looked into."""

    root: Path
    definition: AgentDefinition | None
    model: str | None
    strict: bool

    @cached_property
    def _own(self) -> Path | None:
        folder = self.root / "templates"
        return folder if folder.is_dir() else None

    def lint(self) -> Iterator[Diagnostic]:
        """Looks into all of them."""
        from orchestrator.prompts import STAGES, dialect_for, load_dialect

        dialects: dict[str, Dialect] = {}
        for stage in STAGES:
            model_id = ""
            with suppress(OrchestratorError):  # which building the agent reports
                model_id = find_model_id(self.definition, self.root, stage, self.model)
            try:
                name = dialect_for(model_id, self._own)
                dialect = load_dialect(name, self._own, model_id=model_id)
                dialects[name] = dialect
                yield from self._lint_stage(stage, dialect)
            except DefinitionError as error:
                yield from as_findings(error)
        if self._own is not None:
            yield from self._lint_folder(self._own, dialects)
        yield from self._lint_memory()

    def _lint_memory(self) -> Iterator[Diagnostic]:
        # Beside `templates/`, a folder `memory/` may hold the texts about memory.
        folder = self.root / "memory"
        known = {it for it in _list_known_files(folder) if it.startswith("memory_")}
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.name.startswith((".", "README")):
                yield from _lint_file(file, folder, known if file.parent == folder else set())

    def _lint_stage(self, stage: str, dialect: Dialect) -> Iterator[Diagnostic]:
        from orchestrator.definition import prompt_text
        from orchestrator.prompts import lint_template

        own = prompt_text(self.definition, stage, self.root) if self.definition else None
        if own is not None:
            yield from self._check_shadowed(stage, dialect, own.source)
            yield from lint_template(
                own.text,
                stage=stage,
                dialect=dialect,
                source=own.source,
                strict=self.strict,
                language=own.language,
            )
        else:
            yield from self._lint_default(stage, dialect)

    def _check_shadowed(self, stage: str, dialect: Dialect, used: str) -> Iterator[Diagnostic]:
        default = dialect.stages.get(stage)
        file = Path(default.source) if default else None
        if file is None or self._own is None or not file.is_relative_to(self._own):
            return
        if file.resolve() != Path(used).resolve():
            text = (
                f"{str(file.relative_to(self._own))!r} is not used: agent.yaml has its own {stage}"
            )
            yield _make_unused_finding(file, text, "keep one of them")

    def _lint_default(self, stage: str, dialect: Dialect) -> Iterator[Diagnostic]:
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

    def _lint_folder(self, own: Path, used: dict[str, Dialect]) -> Iterator[Diagnostic]:
        from orchestrator.prompts import load_dialect

        known = _list_known_files(own) | self._list_named_files()
        for file in sorted(own.rglob("*")):
            if file.is_file() and not file.name.startswith("."):
                yield from _lint_file(file, own, known)
        yield from self._check_other_dialects(own, used)
        for sub in sorted(it for it in own.iterdir() if it.is_dir()):
            try:
                dialect = used.get(sub.name) or load_dialect(sub.name, own)
                for stage, default in dialect.stages.items():
                    if Path(default.source).is_relative_to(sub):
                        yield from self._lint_default(stage, dialect)
            except DefinitionError as error:
                yield from as_findings(error)

    def _check_other_dialects(self, own: Path, used: dict[str, Dialect]) -> Iterator[Diagnostic]:
        # `orchestration.txt` beside `orchestration.json`: which is read depends on the dialect.
        from orchestrator.prompts import STAGES

        named = self._list_named_files()
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

    def _list_named_files(self) -> set[str]:
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
