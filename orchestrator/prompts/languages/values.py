"""What templates print of values, and values that are no text: threads and media.

A thread or a medium is a mark while its template is rendered. Nobody can write the mark, since it
is drawn for each rendering; what stands for it is put in its place among the messages.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from jinja2 import Undefined

from orchestrator.errors import ValidationError
from orchestrator.prompts.jinja import Mistake
from orchestrator.prompts.jinja_pieces import VALUE, tag_origin
from orchestrator.prompts.languages.base import Media, RenderedMessage, Thread
from orchestrator.prompts.languages.message_dicts import parse_media, parse_messages
from orchestrator.prompts.markers import Piece

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
            self.given[name] = tag_origin(value, name)

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
        messages = _Messages(tag_origin([it for it in value if isinstance(it, Mapping)], name))
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
