"""Values as models write them, made into what a schema says.

XML models write every value as a text, others quote numbers or write a list with commas. Each
schema is compiled once into a small function that returns the value or raises `CoercionError`,
whose text says what the model should write instead. What a check of all arguments may cost is
bounded: neither a schema nor a value, whoever wrote them, can stop the event loop.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from orchestrator.actions.lambda_contract import value_text
from orchestrator.actions.schemas import list_required
from orchestrator.errors import DefinitionError
from orchestrator.support.safe_json import json_or
from orchestrator.support.work_budget import CheckBudget

if TYPE_CHECKING:  # few schemas have patterns
    from orchestrator.support.regexes import Regex

Coerce = Callable[[Any], Any]

# What one check may cost: some two seconds at worst. Items and alternatives cost more than the
# characters of a text that is read or compared.
_MOST_WORK = 100_000_000
_ITEM = 50
_ALTERNATIVE = 200
_COMPILING = 20  # an instruction of a pattern's program
_GIVING_UP = 7_000_000  # to find that a program would be too large
_work = CheckBudget()


def begin_check() -> None:
    """Gives what this thread checks from now on a whole budget of work."""
    _work.left = _MOST_WORK


class CoercionError(Exception):
    """A value does not fit; the text completes "The argument `name` ..."."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.path = path

    def inside(self, path: str) -> CoercionError:
        """The same error, for a value that is inside another."""
        joint = "" if self.path.startswith("[") or not self.path else "."
        return CoercionError(self.text, f"{path}{joint}{self.path}")


def _render_value(value: Any) -> str:
    if isinstance(value, str):
        value = value[:61]
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."


def compile_schema(schema: Mapping[str, Any]) -> Coerce:
    """The function that makes a value fit `schema` (as `SchemaReader` gives it).

    Values that already fit come back as they are; texts become the type that is asked for.
    """
    kind = schema.get("type")
    if kind is None and "anyOf" in schema:
        base = _any_of(schema["anyOf"])
    elif kind == "array":
        base = _array(schema)
    elif kind == "object":
        base = _object(schema)
    else:
        base = _SCALARS.get(str(kind), _accept_any)
    checks = _checks(schema)
    if not checks:
        return base

    def coerce_value(value: Any) -> Any:
        value = base(value)
        for check in checks:
            value = check(value)
        return value

    return coerce_value


def _accept_any(value: Any) -> Any:
    return value


def _to_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        raise CoercionError("must be a text, not null")
    text = value_text(value)
    _work.spend(len(text))
    return text


# Bounded: converting a text to an integer costs the square of its digits.
_INTEGER = re.compile(r"\s*([+-]?\d{1,300})(?:\.0*)?\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)


def _to_integer(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and (found := _INTEGER.fullmatch(value)):
        return int(found[1])
    raise CoercionError(f"must be an integer, not {_render_value(value)}")


def _to_number(value: Any) -> int | float:
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, str):
        if found := _INTEGER.fullmatch(value):
            return int(found[1]) if "." not in value else float(value)
        if len(value) < 400 and _NUMBER.fullmatch(value) and math.isfinite(float(value)):
            return float(value)
    raise CoercionError(f"must be a number, not {_render_value(value)}")


# Models of XML dialects write "yes" and "1" as often as "true".
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value) if isinstance(value, str | int) else ""
    found = _BOOLEANS.get(text.strip().lower()) if len(text) < 20 else None
    if found is None:
        raise CoercionError(f"must be true or false, not {_render_value(value)}")
    return found


_SCALARS: dict[str, Coerce] = {
    "string": _to_string,
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
}

PLAIN = frozenset(_SCALARS.values())
"""The functions for schemas of a type alone: what they cost is bounded by the value's size."""


def _array(schema: Mapping[str, Any]) -> Coerce:
    items = compile_schema(schema.get("items", {}))

    def array(value: Any) -> list[Any]:
        if not isinstance(value, list):
            value = _to_list(value)
        _work.spend(len(value) * _ITEM)
        out = []
        for index, item in enumerate(value):
            try:
                out.append(items(item))
            except CoercionError as wrong:
                raise wrong.inside(f"[{index}]") from None
        return out

    return array


# Models write lists as JSON text, as texts with commas, or as a single item.
def _to_list(value: Any) -> list[Any]:
    if value is None:
        raise CoercionError("must be a list, not null")
    if not isinstance(value, str):
        return list(value) if isinstance(value, tuple) else [value]
    text = value.strip()
    _work.spend(len(text))
    read = json_or(text, None) if text[:1] in "[{" else None
    if isinstance(read, list | dict):
        return read if isinstance(read, list) else [read]
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    pieces = (piece.strip().strip("\"'") for piece in text.split(","))
    return [piece for piece in pieces if piece]


def _object(schema: Mapping[str, Any]) -> Coerce:
    required = list_required(schema)
    known = {name: compile_schema(one) for name, one in schema.get("properties", {}).items()}
    extra = schema.get("additionalProperties", True)
    other = compile_schema(extra) if isinstance(extra, Mapping) else _accept_any

    def object_(value: Any) -> dict[str, Any]:
        values = _read_object(value) if isinstance(value, str) else value
        if not isinstance(values, Mapping):
            raise CoercionError(f"must be a JSON object, not {_render_value(value)}")
        _work.spend(len(values) * _ITEM)
        out: dict[str, Any] = {}
        for name, item in values.items():
            name = str(name)
            if name not in known and extra is False:
                raise CoercionError(
                    f"has no member {name!r}; it may have {', '.join(known) or 'none'}"
                )
            if item is None and name not in required and name in known:
                continue
            try:
                out[name] = known.get(name, other)(item)
            except CoercionError as wrong:
                raise wrong.inside(name) from None
        for name in required:
            if name not in out:
                raise CoercionError(f"must have the member {name!r}")
        return out

    return object_


def _read_object(text: str) -> Any:
    _work.spend(len(text))
    return json_or(text.strip(), None)


_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _any_of(branches: Sequence[Mapping[str, Any]]) -> Coerce:
    compiled = [(_PYTHON.get(str(one.get("type"))), compile_schema(one)) for one in branches]

    def any_of(value: Any) -> Any:
        # First the alternatives of the value's own type, then those it can be made into. Each is
        # tried once: alternatives of alternatives would double with every level.
        same = [c for kinds, c in compiled if kinds is None or type(value) in kinds]
        others = [c for kinds, c in compiled if kinds is not None and type(value) not in kinds]
        for coerce in (*same, *others):
            _work.spend(_ALTERNATIVE)
            try:
                return coerce(value)
            except CoercionError:
                continue
        names = " or ".join(dict.fromkeys(str(one.get("type", "value")) for one in branches))
        raise CoercionError(f"must be {names}, not {_render_value(value)}")

    return any_of


def _checks(schema: Mapping[str, Any]) -> list[Coerce]:
    found = [_enum(schema["enum"])] if "enum" in schema else []
    for key, (holds, text) in _BOUNDS.items():
        bound = schema.get(key)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            found.append(_bound(bound, holds, text))
    if isinstance(schema.get("pattern"), str):
        found.append(_pattern(schema["pattern"]))
    return found


def find_unchecked_patterns(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The patterns in a schema that RE2 cannot match, and why; they are not checked."""
    if isinstance(pattern := schema.get("pattern"), str):
        from orchestrator.support.regexes import compile_schema_pattern

        try:
            compile_schema_pattern(pattern)
        except DefinitionError as error:
            yield pattern, error.message
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema.get("items"), schema.get("additionalProperties")]
    for one in inner:
        if isinstance(one, Mapping):
            yield from find_unchecked_patterns(one)


def _enum(values: Sequence[Any]) -> Coerce:
    exact = {_enum_key(value) for value in values}
    texts = {value_text(value).casefold(): value for value in reversed(values)}
    shown = ", ".join(value_text(value) for value in values[:_SHOWN])
    shown += ", ..." if len(values) > _SHOWN else ""

    def enum(value: Any) -> Any:
        if _enum_key(value) in exact:
            return value
        text = value_text(value)
        _work.spend(len(text))
        text = text.strip().casefold()
        if text in texts:
            return texts[text]
        raise CoercionError(f"must be one of {shown}; not {_render_value(value)}")

    return enum


# Values of a list that a message for the model names.
_SHOWN = 200


# Numbers by their text: their own hashes can be made to collide.
def _enum_key(value: Any) -> str | tuple[str, str]:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return type(value).__name__, value_text(value)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | list) else 0


_BOUNDS: dict[str, tuple[Callable[[Any, float], bool], str]] = {
    "minimum": (operator.ge, "must be at least {}"),
    "maximum": (operator.le, "must be at most {}"),
    "exclusiveMinimum": (operator.gt, "must be more than {}"),
    "exclusiveMaximum": (operator.lt, "must be less than {}"),
    "minLength": (lambda value, bound: _size(value) >= bound, "must have at least {} characters"),
    "maxLength": (lambda value, bound: _size(value) <= bound, "must have at most {} characters"),
    "minItems": (lambda value, bound: _size(value) >= bound, "must have at least {} items"),
    "maxItems": (lambda value, bound: _size(value) <= bound, "must have at most {} items"),
}


def _bound(bound: float, holds: Callable[[Any, float], bool], text: str) -> Coerce:
    def check(value: Any) -> Any:
        try:
            if isinstance(value, str | int | float | list) and not holds(value, bound):
                raise CoercionError(f"{text.format(bound)}, not {_render_value(value)}")
        except TypeError:
            pass  # a bound of another type's values says nothing about this one
        return value

    return check


# The check of a pattern; none for one that RE2 cannot match. Models see that one all the same, and
# whoever carries the call out checks it. A schema may have thousands of patterns: each is compiled
# when it has a value to check, and counts every time, so that the same data passes or not.
def _pattern(pattern: str) -> Coerce:
    @cache
    def compile_once() -> tuple[Regex | None, int]:
        from orchestrator.support.regexes import RegexTooLarge, compile_schema_pattern

        try:
            regex = compile_schema_pattern(pattern)
        except DefinitionError as error:
            return None, _GIVING_UP if isinstance(error, RegexTooLarge) else 0
        return regex, regex.size * _COMPILING

    def check(value: Any) -> Any:
        if isinstance(value, str):
            _work.spend(1)  # nothing is compiled when nothing is left
            regex, cost = compile_once()
            _work.spend(cost)
            if regex is not None:
                _work.spend(len(value) * regex.size)
                if not regex.search(value):
                    shown = _render_value(value)
                    raise CoercionError(f"must match the pattern {pattern}, not {shown}")
        return value

    return check
