"""Writes the terminal session of docs/tutorial.md: what a newcomer sees, recorded.

    python tests/session_page.py

It types the lines of `TYPED` into a real (pseudo) terminal, with the embedded model, whose weights
must be on this machine. A test says when the page has other lines than these.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import panes
from panes import Pane, Screen

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
MARKS = "<!-- session -->\n", "<!-- /session -->\n"
COLUMNS = 88

FOLDER = "bookshop"
# What is typed into the chat: a question, and the answers to what the agent asks back.
TYPED = (
    "Where is my order?",
    "1042",
    "No, I meant 1043.",
    "Please cancel it.",
    "/trace",
    "/prompt",
    "/quit",
)
AGREED = "y"

# Lines of the prompt that the page shows.
_HEAD, _TAIL = 16, 16

_PROMPT = "› "
_CONFIRM = "[y/N] "


def record(*options: str, typed: Sequence[str] = TYPED) -> str:
    """The session as text: `init`, and a chat with what is typed.

    Options of `chat`, such as `--model`, are for tests.
    """
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        made = Pane("init", FOLDER, columns=COLUMNS)
        assert made.end() == 0, made.raw
        chat = Pane("chat", FOLDER, *options, columns=COLUMNS)
        for line in typed:
            _wait(chat)
            chat.type(f"{line}\r")
        assert chat.end() == 0, chat.raw
        home = os.path.realpath(place)
    shown = [(f"orchestrator init {FOLDER}", made), (f"orchestrator chat {FOLDER}", chat)]
    text = "\n".join(f"$ {command}\n{_show(pane)}" for command, pane in shown)
    return shorten(text.replace(f"{home}/", ""))


def _wait(chat: Pane) -> None:
    # An action that changes something asks first; everything else is the next question's turn.
    while chat.until(_PROMPT, _CONFIRM).endswith(_CONFIRM):
        chat.type(f"{AGREED}\r")


def _show(pane: Pane) -> str:
    return Screen.of(pane.raw.decode(), COLUMNS)


def shorten(text: str) -> str:
    """A session whose prompt is cut in its middle, where examples stand one after the other."""
    before, command, rest = text.partition(f"{_PROMPT}/prompt\n")
    prompt, end, after = rest.partition(f"\n{_PROMPT}")
    lines = prompt.split("\n")
    if (cut := len(lines) - _HEAD - _TAIL) > 1:
        lines[_HEAD:-_TAIL] = [f"[… {cut} lines: more rules, examples, earlier turns …]"]
    return before + command + "\n".join(lines) + end + after


def section(text: str) -> str:
    """The part of the page that holds a session."""
    return f"{MARKS[0]}```text\n{text}```\n{MARKS[1]}"


def find_section(page: str) -> str:
    """The part of the page that is written by this file."""
    found = re.search(f"{re.escape(MARKS[0])}.*?{re.escape(MARKS[1])}", page, re.DOTALL)
    assert found, f"{PAGE.name} has no marks of the session"
    return found[0]


def list_typed(session: str) -> Iterator[str]:
    """What was typed in a recorded session."""
    for line in session.splitlines():
        if line.startswith(_PROMPT):
            yield line.removeprefix(_PROMPT)


def main() -> None:
    """Records the session and writes it into the page."""
    panes.PATIENCE = 1200  # a small machine reads a long prompt for minutes, once
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page.replace(find_section(page), section(record())), encoding="utf-8")
    print(f"wrote the session of {PAGE.relative_to(Path.cwd())}", file=sys.stderr)


if __name__ == "__main__":
    main()
