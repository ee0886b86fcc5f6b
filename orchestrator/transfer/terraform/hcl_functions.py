"""Terraform's functions of texts, lists and mappings, for those that sources of agents use.

Each raises Python's own errors for wrong arguments, which the evaluator takes for a value that is
not known. What they make is as large as what they are given, within a small factor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Any

from orchestrator.support.safe_json import json_or

_MOST_MADE = 10_000_000
_MOST_NUMBERS = 1024  # (Terraform: range)


def _join(between: str, items: list[Any]) -> str:
    if len(between) * len(items) > _MOST_MADE:
        raise ValueError(between)
    return between.join(map(_to_text, items))


def _range(*bounds: Any) -> list[int]:
    numbers = range(*bounds)
    if len(numbers) > _MOST_NUMBERS:
        raise ValueError(bounds)
    return [*numbers]


def _format(pattern: str, *values: Any) -> str:
    # Go's verbs; of them only those without a width are texts that agents are made of.
    waiting = list(values)
    parts = pattern.split("%%")
    for number, part in enumerate(parts):
        pieces = part.split("%")
        for place, piece in enumerate(pieces[1:], 1):
            if piece[:1] not in ("s", "d", "v", "q", "t"):
                raise ValueError(piece)
            value = waiting.pop(0)
            text = json.dumps(value) if piece[0] == "q" else _to_text(value)
            pieces[place] = text + piece[1:]
        parts[number] = "".join(pieces)
    return "%".join(parts)


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise TypeError("no text")
    return str(value)


def _merge(*maps: Any) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for it in maps:
        merged.update(it or {})
    return merged


def _flatten(items: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for it in items:
        flat += _flatten(it) if isinstance(it, list) else [it]
    return flat


def _coalesce(*values: Any) -> Any:
    found = next((it for it in values if it not in (None, "")), None)
    if found is None:
        raise ValueError("coalesce has no value")
    return found


def _one(items: Any) -> Any:
    if len(items) > 1:
        raise ValueError(items)
    return items[0] if items else None


def _distinct(items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    seen: set[str] = set()
    for it in items:
        key = json.dumps(it, sort_keys=True)
        if key not in seen:
            seen.add(key)
            kept.append(it)
    return kept


def _replace(text: str, old: str, new: str) -> str:
    # Terraform: /…/ is a pattern, and patterns of others are not run.
    is_pattern = len(old) > 1 and old.startswith("/") and old.endswith("/")
    if is_pattern or not old or len(text) * len(new) > _MOST_MADE:
        raise ValueError(old)
    return text.replace(old, new)


def _decode_json(text: str) -> Any:
    value = json_or(text, _NOTHING)
    if value is _NOTHING:
        raise ValueError("no JSON")
    return value


_NOTHING = object()


def _to_list(items: Any) -> list[Any]:
    return list(items)


def _to_number(value: Any) -> int | float:
    return value if isinstance(value, (int, float)) else float(value[:30])


def _indent(spaces: int, text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * min(spaces, 40) + it for it in rest)])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "basename": lambda path: PurePosixPath(path).name,
    "chomp": lambda text: text.rstrip("\r\n"),
    "coalesce": _coalesce,
    "compact": lambda items: [it for it in items if it not in (None, "")],
    "concat": lambda *lists: [it for one in lists for it in one],
    "contains": lambda items, value: value in items,
    "dirname": lambda path: str(PurePosixPath(path).parent),
    "distinct": _distinct,
    "element": lambda items, index: items[index % len(items)],
    "endswith": lambda text, end: text.endswith(end),
    "flatten": _flatten,
    "format": _format,
    "indent": _indent,
    "join": _join,
    "jsondecode": _decode_json,
    "keys": lambda members: sorted(members),
    "length": len,
    "lookup": lambda members, key, default=None: members.get(key, default),
    "lower": lambda text: text.lower(),
    "max": max,
    "merge": _merge,
    "min": min,
    "nonsensitive": lambda value: value,
    "one": _one,
    "range": _range,
    "replace": _replace,
    "reverse": lambda items: items[::-1],
    "sensitive": lambda value: value,
    "slice": lambda items, start, end: items[start:end],
    "sort": lambda items: sorted(items),
    "split": lambda between, text: text.split(between),
    "startswith": lambda text, start: text.startswith(start),
    "substr": lambda text, at, length: text[at : at + length if length >= 0 else None],
    "title": lambda text: " ".join(it[:1].upper() + it[1:] for it in text.split(" ")),
    "tobool": lambda value: {"true": True, "false": False}[_to_text(value)],
    "tolist": _to_list,
    "tomap": lambda members: dict(members),
    "tonumber": _to_number,
    "toset": lambda items: _distinct(_to_list(items)),
    "tostring": _to_text,
    "trim": lambda text, characters: text.strip(characters),
    "trimprefix": lambda text, start: text.removeprefix(start),
    "trimspace": lambda text: text.strip(),
    "trimsuffix": lambda text, end: text.removesuffix(end),
    "upper": lambda text: text.upper(),
    "values": lambda members: [members[key] for key in sorted(members)],
    "zipmap": lambda keys, values: dict(zip(keys, values, strict=True)),
}
