"""`orchestrator lint`: what is wrong or doubtful in an agent's folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import Folder, Model
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.verb import AGENT_FAILED, verb

if TYPE_CHECKING:
    from orchestrator.diagnostics import Diagnostic

READ_ONLY = "read-only-member"


@verb
def lint(
    terminal: Terminal,
    folder: Folder,
    model: Model = None,
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
    from orchestrator.cli.findings import show_finding
    from orchestrator.cli.lint_agent import lint_agent
    from orchestrator.cli.scripts import is_script, lint_script
    from orchestrator.cli.templates import is_template, lint_template_file

    if is_script(folder):
        found = lint_script(folder)
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
    """One line for all members of Bedrock's answers that only Bedrock sets."""
    from rich.text import Text

    if not found:
        return
    names = ", ".join(finding.message.split("'")[1] for finding in found)
    members = "1 member" if len(found) == 1 else f"{len(found)} members"
    text = f": {members} that only Bedrock sets left out: {names}"
    terminal.block(Text.assemble(("info", "info"), clean(text), (f" [{READ_ONLY}]", "quiet")))


def _show_summary(terminal: Terminal, found: Sequence[Diagnostic], count: Counter[str]) -> None:
    from rich.text import Text

    if not found:
        terminal.print(Text("nothing to complain about", "good"))
        return
    parts = [
        (f"{count[severity]} {severity}{'s' if count[severity] > 1 else ''}", severity)
        for severity in ("error", "warning")
        if count[severity]
    ]
    if count["info"]:
        parts.append((f"{count['info']} for your information", "info"))
    line = Text()
    for place, part in enumerate(parts):
        line.append(", " if place else "").append(*part)
    terminal.print(line)
