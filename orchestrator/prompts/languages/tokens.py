"""A rendered text in which every value is one token, so that nobody can take it for structure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from orchestrator.message import AUTHOR
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.source import OPEN, SHUT

# Finds a token.
TOKEN = re.compile(f"{OPEN}(\\d+){SHUT}")

T = TypeVar("T")


def token(number: int | str) -> str:
    """The token of a value, by its number."""
    return f"{OPEN}{number}{SHUT}"


class Tokens(Generic[T]):
    """The values of one rendering.

    `text` is the author's text with a token for every value. Structure is looked for there; the
    parts that are found are then `pieces` or `plain` text again.
    """

    __slots__ = ("_values", "text")

    def __init__(self, pieces: Iterable[Piece | T]) -> None:
        self._values: list[Piece | T] = []
        self.text = "".join([self._tokenize(piece) for piece in pieces])

    def _tokenize(self, piece: Piece | T) -> str:
        if isinstance(piece, tuple) and piece[0] == AUTHOR:
            return piece[1]
        self._values.append(piece)
        return token(len(self._values) - 1)

    def parts(self, text: str) -> Iterator[Piece | T]:
        """The texts and other things in a part of the text, in order."""
        for at, part in enumerate(TOKEN.split(text)):
            if at % 2:
                yield self._values[int(part)]
            elif part:
                yield AUTHOR, part

    def pieces(self, text: str) -> list[Piece]:
        """The texts in a part of the text."""
        return [part for part in self.parts(text) if isinstance(part, tuple)]

    def restore_references(self, text: str) -> str:
        """A part of the text, with the author's references in it as they are written."""
        if "${" not in "".join([it[0] for it in self._values if isinstance(it, tuple)]):
            return text
        return TOKEN.sub(self._restore_reference, text)

    def _restore_reference(self, found: re.Match[str]) -> str:
        value = self._values[int(found[1])]
        return value[0] if isinstance(value, tuple) and value[0].startswith("${") else found[0]

    def plain(self, text: str) -> str:
        """A part of the text, with the texts of values in it."""
        if OPEN not in text:
            return text
        return "".join([piece for _, piece in self.pieces(text)])

    def origin(self, text: str) -> str | None:
        """The origin of the one value that a part of the text is and nothing else; else `None`."""
        found = TOKEN.fullmatch(text.strip())
        value = self._values[int(found[1])] if found else None
        return value[0] if isinstance(value, tuple) else None


def strip_pieces(pieces: Sequence[Piece], chars: str | None = None) -> list[Piece]:
    """Pieces without the author's white space at both ends; values are not touched.

    `chars` are the characters to take away, as for `str.strip`.
    """
    stripped = list(pieces)
    while stripped and stripped[0][0] == AUTHOR:
        text = stripped[0][1].lstrip(chars)
        if text:
            stripped[0] = AUTHOR, text
            break
        del stripped[0]
    while stripped and stripped[-1][0] == AUTHOR:
        text = stripped[-1][1].rstrip(chars)
        if text:
            stripped[-1] = AUTHOR, text
            break
        del stripped[-1]
    return stripped
