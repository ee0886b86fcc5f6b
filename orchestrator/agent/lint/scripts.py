"""Looks into scripts, and templates in other languages than Bedrock's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.agent.files import load_template_file
from orchestrator.diagnostics import Diagnostic
from orchestrator.support.findings import collect_findings


def lint_script(path: Path, libraries: Sequence[Path] = ()) -> list[Diagnostic]:
    """What is wrong or doubtful in a script, or in all scripts of a folder."""
    from orchestrator.flows.languages import ENDINGS, Grants, lint_program, read_file

    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.name.endswith(tuple(ENDINGS)))
    found: list[Diagnostic] = []
    for file in files:
        with collect_findings(found):
            found += lint_program(read_file(file, Grants(libraries)))
    return found


def lint_template_file(path: Path, *, strict: bool = False) -> list[Diagnostic]:
    """What is wrong or doubtful in a template.

    Raises:
        ResourceNotFound: There is no such file.
    """
    from orchestrator.prompts.languages.base import check_declared_inputs

    found: list[Diagnostic] = []
    with collect_findings(found):
        document = load_template_file(path, strict=strict).document
        found += [*document.diagnostics, *check_declared_inputs(document)]
    return found
