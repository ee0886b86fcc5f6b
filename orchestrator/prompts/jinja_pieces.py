"""Texts of a Jinja2 rendering that know who wrote what of them, from a value to the output."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.message import AUTHOR
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.work import MOST_CHARS, Refused

# The origin of a text that was calculated, of more than one input or of none.
VALUE = "value"

# Values that JSON does not have; they become the text that Python gives them.
AS_TEXT = (datetime.date, datetime.time, datetime.timedelta, uuid.UUID, decimal.Decimal)


class Value(str):
    """A text of an input, whose name is `origin`."""

    __slots__ = ("origin",)
    origin: str


def tag_origin(value: Any, origin: str) -> Any:
    """An input's data, with its texts knowing the input's name; dates and the like are texts.

    Raises:
        ValidationError: It contains itself, or is nested too deeply.
    """
    try:
        return _tag(value, origin)
    except RecursionError:
        message = f"the value of {origin!r} is nested too deeply, or contains itself"
        raise ValidationError(message) from None


def _tag(value: Any, origin: str) -> Any:
    if isinstance(value, enum.Enum):
        return _tag(value.value, origin)
    if isinstance(value, AS_TEXT):
        value = str(value)
    if isinstance(value, str):
        tagged = Value(value)
        tagged.origin = origin
        return tagged
    if isinstance(value, Mapping):
        return {key: _tag(one, origin) for key, one in value.items()}
    return [_tag(one, origin) for one in value] if isinstance(value, list | tuple) else value


class OutputText(str):
    """A text on its way to the output, and who wrote which piece of it.

    Any operation on it, such as a filter, gives a plain text: its pieces are no longer known.
    """

    __slots__ = ("pieces",)
    pieces: list[Piece]

    def __str__(self) -> str:
        # Jinja2's compiled code has str() around all that is printed.
        return self


def make_output(text: str, pieces: list[Piece]) -> OutputText:
    """A text on its way to the output."""
    output = OutputText(text)
    output.pieces = pieces
    return output


def join_output(parts: Iterable[Any]) -> OutputText:
    """The output of a template, a macro or a block."""
    texts: list[str] = []
    pieces: list[Piece] = []
    size = 0
    for part in parts:
        size += len(part)
        if size > MOST_CHARS:
            raise Refused(f"the text has more than {MOST_CHARS} characters")
        texts.append(part)
        pieces += part.pieces if isinstance(part, OutputText) else [(VALUE, str(part))]
    return make_output("".join(texts), pieces)


def merge_pieces(pieces: Iterable[Piece]) -> list[Piece]:
    """Pieces without empty ones, and with the author's neighbouring ones joined."""
    found: list[tuple[str, list[str]]] = []
    for origin, text in pieces:
        if not text:
            continue
        if found and origin == AUTHOR == found[-1][0]:
            found[-1][1].append(text)
        else:
            found.append((origin, [text]))
    return [(origin, "".join(texts)) for origin, texts in found]
