"""`orchestrator lint`: what is wrong or doubtful in an agent's folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from orchestrator.cli.findings import show_finding
from orchestrator.cli.options import Libraries, Model, Source
from orchestrator.cli.terminal import Terminal, assemble, clean, format_count, style_text
from orchestrator.cli.verb import AGENT_FAILED, verb
from orchestrator.diagnostics import Diagnostic

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

    For an agent it checks the definition, actions, templates and collaborators. The exit code is 1
    if there are errors (with --strict, also if there are warnings).

    [bold]Examples[/bold]
      $ orchestrator lint examples/insurance
      $ orchestrator lint my-agent --strict --json
      $ orchestrator lint examples/flows/papers.pl
      $ orchestrator lint greeting.prompty
    """
    from orchestrator.agent.files import is_script, is_template
    from orchestrator.agent.lint import lint_agent, lint_script, lint_template_file

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
