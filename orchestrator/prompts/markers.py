"""Marks that open a turn in a raw text prompt, such as `Human:` at the beginning of a line.

In raw text nothing but the text says who speaks. So a mark counts only where the template's author
wrote it: in any value, and where a value and its surroundings would form one together, it is taken
apart by a space before its colon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from orchestrator.message import AUTHOR

__all__ = ["USUAL_MARKERS", "Markers", "Piece", "end_of"]

USUAL_MARKERS = ("Human", "Assistant", "System", "User", "Bot")
"""The marks of a dialect that names none."""

Piece = tuple[str, str]
"""A piece of a prompt: who wrote it (`AUTHOR` or a placeholder's name), and its text."""

_LINE_START = r"(?:\A|(?<=[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]))[ \t]*"
_WINDOW = 64  # characters before a piece that could be the beginning of a mark


class Markers:
    """The marks of one dialect."""

    __slots__ = ("_find",)

    def __init__(self, words: Sequence[str]) -> None:
        """Compiles the marks.

        Args:
            words: What stands before the colon: `Human`, `Assistant`.
        """
        written = "|".join(re.escape(word).replace(r"\ ", "[ \t]+") for word in words)
        self._find = re.compile(rf"{_LINE_START}({written}):", re.IGNORECASE)

    def apart(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces with every mark taken apart that the author did not write alone."""
        text = "".join([piece for _, piece in pieces])
        found = list(self._find.finditer(text))
        if not found:
            return list(pieces)
        ends = list(accumulate(len(piece) for _, piece in pieces))
        cuts: list[tuple[int, int]] = []
        index = 0
        for match in found:
            colon = match.end() - 1
            while ends[index] <= colon:
                index += 1
            start = ends[index] - len(pieces[index][1])
            if pieces[index][0] != AUTHOR:
                cuts.append((index, colon - start))
            elif start > match.start(1):  # begun by a value, ended by the author
                cuts.append((index - 1, len(pieces[index - 1][1])))
        return _with_spaces(pieces, cuts)

    def added(self, before: str, text: str) -> str:
        """A value's `text` as it may follow `before`, which is finished."""
        return self.apart([("", end_of(before)), ("value", text)])[1][1]

    def followed(self, text: str, after: Sequence[Piece]) -> tuple[str, list[Piece]]:
        """A value's finished `text` and the pieces after it, without a mark across their border."""
        end = end_of(text)
        (_, mended), *following = self.apart([("value", end), *after])
        return text + mended[len(end) :], following


def end_of(text: str) -> str:
    """The end of a text in which a mark could begin."""
    return text if len(text) <= _WINDOW else f"|{text[-_WINDOW:]}"  # no line begins at the cut


def _with_spaces(pieces: Sequence[Piece], cuts: Sequence[tuple[int, int]]) -> list[Piece]:
    by_piece: dict[int, list[int]] = {}
    for index, offset in cuts:
        by_piece.setdefault(index, []).append(offset)
    made = list(pieces)
    for index, offsets in by_piece.items():
        origin, text = made[index]
        edges = [0, *offsets, len(text)]
        parts = [text[a:b] for a, b in pairwise(edges)]
        made[index] = (origin, " ".join(parts))
    return made
