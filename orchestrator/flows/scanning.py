"""What both scripting languages look for in a text, in one pass over it.

Quotes, brackets and code fences are looked for here, so that an arrow, a colon or a bracket in a
quoted text is text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

FENCE = "```"

QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)
"""A text in quotes."""

_OPENING, _CLOSING = "([{", ")]}"


class LineStarts:
    """Where the lines of a text begin."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def start(self, line: int) -> int:
        """Where a line begins in the text; lines count from 0."""
        return self._starts[line]

    def line_of(self, offset: int) -> int:
        """The line that a place in the text is in, from 0."""
        return bisect_right(self._starts, offset) - 1


def outside_quotes(text: str, at: int) -> Iterator[tuple[int, str]]:
    """The letters from `at` on that are in no quotes and in no code fence, with their places.

    A quote or a fence that is not closed ends them.
    """
    while at < len(text):
        letter = text[at]
        if text.startswith(FENCE, at):
            end = text.find(FENCE, at + len(FENCE))
            if end < 0:
                return
            at = end + len(FENCE)
        elif letter in "\"'":
            quoted = QUOTED.match(text, at)
            if quoted is None:
                return
            at = quoted.end()
        else:
            yield at, letter
            at += 1


def find_closing_bracket(text: str, at: int) -> int:
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
