"""What templates print of values, values that are no text, and the place of values in renderings.

A thread or a medium is a mark while its template is rendered. Nobody can write the mark, since it
is drawn for each rendering; what stands for it is put in its place among the messages.

In a rendered text every value is one token, so that nobody can take it for structure.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeVar

from jinja2 import Undefined

from orchestrator.errors import ValidationError
from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja_pieces import VALUE, tag_origin
from orchestrator.prompts.languages.base import Media, RenderedMessage, Thread, origin_of
from orchestrator.prompts.languages.message_dicts import parse_media, parse_messages
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.mistakes import Mistake
from orchestrator.prompts.source import OPEN, SHUT

MEDIA_KINDS = ("image", "file", "audio", "video")


class _PlaceMark(str):
    """The mark of a medium, or of the place of a thread. It can be printed, and nothing else."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise TypeError("this input is put in its place as a whole, and has no items here")


class _Messages(list[Any]):
    """The messages of a thread, which templates may also look into."""

    __slots__ = ("mark",)
    mark: str


def value_text(value: Any) -> str:
    """What `{{ value }}` prints: truth values and nothing as JSON has them, whole numbers whole.

    Lists and maps are JSON.
    """
    # Prompty's specification of its Jinja subset; JSON for what it leaves open.
    if isinstance(value, str):
        return str(value)
    if isinstance(value, _Messages):
        return value.mark
    if value is None or isinstance(value, Undefined):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


@dataclass(frozen=True, slots=True)
class Placement:
    """What is put into the messages in the place of a value's mark."""

    name: str
    items: tuple[RenderedMessage | Thread, ...] = ()
    medium: Media | None = None


@dataclass(slots=True)
class Values:
    """The values of one rendering."""

    given: dict[str, Any] = field(default_factory=dict)
    puts: dict[str, Placement] = field(default_factory=dict)

    def add(self, name: str, value: Any, kind: str = "") -> None:
        """Adds an input."""
        if isinstance(value, Thread):
            self._place(name, Placement(name, (value,)))
        elif kind == "thread":
            self._thread(name, value)
        elif kind in MEDIA_KINDS and value not in (None, "", b""):
            self._place(name, Placement(name, medium=parse_media(value, kind, name)))
        else:
            self.given[name] = tag_origin(value, origin_of(name))

    def _place(self, name: str, put: Placement) -> None:
        mark = secrets.token_hex(16)
        self.puts[mark] = put
        self.given[name] = _PlaceMark(mark)

    def _thread(self, name: str, value: Any) -> None:
        value = [] if value is None or value == "" else value
        if not isinstance(value, list | tuple):
            raise ValidationError(
                f"the input {name!r} is a thread: give it a list of messages, "
                f"not a {type(value).__name__}"
            )
        found = [it for it in value if isinstance(it, Mapping)]
        messages = _Messages(tag_origin(found, origin_of(name)))
        messages.mark = secrets.token_hex(16)
        self.puts[messages.mark] = Placement(name, tuple(parse_messages(value, name)))
        self.given[name] = messages

    def insert_placements(self, pieces: Iterable[Piece]) -> list[Piece | Placement]:
        """A rendering's pieces, with what is no text in its places."""
        if not self.puts:
            return list(pieces)
        return [self.puts.get(piece[1]) or self._check_intact(piece) for piece in pieces]

    def _check_intact(self, piece: Piece) -> Piece:
        # A mark that was changed, or joined to others, would be shown to the model.
        text = piece[1].lower() if piece[0] == VALUE else ""
        for mark, put in self.puts.items():
            if mark in text:
                raise Mistake(f"the input {put.name!r} is no text; only print it where it belongs")
        return piece


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
