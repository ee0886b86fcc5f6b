"""How far something is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.cli.terminal import Terminal
from orchestrator.models.weights import Progress


@contextmanager
def progress_bar(terminal: Terminal, *, told: bool = False) -> Iterator[Progress | None]:
    """A callback that shows on stderr how far something is; the bar goes when it is done.

    Args:
        terminal: Where to.
        told: Whether to write a line for every tenth when there is no terminal.
    """
    if not terminal.err.is_terminal:
        yield _tenths(terminal) if told else None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}"), BarColumn(None), TaskProgressColumn()]
    if terminal.err.width >= 72:
        columns += [DownloadColumn(), TimeRemainingColumn(compact=True)]
    with Progress(*columns, console=terminal.err, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(done: int, total: int, text: str) -> None:
            # Whatever comes after the last byte may keep the bar's own thread from drawing.
            bar.update(task, completed=done, total=total, description=text, refresh=done >= total)

        yield show


def _tenths(terminal: Terminal) -> Progress:
    last: tuple[str, int] = ("", -1)

    def show(done: int, total: int, text: str) -> None:
        nonlocal last
        now = (text, 10 * done // max(total, 1))
        if now != last:
            terminal.note(f"{text}: {10 * now[1]} %")
            last = now

    return show
