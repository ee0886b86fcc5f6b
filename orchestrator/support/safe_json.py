"""Reading JSON that somebody else wrote: a model, a server, a user."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

MOST_VALUES = 200_000
"""How many values and names `load_json` lets a text have."""

# Characters of a JSON text that is read in a moment, and of one text within it.
_SHORT = 256 * 1024
_LONG = 64 * 1024
# Some of a text within JSON. What escapes one character stays together.
_PART = re.compile(r'(?:[^"\\]{1,100}+|\\u[dD][89abAB]..\\u....|\\u....|\\.){0,1000}+', re.DOTALL)
_END_OF_NAME = re.compile(r"[ \t\n\r]*+:")
_SIGNS = (",", ":", "[", "{")


class TooManyValues(ValueError):
    """A JSON text has more than `MOST_VALUES` values and names."""


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def json_or(text: str, otherwise: Any) -> Any:
    """The JSON value in `text`; `otherwise` when there is none (`NaN` and `Infinity` are none)."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return otherwise


def load_json(text: str) -> Any:
    """The JSON value in a text of some megabytes, while other threads go on.

    Python reads JSON in one go, in which no other thread runs: a text of 25 MB takes a tenth of a
    second, ten million empty lists take three. So long texts in it are read in parts, and there may
    not be too many values.

    Raises:
        TooManyValues: There are more than `MOST_VALUES` values and names.
        ValueError: It is not JSON; `NaN` and `Infinity` are not.
        RecursionError: Its values are nested too deep.
    """
    if len(text) <= _SHORT:
        return _decode(text)
    rest, long = _cut_long_texts(text)
    value = _decode(rest)
    return _fill_in(value, long) if long else value


def _cut_long_texts(text: str) -> tuple[str, dict[str, str]]:
    """JSON with a mark in the place of each long text, and the texts by their marks."""
    mark = secrets.token_hex(16)  # nobody can write it before
    kept: list[str] = []
    long: dict[str, str] = {}
    count = begun = at = 0
    while (quote := text.find('"', at)) >= 0:
        count = _count_signs(text, at, quote, count)
        cuts = _find_cuts(text, quote + 1)
        at = cuts[-1] + 1
        if text[at - 1 : at] != '"':  # it does not end, which the decoder reports
            break
        if at - quote > _LONG and not _END_OF_NAME.match(text, at):
            name = f"{mark}{len(long)}"
            long[name] = _decode_parts(text, cuts)
            kept += text[begun:quote], f'"{name}"'
            begun = at
    _count_signs(text, at, len(text), count)
    return "".join([*kept, text[begun:]]), long


def _count_signs(text: str, start: int, end: int, count: int) -> int:
    count += sum(text.count(sign, start, end) for sign in _SIGNS)
    if count >= MOST_VALUES:
        raise TooManyValues(f"there are more than {MOST_VALUES:,} values")
    return count


def _find_cuts(text: str, at: int) -> list[int]:
    """Where the parts of a text begin, and where the last one ends."""
    cuts = [at]
    while (part := _PART.match(text, at)) is not None and part.end() > at:
        at = part.end()
        cuts.append(at)
    return cuts


def _decode_parts(text: str, cuts: list[int]) -> str:
    return "".join([_decode(f'"{text[start:end]}"') for start, end in pairwise(cuts)])


def _fill_in(value: Any, long: dict[str, str]) -> Any:
    if isinstance(value, str):
        return long.get(value, value)
    if isinstance(value, list):
        return [_fill_in(item, long) for item in value]
    if isinstance(value, dict):
        return {name: _fill_in(item, long) for name, item in value.items()}
    return value


def iter_texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from iter_texts(item)
