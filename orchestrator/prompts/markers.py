"""Marks that open a turn in a raw text prompt, such as `Human:` at the beginning of a line.

In raw text only the text says who speaks. So a mark counts only where the template's author wrote
it. In a value, and where a value and the text around it would form one together, a space before the
colon breaks it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from orchestrator.message import AUTHOR
from orchestrator.support.invisible import BREAKS, SPACES, UNSEEN

# The marks of a dialect that names none.
USUAL_MARKERS = ("Human", "Assistant", "System", "User", "Bot")

# A piece of a prompt: who wrote it (`AUTHOR` or a placeholder's name), and its text.
Piece = tuple[str, str]

# Models read invisible characters, other spaces and other colons as the usual ones: none of them
# may hide a mark.
_COLONS = ":\uff1a\ufe55\ufe13\u2236\ua789"
_LINE_START = rf"(?:\A|(?<=[{BREAKS}]))[{SPACES}{UNSEEN}]*"
_HIDDEN = re.compile(f"[{UNSEEN}]+")
_SPACE = re.compile(f"[{SPACES}]+")
# A mark may begin in so many characters before a piece. Only these are searched again, so that a
# long prompt costs the same for each step.
_WINDOW = 64


def _build_mark_pattern(mark: str) -> str:
    """An expression of a mark, with any invisible characters between its letters."""
    between = f"[{UNSEEN}]*"
    words = [between.join(map(re.escape, word)) for word in mark.split()]
    return f"[{SPACES}{UNSEEN}]+".join(words) + between


class Markers:
    """The marks of one dialect."""

    def __init__(self, words: Sequence[str]) -> None:
        """Compiles what stands before the colon: `Human`, `Assistant`."""
        written = "|".join(map(_build_mark_pattern, words))
        self._find = re.compile(rf"{_LINE_START}({written})[{_COLONS}]", re.IGNORECASE)

    def break_marks(self, pieces: Sequence[Piece]) -> list[Piece]:
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
        return _insert_spaces(pieces, cuts)

    def break_marks_after(self, before: str, text: str) -> str:
        """A value's `text` as it may follow `before`, which is finished."""
        return self.break_marks([("", end_of(before)), ("value", text)])[1][1]

    def break_marks_at_end(self, text: str, after: Sequence[Piece]) -> tuple[str, list[Piece]]:
        """A value's finished `text` and the pieces after it, without a mark across their border."""
        end = end_of(text)
        (_, mended), *following = self.break_marks([("value", end), *after])
        return text + mended[len(end) :], following


def end_of(text: str) -> str:
    """The end of a text in which a mark could begin."""
    if len(text) <= _WINDOW:
        return text
    line = text[max(map(text.rfind, BREAKS)) + 1 :]
    if len(line) > _WINDOW:  # of which nobody may see much
        line = _SPACE.sub(" ", _HIDDEN.sub("", line))
    return f"\n{line}" if len(line) <= _WINDOW else f"|{line[-_WINDOW:]}"  # no line begins there


def _insert_spaces(pieces: Sequence[Piece], cuts: Sequence[tuple[int, int]]) -> list[Piece]:
    by_piece: dict[int, list[int]] = {}
    for index, offset in cuts:
        by_piece.setdefault(index, []).append(offset)
    mended = list(pieces)
    for index, offsets in by_piece.items():
        origin, text = mended[index]
        edges = [0, *offsets, len(text)]
        parts = [text[a:b] for a, b in pairwise(edges)]
        mended[index] = (origin, " ".join(parts))
    return mended
