"""Reading JSON that somebody else wrote: a model, a server, a user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MOST_VALUES = 200_000
"""How many values and names `check_values` lets a text have."""

# A part of a text, which leaves other threads some time.
_PART_OF_TEXT = re.compile(rb'(?:[^"\\]{1,1000}+|\\.){0,1000}+', re.DOTALL)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def json_or(text: str, otherwise: Any) -> Any:
    """The JSON value in `text`; `otherwise` when there is none (`NaN` and `Infinity` are none)."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return otherwise


def check_values(text: bytes) -> None:
    """Refuses JSON with so many values that to read it would stop a process for seconds.

    Python reads a JSON text in one go, in which no other thread runs; ten million empty lists take
    three seconds. Long texts in it are no matter.

    Raises:
        ValueError: It has more than `MOST_VALUES` values and names.
    """
    if _count_signs(text, 0, len(text)) < MOST_VALUES:
        return
    # What is in texts does not count.
    found = at = 0
    while at < len(text):
        quote = text.find(b'"', at)
        end = quote if quote >= 0 else len(text)
        found += _count_signs(text, at, end)
        if found >= MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} values")
        at = _find_end(text, end + 1)


def _count_signs(text: bytes, start: int, end: int) -> int:
    return sum(text.count(sign, start, end) for sign in (b",", b":", b"[", b"{"))


def _find_end(text: bytes, at: int) -> int:
    """The place after the quotation mark that ends a text; the end, if there is none."""
    while text[at : at + 1] != b'"':
        part = _PART_OF_TEXT.match(text, at)
        if part is None or part.end() == at:
            return len(text)
        at = part.end()
    return at + 1


def iter_texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from iter_texts(item)
