"""Patterns of `$match`: read with the script, and what they give names to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.flows.evaluation import COMPARISONS, is_number
from orchestrator.flows.expressions import outside_quotes, parse_expression
from orchestrator.flows.ppe.regexes import Searches, compile_pattern
from orchestrator.flows.tree import NAME, ScriptError

_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)(>)?\.\.(<)?(-?\d+(?:\.\d+)?)")
_ORDER = re.compile(r"(>=|<=|>|<|===|==|!==|!=)\s*(.+)", re.S)
_REGEX = re.compile(r"/(.+)/([a-z]*)", re.S)
_WORD = re.compile(NAME)
_QUOTED_PATTERN = re.compile(r"(['\"])\s*(:.*)\1", re.S)
_CONSTANTS = ("true", "false", "null", "True", "False", "None")
_MOST = 200
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern."""

    kind: str  # `any`, `name`, `regex`, `range`, `order`, `list`, `map`, `either` or `equal`
    written: str  # how it is written
    # A name, a constant, an expression and its flags, a sign and a constant, or limits
    value: Any = None
    # The patterns in it: by place, by key as pairs, or one of which must fit
    parts: Sequence[Any] = ()
    rest: bool = False  # whether a list, or a map, may have more

    def fits(self, value: Any, searches: Searches) -> dict[str, Any] | None:
        """What a value that fits gives names to; `None` when it does not fit."""
        match self.kind:
            case "any":
                return {}
            case "name":
                return {self.value: value}
            case "either":
                each = (one.fits(value, searches) for one in self.parts)
                return next((it for it in each if it is not None), None)
            case "list":
                return self._fits_list(value, searches)
            case "map":
                return self._fits_map(value, searches)
        return {} if self._holds(value, searches) else None

    def _holds(self, value: Any, searches: Searches) -> bool:
        if self.kind == "regex":
            pattern, flags = self.value
            return isinstance(value, str) and bool(searches.search(pattern, flags, value))
        if self.kind == "range":
            return is_number(value) and _within(value, *self.value)
        if self.kind == "order":
            return _compares(self.value[0], value, self.value[1])
        return bool(self.value == value) and isinstance(self.value, bool) == isinstance(value, bool)

    def _fits_list(self, value: Any, searches: Searches) -> dict[str, Any] | None:
        if not isinstance(value, list) or len(value) < len(self.parts):
            return None
        if not self.rest and len(value) != len(self.parts):
            return None
        return _all(zip(self.parts, value, strict=False), searches)

    def _fits_map(self, value: Any, searches: Searches) -> dict[str, Any] | None:
        named = dict(self.parts)
        if not isinstance(value, dict) or not named.keys() <= value.keys():
            return None
        if not self.rest and named.keys() != value.keys():
            return None
        return _all(((one, value[key]) for key, one in named.items()), searches)


def _all(pairs: Any, searches: Searches) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for one, value in pairs:
        names = one.fits(value, searches)
        if names is None:
            return None
        found.update(names)
    return found


def _within(value: float, low: float, above: bool, below: bool, high: float) -> bool:
    over = value > low if above else value >= low
    return over and (value < high if below else value <= high)


def _compares(sign: str, value: Any, other: Any) -> bool:
    both = is_number(value) and is_number(other)
    texts = isinstance(value, str) and isinstance(other, str)
    return (both or texts or sign[0] in "=!") and bool(COMPARISONS[sign](value, other))


def read_pattern(written: str) -> Pattern:
    """Reads a pattern: `_`, `:"x"`, `:/re/`, `:> 10`, `:1..5`, `:1 || 2`, `:[a,_]`, `:{x=1}`."""
    return _read(written.strip(), inside=False, depth=0)


def _read(written: str, *, inside: bool, depth: int) -> Pattern:
    if depth > _DEEPEST:
        raise ScriptError(f"the pattern {written[:40]!r} is nested too deeply", "模式嵌套过深")
    quoted = _QUOTED_PATTERN.fullmatch(written) if inside else None
    if quoted is not None:  # a pattern in quotes in a list or a map
        return _read(quoted[2], inside=False, depth=depth + 1)
    text = written.removeprefix(":").strip()
    if text == "_":
        return Pattern("any", written)
    if found := _REGEX.fullmatch(text):
        compile_pattern(found[1], found[2])
        return Pattern("regex", written, (found[1], found[2]))
    ways = _split(text, "||")
    if len(ways) > 1:
        each = [_read(one, inside=False, depth=depth + 1) for one in ways]
        return Pattern("either", written, None, each)
    if text[:1] in ("[", "{"):
        return _brackets(text, depth)
    return _plain(written, text, inside=inside)


def _plain(written: str, text: str, *, inside: bool) -> Pattern:
    if found := _RANGE.fullmatch(text):
        low, above, below, high = found.groups()
        return Pattern("range", written, (float(low), bool(above), bool(below), float(high)))
    if found := _ORDER.fullmatch(text):
        return Pattern("order", written, (found[1], _literal(found[2])))
    # In brackets a bare word is a name for whatever is there.
    if inside and _WORD.fullmatch(text) and text not in _CONSTANTS:
        return Pattern("name", written, text)
    return Pattern("equal", written, _literal(text))


def _brackets(text: str, depth: int) -> Pattern:
    if text[-1] != {"[": "]", "{": "}"}[text[0]]:
        raise ScriptError(
            f"the bracket of the pattern {text!r} is not closed", f"模式 {text!r} 的括号没有闭合"
        )
    parts = [one for one in _split(text[1:-1], ",") if one]
    if len(parts) > _MOST:
        raise ScriptError(f"a pattern has more than {_MOST} parts", f"模式超过 {_MOST} 项")
    rest = ".." in parts
    if rest and text[0] == "[" and parts[-1] != "..":
        raise ScriptError("'..' is the last of a list's pattern", "'..' 必须是列表模式的最后一项")
    parts = [one for one in parts if one != ".."]
    if text[0] == "[":
        each = [_read(one, inside=True, depth=depth + 1) for one in parts]
        return Pattern("list", text, None, each, rest)
    return Pattern("map", text, None, [_pair(one, depth) for one in parts], rest)


def _pair(text: str, depth: int) -> tuple[str, Pattern]:
    key, sign, wanted = text.partition("=")
    key = key.strip().strip("\"'")
    # A key alone is there, whatever it is, and its value has its name.
    if not sign and _WORD.fullmatch(key):
        return key, Pattern("name", key, key)
    return key, _read(wanted.strip() or "_", inside=True, depth=depth + 1)


def _literal(text: str) -> Any:
    """A constant; a bare word is a text."""
    try:
        node = parse_expression(text)
    except ScriptError:
        return text
    if node.kind in ("value", "text"):
        return node.value
    if node.kind == "signed" and node.parts[0].kind == "value":
        return -node.parts[0].value if node.value == "-" else node.parts[0].value
    return text


def _split(text: str, sign: str) -> list[str]:
    """What stands between signs that are in no quotes and no brackets."""
    parts, begins, depth, behind = [], 0, 0, 0
    for at, letter in outside_quotes(text, 0):
        depth += (letter in "[{(") - (letter in "]})")
        if depth == 0 and at >= behind and text.startswith(sign, at):
            parts.append(text[begins:at])
            begins = behind = at + len(sign)
    return [one.strip() for one in (*parts, text[begins:])]


def find_pattern_names(pattern: Pattern) -> Mapping[str, None]:
    """The names that a pattern gives."""
    found: dict[str, None] = {pattern.value: None} if pattern.kind == "name" else {}
    for part in pattern.parts:
        found.update(find_pattern_names(part[1] if isinstance(part, tuple) else part))
    return found
