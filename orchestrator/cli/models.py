"""`orchestrator models`: the embedded models' weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.findings import format_path
from orchestrator.cli.terminal import Terminal, assemble, progress_bar, style_text
from orchestrator.cli.verb import option, verb

if TYPE_CHECKING:
    from orchestrator.models.weights import ModelListing

Name = Annotated[str, typer.Argument(metavar="NAME", help="A model's name or short name.")]


@verb
def list_(terminal: Terminal) -> None:
    """List the embedded models: size, licence, and whether they are here.

    [bold]Examples[/bold]
      $ orchestrator models list
    """
    from orchestrator.models import weights

    listed = weights.available()
    if terminal.json:
        terminal.document({"folder": str(weights.folder()), "models": [*map(_to_json, listed)]})
        return
    for item in listed:
        _show(terminal, item)
    terminal.path(f"kept in {format_path(weights.folder())}")


@verb
def pull(
    terminal: Terminal,
    name: Name = "default",
    source: Annotated[
        Path | None, option("--source", "PATH", "Take it from this file or folder.")
    ] = None,
) -> None:
    """Download a model, resume where an earlier download stopped, and verify its sha256.

    [bold]Examples[/bold]
      $ orchestrator models pull
      $ orchestrator models pull 0.5b
      $ orchestrator models pull minilm
      $ orchestrator models pull --source /media/usb
    """
    from orchestrator.models import weights

    wanted = weights.find(name)
    terminal.note(f"{wanted.name}: {wanted.megabytes}, licence {wanted.licence}")
    with progress_bar(terminal, lines=True) as progress:
        file = weights.pull(name, progress, source=source)
    if terminal.json:
        terminal.document({"name": wanted.name, "path": str(file), "sha256": wanted.sha256})
    else:
        terminal.path(f"verified {format_path(file)}")


@verb
def path(terminal: Terminal, name: Name = "default") -> None:
    """Print the path of a model's verified file.

    [bold]Examples[/bold]
      $ orchestrator models path 0.5b
    """
    from orchestrator.models import weights

    with progress_bar(terminal) as progress:
        file = weights.path(name, progress)
    if terminal.json:
        terminal.document({"name": weights.find(name).name, "path": str(file)})
    else:
        terminal.raw(f"{file}\n")


@verb
def remove(
    terminal: Terminal, name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
) -> None:
    """Delete a model's weights from this machine.

    [bold]Examples[/bold]
      $ orchestrator models remove 0.5b
    """
    from orchestrator.models import weights

    wanted = weights.find(name)
    removed = weights.remove(name)
    text = f"{'removed' if removed else 'was not here:'} {wanted.name}"
    terminal.report({"name": wanted.name, "removed": removed}, text)


def _to_json(item: ModelListing) -> dict[str, Any]:
    weights = item.weights
    return {
        "name": weights.name,
        "kind": weights.kind,
        "aliases": list(weights.aliases),
        "summary": weights.summary,
        "size": sum(file.size for file in weights.files),
        "licence": weights.licence,
        "attribution": weights.attribution,
        "sha256": weights.sha256,
        "default": item.default,
        "path": str(item.path) if item.path else None,
    }


def _show(terminal: Terminal, item: ModelListing) -> None:
    weights = item.weights
    here = ("here", "good") if item.path else ("not downloaded", "quiet")
    short = f" ({', '.join(weights.aliases)})" if weights.aliases else ""
    terminal.block(assemble((weights.name, "name"), short, "  ", here))
    terminal.block(f"{weights.summary} · {weights.megabytes} · {weights.licence}", 2)
    terminal.block(style_text(f"sha256 {weights.sha256}", "quiet"), 2)
