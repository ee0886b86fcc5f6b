"""The lines of a program, and what is found in them without reading what they say.

Quotes, brackets and code fences are looked for here, so that an arrow, a colon or a bracket in a
quoted text is text.
"""

from __future__ import annotations

import re
from typing import NoReturn

from orchestrator.errors import FlowError
from orchestrator.flows.steps import Place

__all__ = ["FENCE", "Lines", "closing", "outside_quotes"]

FENCE = "```"

_OPENING, _CLOSING = "([{", ")]}"


class Lines:
    """A program's text by lines, and errors at places in it.

    Attributes:
        text: The text.
        lines: Its lines, without their ends.
        file: The file that it is from, if any.
    """

    def __init__(self, text: str, file: str | None) -> None:
        self.text = text.replace("\r\n", "\n")
        self.lines = self.text.split("\n")
        self.file = file
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def start(self, line: int) -> int:
        """Where a line begins in the text; lines count from 0."""
        return self._starts[line]

    def line_of(self, offset: int) -> int:
        """The line that a place in the text is in, from 0."""
        return self.text.count("\n", 0, offset)

    def place(self, offset: int) -> Place:
        """A place in the text, with its line."""
        line = self.line_of(offset)
        return Place(line + 1, offset - self._starts[line] + 1, self.lines[line].strip())

    def fail(self, offset: int, message: str, message_zh: str) -> NoReturn:
        """Refuses the program.

        Raises:
            FlowError: Always.
        """
        place = self.place(max(0, min(offset, len(self.text))))
        raise FlowError(
            message,
            file=self.file,
            line=place.line,
            column=place.column,
            statement=place.statement,
            message_zh=f"第 {place.line} 行第 {place.column} 列：{message_zh}",
        )


def closing(text: str, at: int) -> int:
    """Where the bracket that opens at `at` is closed; -1 when it is not.

    Quotes and code fences are passed over.
    """
    depth = 0
    for place, letter in outside_quotes(text, at):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
            if depth == 0:
                return place
    return -1


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)


def outside_quotes(text: str, at: int) -> list[tuple[int, str]]:
    """The letters from `at` on that are in no quotes and in no code fence, with their places.

    A quote that is not closed ends the list.
    """
    found = []
    while at < len(text):
        letter = text[at]
        if text.startswith(FENCE, at):
            end = text.find(FENCE, at + len(FENCE))
            if end < 0:
                break
            at = end + len(FENCE)
            continue
        if letter in "\"'":
            quoted = _QUOTED.match(text, at)
            if quoted is None:
                break
            at = quoted.end()
            continue
        found.append((at, letter))
        at += 1
    return found
