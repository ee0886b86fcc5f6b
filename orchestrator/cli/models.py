"""`orchestrator models`: the embedded models' weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.findings import format_path
from orchestrator.cli.session_state import local_time
from orchestrator.cli.terminal import (
    Terminal,
    assemble,
    format_count,
    format_line,
    progress_bar,
    style_text,
)
from orchestrator.cli.verb import option, verb
from orchestrator.cli.warm_up import Warm, warm_up
from orchestrator.support.content_root import content_root

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
        terminal.document(
            {"folder": str(weights.folder()), "models": [one.as_dict() for one in listed]}
        )
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
    warm: Warm = None,
) -> None:
    """Download a model, resume where an earlier download stopped, and verify its sha256.

    On a terminal, a model that answers then reads the instructions of the agent that `orchestrator
    init` makes, so that the first answer is quick.

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
    if wanted.kind == "chat":
        warm_up(terminal, content_root() / "examples" / "starter", warm, f"local:{wanted.name}")


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


@verb
def cache(
    terminal: Terminal,
    clear: Annotated[bool, typer.Option("--clear", help="Delete them all.")] = False,
) -> None:
    """List what was kept of prompts that embedded models have read, or delete it.

    It is the beginning of each agent's prompt, its instructions and functions, in the runtime's own
    form; with it the first answer of a new process need not wait until they are read again.

    [bold]Examples[/bold]
      $ orchestrator models cache
      $ orchestrator models cache --clear
    """
    from orchestrator.models.prompt_states import MOST_BYTES, PromptStates

    kept = PromptStates()
    states = kept.clear() if clear else kept.entries()
    size = sum(state.size for state in states)
    total = f"{format_count(len(states), 'prompt')}, {_to_megabytes(size)}"
    if terminal.json:
        listed = [
            {"tokens": it.tokens, "size": it.size, "used": it.used, "key": it.key} for it in states
        ]
        document = {"folder": str(kept.folder), "size": size, "most": MOST_BYTES}
        terminal.document({**document, "deleted" if clear else "prompts": listed})
    elif clear:
        terminal.print(f"deleted {total}")
    else:
        for it in states:
            used = f"used {local_time(int(it.used * 1e9))}"
            name = format_count(it.tokens, "token")
            terminal.block(format_line(name, [_to_megabytes(it.size), used]))
        terminal.path(f"{total} of {_to_megabytes(MOST_BYTES)}, in {format_path(kept.folder)}")


def _to_megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _show(terminal: Terminal, item: ModelListing) -> None:
    weights = item.weights
    here = ("here", "good") if item.path else ("not downloaded", "quiet")
    short = f" ({', '.join(weights.aliases)})" if weights.aliases else ""
    terminal.block(assemble((weights.name, "name"), short, "  ", here))
    terminal.block(f"{weights.summary} · {weights.megabytes} · {weights.licence}", 2)
    terminal.block(style_text(f"sha256 {weights.sha256}", "quiet"), 2)
