"""What the verbs that carry agents share: options of an endpoint, notes, and differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.findings import format_path, show_finding
from orchestrator.cli.terminal import Terminal, clean

if TYPE_CHECKING:
    from orchestrator.diagnostics import Diagnostic
    from orchestrator.transfer import Change

Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url",
        metavar="URL",
        help="Another address than AWS's, such as that of `orchestrator serve`.",
        show_default=False,
    ),
]
Region = Annotated[
    str | None,
    typer.Option("--region", metavar="NAME", help="The AWS region.", show_default=False),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", help="A profile of AWS's configuration.", show_default=False
    ),
]
Alias = Annotated[
    str | None,
    typer.Option(
        "--alias",
        metavar="ALIAS",
        help="The version that this alias, by its id or name, leads to.",
        show_default=False,
    ),
]
Version = Annotated[
    str | None,
    typer.Option("--version", metavar="N", help="This version.", show_default=False),
]
Into = Annotated[
    Path | None,
    typer.Option(
        "--into",
        metavar="FOLDER",
        help="The folder to write. Default: the agent's name.",
        show_default=False,
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Overwrite files with other texts; remove what is left.")
]


def show_notes(terminal: Terminal, notes: Iterable[Diagnostic]) -> None:
    """Writes notes to stderr."""
    for it in notes:
        show_finding(terminal, it, stderr=True)


def show_changes(terminal: Terminal, changes: Sequence[Change]) -> None:
    """Writes what is different as a unified diff, in colour on a terminal."""
    from rich.text import Text

    for line in (line for it in changes for line in _render_diff(it)):
        style = next((name for mark, name in _STYLES if line.startswith(mark)), "")
        terminal.path(Text(clean(line), style))


_STYLES = (
    ("---", "name"),
    ("+++", "name"),
    ("@@", "heading"),
    ("-", "error"),
    ("+", "good"),
)


def _render_diff(change: Change) -> Iterable[str]:
    before = "/dev/null" if change.before is None else f"a/{change.path}"
    after = "/dev/null" if change.after is None else f"b/{change.path}"
    return unified_diff(
        (change.before or "").splitlines(),
        (change.after or "").splitlines(),
        before,
        after,
        lineterm="",
    )


def write_agent(
    terminal: Terminal, files: dict[str, str], folder: Path, *, force: bool
) -> dict[str, Any]:
    """Writes an agent's folder; shows what would be changed where that is refused.

    Returns:
        What to tell in JSON.

    Raises:
        ValidationError: Files that are there have other texts or would go, and `force` was not
            given.
    """
    from orchestrator.transfer import changes, write_files

    changed = [it for it in changes(files, folder) if it.before is not None]
    if changed and not force and not terminal.json:
        show_changes(terminal, changed)
    written = write_files(files, folder, force=force)
    if not terminal.json:
        _report_written(terminal, folder, written)
    removed = [it.path for it in written if it.after is None]
    return {
        "folder": str(folder),
        "written": [it.path for it in written if it.after is not None],
        **({"removed": removed} if removed else {}),
        "files": [*files],
    }


def _report_written(terminal: Terminal, folder: Path, written: Sequence[Change]) -> None:
    for it in written:
        did = "removed" if it.after is None else "wrote"
        terminal.path(f"{did} {format_path(folder / it.path)}")
    if not written:
        terminal.path(f"{format_path(folder)} is as it was: there is nothing to do")
