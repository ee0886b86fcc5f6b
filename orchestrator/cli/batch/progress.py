"""How far a batch is: a table on a terminal, a line a tenth in a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.cli.terminal import Terminal, clean, format_count, shorten

if TYPE_CHECKING:
    from rich.table import Table


@dataclass
class Progress:
    """Counts of a batch."""

    total: int
    known: int = 0  # results of earlier runs
    running: int = 0
    answered: int = 0
    waiting: int = 0  # calls were handed over, and nobody gave their results
    failed: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    last_error: str = ""
    stopping: bool = False  # the user has had enough
    began: float = field(default_factory=time.monotonic)

    @property
    def new_results(self) -> int:
        """How many results this run has."""
        return self.answered + self.waiting + self.failed

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.began

    def add(self, result: dict[str, Any]) -> None:
        """Counts a result."""
        if result["error"] is not None:
            self.failed += 1
            self.last_error = f"{result['id']}: {result['error']['message']}"
        elif "return_control" in result:
            self.waiting += 1
        else:
            self.answered += 1
        self.calls += result["calls"]
        self.input_tokens += result["tokens"]["input"]
        self.output_tokens += result["tokens"]["output"]

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON members."""
        return {
            "questions": self.total,
            "known": self.known,
            "answered": self.answered,
            "waiting": self.waiting,
            "failed": self.failed,
            "left": self.total - self.known - self.new_results,
            "calls": self.calls,
            "tokens": {"input": self.input_tokens, "output": self.output_tokens},
            "seconds": round(self.seconds, 3),
        }

    def describe(self) -> str:
        """The counts on one line."""
        facts = [
            f"{self.known + self.new_results:,} of {format_count(self.total, 'question')}",
            f"{self.answered:,} answered",
        ]
        facts += [f"{self.waiting:,} waiting for results"] if self.waiting else []
        facts += [f"{self.failed:,} failed"] if self.failed else []
        facts += [f"{self.known:,} known before"] if self.known else []
        tokens = f"{self.input_tokens:,} → {self.output_tokens:,} tokens"
        return " · ".join([*facts, format_count(self.calls, "model call"), tokens])


@contextmanager
def show_progress(terminal: Terminal, progress: Progress) -> Iterator[Callable[[], None]]:
    """A function that is called after each result."""
    if not terminal.err.is_terminal:
        yield _Lines(terminal, progress).show
        return
    from rich.live import Live

    with Live(
        console=terminal.err,
        get_renderable=lambda: _build_table(progress, terminal.err.width),
        refresh_per_second=4,
        transient=True,
    ):
        yield lambda: None


class _Lines:
    def __init__(self, terminal: Terminal, progress: Progress) -> None:
        self._terminal, self._progress = terminal, progress
        self._last = self._tenth
        self._stopping = False

    @property
    def _tenth(self) -> int:
        done = self._progress.known + self._progress.new_results
        return 10 * done // max(self._progress.total, 1)

    def show(self) -> None:
        """A line a tenth, and one when the user has stopped it."""
        if self._progress.stopping and not self._stopping:
            self._stopping = True
            count = format_count(self._progress.running, "question")
            self._terminal.note(f"Stopping: {count} that were begun get their results.")
        if self._tenth != self._last:
            self._last = self._tenth
            self._terminal.note(self._progress.describe())


def _build_table(progress: Progress, width: int) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    done = progress.known + progress.new_results
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column()
    table.add_row(
        f"{100 * done // max(progress.total, 1)} %",
        ProgressBar(progress.total, done, width=max(min(width - 12, 60), 10)),
    )
    rows = [
        ("done", f"{done:,} of {progress.total:,} ({progress.known:,} known before)"),
        ("running", f"{progress.running:,}"),
        ("answered", f"{progress.answered:,}"),
        ("waiting", f"{progress.waiting:,} for results of calls"),
        ("failed", f"{progress.failed:,}"),
        ("tokens", f"{progress.input_tokens:,} → {progress.output_tokens:,}"),
        ("time", _describe_time(progress)),
    ]
    for name, value in rows:
        table.add_row(name, value)
    if progress.stopping:
        table.add_row("stopping", "what was begun gets its result; Ctrl-C again leaves it")
    if progress.last_error:
        table.add_row("last error", shorten(clean(progress.last_error), max(width - 16, 20)))
    return table


def _describe_time(progress: Progress) -> str:
    passed = f"{_format_seconds(progress.seconds)} passed"
    if not progress.new_results:
        return passed
    each = progress.seconds / progress.new_results
    left = each * (progress.total - progress.known - progress.new_results)
    return f"{passed}, about {_format_seconds(left)} left ({60 / max(each, 1e-6):,.0f} a minute)"


def _format_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
