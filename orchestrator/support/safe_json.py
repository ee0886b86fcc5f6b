"""Reading JSON that somebody else wrote: a model, a server, a user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def json_or(text: str, otherwise: Any) -> Any:
    """The JSON value in `text`; `otherwise` when there is none (`NaN` and `Infinity` are none)."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return otherwise


def iter_texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from iter_texts(item)
