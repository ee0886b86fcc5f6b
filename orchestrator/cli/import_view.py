"""What an import brought, in one table: what came over, what to decide, what has no counterpart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.findings import format_path
from orchestrator.cli.terminal import Terminal, assemble, clean, format_count

if TYPE_CHECKING:
    from orchestrator.diagnostics import Diagnostic
    from orchestrator.transfer import Document
    from orchestrator.transfer.import_summary import Row
    from orchestrator.transfer.sources import ImportedAgents


def show_import(
    terminal: Terminal,
    found: ImportedAgents,
    agents: Mapping[str, Document],
    folders: Mapping[str, Path],
    written: Mapping[str, Mapping[str, Any]],
    checked: Mapping[str, Sequence[Diagnostic]],
) -> None:
    """Writes the table."""
    from orchestrator.transfer.import_summary import iter_rows

    decisions: set[tuple[str, str]] = set()
    for number, row in enumerate(iter_rows(found, agents, folders, written, checked, format_path)):
        if row.kind == "agent" and number:
            terminal.print()
        # One value that several agents need is one decision.
        again = row.kind == "decide" and (row.text, row.way) in decisions
        _show_row(terminal, _shorten(row) if again else row)
        if row.kind == "decide":
            decisions.add((row.text, row.way))
    _show_summary(terminal, len(agents), found.format, len(decisions))


def _shorten(row: Row) -> Row:
    return replace(row, place=f"{row.place} (as above)".lstrip(), way="")


_MARKS = {
    "agent": ("", "name"),
    "came": ("✓", "good"),
    "decide": ("!", "warning"),
    "none": ("–", "quiet"),
}


_INDENT = 14  # of what stands beside the mark and the subject


def _show_row(terminal: Terminal, row: Row) -> None:
    mark, style = _MARKS[row.kind]
    own = {"agent": "name", "none": "quiet"}.get(row.kind, "")
    head = row.subject if row.kind == "agent" else f"{row.subject:<11}"
    first = assemble((mark, style), " " if mark else "", (clean(head), own), " ")
    text = assemble((clean(row.text), own))
    if row.place:
        text.append(f"  {clean(row.place)}", "quiet")
    width = max(terminal.out.width - _INDENT, 30)
    for number, line in enumerate(text.wrap(terminal.out, width)):
        whole = assemble(first if number == 0 else " " * _INDENT, line)
        whole.rstrip()
        terminal.path(whole)
    if row.way:
        way = assemble(("= ", "quiet"), (clean(row.way), "good"))
        terminal.block(way, _INDENT)


def _show_summary(terminal: Terminal, count: int, form: str, decisions: int) -> None:
    text = f"\n{format_count(count, 'agent')} from {form}"
    todo = f"{format_count(decisions, 'decision')} to take" if decisions else "nothing to decide"
    terminal.print(assemble(text, ", ", (todo, "warning" if decisions else "good")))
