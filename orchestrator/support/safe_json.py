"""Reading JSON that somebody else wrote: a model, a server, a user."""

from __future__ import annotations

import json
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
