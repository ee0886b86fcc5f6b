"""Reading JSON that somebody else wrote: a model, a server, a user."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

MOST_VALUES = 200_000
"""How many values and names `load_json` lets a text have."""

MOST_JSON_LEVELS = 200
"""How deep a text's values may be nested.

Python's functions follow about a thousand levels of calls. A function that goes through a value may
need two for each of its levels, and a turn has some of its own.
"""

LARGE = 256 * 1024
"""A body of more bytes takes long enough to read to keep an event loop waiting."""

# Bytes of a text within JSON that is read in a moment.
_LONG = 4096
# Some of a text within JSON. The bytes of one character stay together, and what escapes one.
_PART = re.compile(
    rb'(?:(?:[^"\\]{1,100}+|\\u[dD][89abAB]..(?:\\u[dD][c-fC-F]..)?+|\\u....|\\.)'
    rb"[\x80-\xbf]{0,3}+){0,1000}+",
    re.DOTALL,
)
_END_OF_NAME = re.compile(rb"[ \t\n\r]*+:")
_SIGNS = (b",", b":", b"[", b"{")


class TooManyValues(ValueError):
    """A JSON text has more than `MOST_VALUES` values and names."""

    def __init__(self) -> None:
        super().__init__(f"there are more than {MOST_VALUES:,} values")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _read_int(text: str) -> int:
    return int(text)


def _read_float(text: str) -> float:
    return float(text)


_decode = json.JSONDecoder(parse_constant=_refuse).decode
_decode_at = json.JSONDecoder().raw_decode
# Where a number is made by a function of Python's, other threads can go on.
_decode_in_steps = json.JSONDecoder(
    parse_constant=_refuse, parse_int=_read_int, parse_float=_read_float
).decode


def json_or(text: str, otherwise: Any) -> Any:
    """The JSON value in `text`; `otherwise` when there is none (`NaN` and `Infinity` are none)."""
    try:
        return _refuse_deep(_decode(text), text)
    except (ValueError, RecursionError):
        return otherwise


def read_json(
    text: str | bytes | bytearray,
    *,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
) -> Any:
    """What `json.loads` makes of a text, if its values are not nested too deep.

    Raises:
        ValueError: It is not JSON.
        RecursionError: Its values are nested deeper than `MOST_JSON_LEVELS`.
    """
    value = json.loads(text, object_hook=object_hook, parse_constant=parse_constant)
    return _refuse_deep(value, text)


def read_json_at(text: str, at: int = 0) -> tuple[Any, int]:
    """The JSON value that begins at a place, and where it ends; raises as `read_json` does."""
    value, end = _decode_at(text, at)
    return _refuse_deep(value, text), end


def _refuse_deep(value: Any, text: str | bytes | bytearray) -> Any:
    """The value that was read from a text, if it is not nested too deep."""
    # Each level has an opening and a closing sign.
    if len(text) > 2 * MOST_JSON_LEVELS and _count_opening(text) > MOST_JSON_LEVELS:
        if is_too_deep(value):
            raise RecursionError(f"JSON is nested deeper than {MOST_JSON_LEVELS} levels")
    return value


def is_too_deep(value: Any) -> bool:
    """Whether maps and lists are nested deeper than `MOST_JSON_LEVELS`."""
    level: list[Any] = [[value]]
    for _ in range(MOST_JSON_LEVELS + 1):
        level = [
            it
            for one in level
            for it in (one.values() if isinstance(one, dict) else one)
            if isinstance(it, (dict, list))
        ]
        if not level:
            return False
    return True


def _count_opening(text: str | bytes | bytearray) -> int:
    if isinstance(text, str):
        return text.count("[") + text.count("{")
    return text.count(b"[") + text.count(b"{")


def load_json(body: bytes) -> Any:
    """The JSON value in a body of some megabytes, while other threads go on.

    Python decodes bytes and reads JSON in one go, in which no other thread runs: 25 MB take a tenth
    of a second, ten million empty lists take three. So long texts in it are read in parts, and
    there may not be too many values.

    Raises:
        TooManyValues: There are more than `MOST_VALUES` values and names.
        UnicodeDecodeError: It is not UTF-8.
        ValueError: It is not JSON; `NaN` and `Infinity` are not.
        RecursionError: Its values are nested too deep.
    """
    if len(body) <= LARGE:
        return _refuse_deep(_decode(body.decode()), body)
    rest, long = _cut_long_texts(body)
    value = _refuse_deep(_decode_in_steps(rest.decode()), rest)
    return _fill_in(value, long) if long else value


def _cut_long_texts(body: bytes) -> tuple[bytes, dict[str, str]]:
    """JSON with a mark in the place of each long text, and the texts by their marks."""
    mark = os.urandom(16).hex()  # nobody can write it before
    kept: list[bytes] = []
    long: dict[str, str] = {}
    count = texts = begun = at = 0
    while (quote := body.find(b'"', at)) >= 0:
        count = _count_signs(body, at, quote, count)
        texts += 1
        if texts > MOST_VALUES + 1:  # with no signs between them; the decoder would refuse it, too
            raise TooManyValues
        cuts = _find_cuts(body, quote + 1)
        at = cuts[-1] + 1
        if body[at - 1 : at] != b'"':  # it does not end, which the decoder reports
            break
        if at - quote > _LONG and not _END_OF_NAME.match(body, at):
            name = f"{mark}{len(long)}"
            long[name] = _decode_parts(body, cuts)
            kept += body[begun:quote], f'"{name}"'.encode()
            begun = at
    _count_signs(body, at, len(body), count)
    return b"".join([*kept, body[begun:]]), long


def _count_signs(body: bytes, start: int, end: int, count: int) -> int:
    count += sum(body.count(sign, start, end) for sign in _SIGNS)
    if count >= MOST_VALUES:
        raise TooManyValues
    return count


def _find_cuts(body: bytes, at: int) -> list[int]:
    """Where the parts of a text begin, and where the last one ends."""
    cuts = [at]
    while (part := _PART.match(body, at)) is not None and part.end() > at:
        at = part.end()
        cuts.append(at)
    return cuts


def _decode_parts(body: bytes, cuts: list[int]) -> str:
    return "".join([_decode(f'"{body[start:end].decode()}"') for start, end in pairwise(cuts)])


def _fill_in(value: Any, long: dict[str, str]) -> Any:
    """The value with the long texts in the place of their marks."""
    whole: list[Any] = [value]
    left: list[Any] = [whole]
    while left:
        inner = left.pop()
        for place, item in list(enumerate(inner) if isinstance(inner, list) else inner.items()):
            if isinstance(item, str):
                inner[place] = long.get(item, item)
            elif isinstance(item, dict | list):
                left.append(item)
    return whole[0]


def iter_texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from iter_texts(item)
