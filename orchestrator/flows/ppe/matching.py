"""Patterns of `$match`."""

from __future__ import annotations

import operator
import re
from typing import Any

from orchestrator.flows.expressions import Wrong, parse_expression
from orchestrator.flows.ppe.regexes import search

__all__ = ["matches"]

_RANGE = re.compile(r"(-?[\d.]+?)\.\.(-?[\d.]+)")
_ORDER = re.compile(r"(>=|<=|>|<|==|!=)\s*(.+)")
_REGEX = re.compile(r"/(.+)/([a-z]*)", re.S)
_SIGNS = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


def matches(pattern: str, value: Any, seconds: float) -> bool:
    """Whether a value fits a pattern: `_`, `:"x"`, `:/re/`, `:> 10`, `:1..5`, `:[a,_]`, `:{x=1}`.

    Raises:
        Wrong: It is no pattern.
    """
    text = pattern.strip()
    if text == "_":
        return True
    text = text.removeprefix(":").strip()
    if found := _REGEX.fullmatch(text):
        return isinstance(value, str) and search(found[1], found[2], value, seconds)
    if found := _RANGE.fullmatch(text):
        return _is_number(value) and float(found[1]) <= value <= float(found[2])
    if found := _ORDER.fullmatch(text):
        return _compares(found[1], value, _literal(found[2]))
    if text.startswith("["):
        return _matches_list(text, value, seconds)
    if text.startswith("{"):
        return _matches_map(text, value, seconds)
    return bool(_literal(text) == value)


def _compares(sign: str, value: Any, other: Any) -> bool:
    both = _is_number(value) and _is_number(other)
    texts = isinstance(value, str) and isinstance(other, str)
    return (both or texts or sign in ("==", "!=")) and bool(_SIGNS[sign](value, other))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _literal(text: str) -> Any:
    """A constant; a bare word is a text."""
    try:
        node = parse_expression(text)
    except Wrong:
        return text
    if node.kind in ("value", "text"):
        return node.value
    if node.kind == "signed" and node.parts[0].kind == "value":
        return -node.parts[0].value if node.value == "-" else node.parts[0].value
    return text


def _parts(text: str) -> list[str]:
    """What stands between the brackets of a pattern, at its commas."""
    found, depth = [""], 0
    for letter in text.strip()[1:-1]:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found if one.strip()]


def _matches_list(text: str, value: Any, seconds: float) -> bool:
    parts = _parts(text)
    rest = bool(parts) and parts[-1] == ".."
    parts = parts[:-1] if rest else parts
    if not isinstance(value, list) or len(value) < len(parts):
        return False
    if not rest and len(value) != len(parts):
        return False
    return all(_fits(one, it, seconds) for one, it in zip(parts, value, strict=False))


def _matches_map(text: str, value: Any, seconds: float) -> bool:
    parts = _parts(text)
    rest = ".." in parts
    split = (one.partition("=") for one in parts if one != "..")
    named = {key.strip(): wanted.strip() or "_" for key, _, wanted in split}
    if not isinstance(value, dict) or not named.keys() <= value.keys():
        return False
    if not rest and named.keys() != value.keys():
        return False
    return all(_fits(it, value[key], seconds) for key, it in named.items())


def _fits(pattern: str, value: Any, seconds: float) -> bool:
    # In brackets a bare word is a name for whatever is there.
    if re.fullmatch(r"[^\W\d]\w*", pattern) and pattern not in ("true", "false", "null"):
        return True
    return matches(pattern, value, seconds)
