"""What a document is read into: blocks of text under headings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "code", "table"]


class Unreadable(Exception):
    """A document that cannot be read; the text says why, for people."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list, table or piece of code."""

    text: str  # as people read it; Markdown stays Markdown
    kind: Kind = "text"  # how it may be cut: between sentences, lines, or rows
    headings: tuple[str, ...] = ()  # the headings above it, outermost first
    page: int | None = None  # its page, from 1, in documents that have pages
    head: int = 0  # lines at the top of a table that each piece of it repeats


# Every block and passage below a heading repeats it.
_LONGEST_HEADING = 300


class Outline:
    """The headings above the place where a reader is; long ones are cut."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, str]] = []

    def enter(self, level: int, text: str) -> None:
        """Goes under a heading; those of the same level and below end."""
        while self._stack and self._stack[-1][0] >= level:
            self._stack.pop()
        if line := " ".join(text.split()):
            self._stack.append((level, line[:_LONGEST_HEADING]))

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings, outermost first."""
        return tuple(text for _, text in self._stack)
