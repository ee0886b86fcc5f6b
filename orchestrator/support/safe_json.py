"""Reading JSON and YAML that somebody else wrote: a model, a server, a user."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_or", "too_deep"]


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def json_or(text: str, otherwise: Any) -> Any:
    """The JSON value in `text`; `otherwise` when there is none (`NaN` and `Infinity` are none)."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return otherwise


def too_deep(text: str, loader: Any, most: int) -> Any:
    """The mark where a YAML text is nested deeper than `most` levels; `None` if it is not.

    To be asked before anything recurses: in C, deep nesting would end the process.

    Raises:
        yaml.YAMLError: The text is broken before such a place.
    """
    import yaml

    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > most:
                return event.start_mark
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return None
