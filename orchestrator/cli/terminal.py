"""Output: answers and documents go to stdout, everything else to stderr.

Colours have meanings, not names: `STYLES` is the only place that says what each looks like. There
are none when the output is piped or `NO_COLOR` is set.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from io import StringIO
from typing import TYPE_CHECKING, Any, NoReturn

from orchestrator.models.weights import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "info": "bold blue",
    "good": "green",
    "quiet": "dim",
    "name": "bold",
    "heading": "bold cyan",
    "thinking": "italic",
    "call": "magenta",
    "answer": "green",
    "you": "bold green",
    "agent": "bold cyan",
}

_WIDE = 100_000
_LONG_PROMPT = 128  # tokens, which take some two seconds
_HELD = "\ue000"  # stands for a space while a text is wrapped
_PIECES = re.compile(r"\n|[^\S\n]+|\S+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """A text of a model, user or action without what a terminal would obey."""
    # A reply with escape sequences could rewrite what stands on the screen, or the clipboard.
    return _CONTROLS.sub("�", text.replace("\r\n", "\n")) if not text.isprintable() else text


def shorten(text: str, limit: int) -> str:
    """A text on one line, cut to `limit` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def format_count(number: int, noun: str) -> str:
    """A number of things: `1 passage`, or `2 passages`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def join_facts(facts: Iterable[str]) -> str:
    """Facts side by side for `Terminal.block`, which wraps between them and not inside."""
    return " · ".join(fact.replace(" ", _HELD) for fact in facts)


# rich takes long to import, and --json does without it: only these two import `Text`.
def style_text(text: str = "", style: str = "", **settings: Any) -> Text:
    """A text in one style."""
    from rich.text import Text

    return Text(text, style, **settings)


def assemble(*parts: Text | str | tuple[str, str]) -> Text:
    """A text of parts, each plain or with its style."""
    from rich.text import Text

    return Text.assemble(*parts)


def format_line(name: str, facts: Iterable[str]) -> Text:
    """A line of a list: a name, and facts about it."""
    line = join_facts(map(clean, facts))
    return assemble((clean(name), "name"), (f"  {line}", "quiet"))


class WordWrap:
    """Wraps a text by words while it streams."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._space = ""
        self._word = ""

    def feed(self, text: str) -> str:
        """What can be written now; the last word waits for its end."""
        written = []
        for piece in _PIECES.findall(text):
            if piece.isspace():
                written.append(self.flush())
                if piece == "\n":
                    written.append(piece)
                    self._column, self._space = 0, ""
                else:
                    self._space += piece
            else:
                self._word += piece
        return "".join(written)

    def flush(self) -> str:
        """The word that waits."""
        if not self._word:
            return ""
        # Chinese letters take two columns, combining marks none.
        from rich.cells import cell_len

        word, space, size = self._word, self._space, cell_len(self._word)
        self._word = self._space = ""
        before = space
        if self._column and self._column + len(space) + size > self._width:
            before, self._column = "\n", 0
        else:
            self._column += len(space)
        self._column += size
        if self._column > self._width:  # the terminal wraps a word that is longer than a line
            self._column %= self._width
        return before + word


class Terminal:
    """The streams of one command; with `json`, stdout holds JSON and nothing else."""

    def __init__(self, *, json: bool = False, debug: bool = False) -> None:
        self.json = json
        self.debug = debug
        # Whether what the next error leaves out was shown already.
        self.explained = False
        # Writes the next error to stderr, where it is not to be shown as a command's.
        self.log_error: Callable[[BaseException], None] | None = None
        # How much of a prompt an embedded model has read, in percent; `None` while it reads none.
        self.reading: int | None = None

    @cached_property
    def out(self) -> Console:
        """Stdout."""
        return _make_console(stderr=False)

    @cached_property
    def err(self) -> Console:
        """Stderr."""
        return _make_console(stderr=True)

    @property
    def interactive(self) -> bool:
        """Whether somebody can be asked."""
        return sys.stdin.isatty() and self.err.is_terminal and not self.json

    def note_reading(self, done: int, total: int) -> None:
        """Takes how many tokens of a prompt were read; whoever shows an activity shows it."""
        # What follows the last prompt is read in the time in which nobody could read the line.
        reads = done < total and total >= _LONG_PROMPT
        self.reading = 100 * done // total if reads else None

    def document(self, value: Any) -> None:
        """Writes one JSON document."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")

    def report(self, document: Any, text: str) -> None:
        """Writes a result: a JSON document with --json, else a line."""
        if self.json:
            self.document(document)
        else:
            self.print(text)

    def line(self, value: Any) -> None:
        """Writes one line of JSON."""
        self.raw(json.dumps(value, ensure_ascii=False, default=str) + "\n")

    def raw(self, text: str) -> None:
        """Writes text as it is, at once."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def print(self, *items: Any) -> None:
        """Writes a line to stdout, wrapped by words."""
        self.out.print(*items)

    def path(self, text: Text | str) -> None:
        """Writes a line with a path, which stays whole."""
        self.out.print(text, soft_wrap=True)

    def note(self, *items: Any) -> None:
        """Writes a line to stderr."""
        self.err.print(*items)

    def block(
        self, text: Text | str, indent: int = 0, *, hanging: int = 0, stderr: bool = False
    ) -> None:
        """Writes a text wrapped by words, every line indented; long words stay whole in pipes.

        With `hanging`, a text of one line is indented by so much more where it goes on.
        """
        console = self.err if stderr else self.out
        body = style_text(text) if isinstance(text, str) else text
        width = max(console.width - indent, 20)
        lines: list[Text] = list(body.wrap(console, width))
        if hanging and len(lines) > 1:
            rest = body[len(lines[0]) :]
            rest = rest[len(rest) - len(rest.plain.lstrip()) :]
            margin = style_text(" " * hanging)
            lines[1:] = [margin + it for it in rest.wrap(console, max(width - hanging, 20))]
        for line in lines:
            line.rstrip()
            line.plain = line.plain.replace(_HELD, " ")
            console.print(assemble(" " * indent if line.plain else "", line), soft_wrap=True)


def refuses_colours() -> bool:
    """Whether the user wants plain text, without bold letters too (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


class TextTerminal(Terminal):
    """A terminal that keeps what is written to stdout, as lines without colours."""

    @cached_property
    def out(self) -> Console:
        """What is kept."""
        return _make_console(stderr=False, file=StringIO())

    def lines(self) -> list[str]:
        """What was written."""
        kept = self.out.file
        return kept.getvalue().splitlines() if isinstance(kept, StringIO) else []


def show_commands(terminal: Terminal, commands: Iterable[tuple[str, str]]) -> None:
    """Writes commands to type next, and what each is for."""
    rows = list(commands)
    width = max((len(command) for command, _ in rows), default=0)
    for command, what in rows:
        terminal.path(f"  {command:<{width}}  {what}")


def _make_console(*, stderr: bool, file: StringIO | None = None) -> Console:
    # rich takes long to import, so a console is made when it is first written to.
    from rich.console import Console
    from rich.theme import Theme

    console = Console(
        stderr=stderr,
        file=file,
        force_terminal=None if file is None else False,
        theme=Theme(STYLES),
        highlight=False,
        markup=False,
        color_system=None if refuses_colours() else "auto",
    )
    # rich would end the process with the status 1, although whoever read has seen enough.
    vars(console)["on_broken_pipe"] = _raise_broken_pipe
    if not console.is_terminal:
        # Whoever reads a pipe does not want our line ends.
        console.width = _WIDE
    return console


def _raise_broken_pipe() -> NoReturn:
    raise BrokenPipeError


_LOG = logging.getLogger("orchestrator.handler")


class _Prints(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.INFO)
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        text = assemble(("handler: ", "quiet"), clean(record.getMessage()))
        self._terminal.block(text, 4, stderr=True)


def show_prints(terminal: Terminal) -> None:
    """Shows what handlers print, until `hide_prints`."""
    hide_prints()
    _LOG.addHandler(_Prints(terminal))
    _LOG.setLevel(logging.INFO)


def hide_prints() -> None:
    """Stops showing what handlers print."""
    for handler in [it for it in _LOG.handlers if isinstance(it, _Prints)]:
        _LOG.removeHandler(handler)
        _LOG.setLevel(logging.NOTSET)


@contextmanager
def progress_bar(
    terminal: Terminal, *, lines: bool = False, counts: bool = False
) -> Iterator[Progress | None]:
    """A callback that shows progress on stderr; with `lines`, a line a tenth in a pipe."""
    if not terminal.err.is_terminal:
        yield _tenths(terminal) if lines else None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}"), BarColumn(None)]
    columns.append(MofNCompleteColumn() if counts else TaskProgressColumn())
    # Bytes and the time that is left have no room on a narrow terminal.
    if not counts and terminal.err.width >= 72:
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
