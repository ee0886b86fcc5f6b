"""Arguments as models write them, checked and made into what the operation's schema says.

XML models write every value as a text, others quote numbers or write a list with commas. Each
schema is compiled once into a small function that returns the value or raises `CoercionError`,
whose text says what the model should write instead.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from orchestrator.actions.base import Operation, Parameter
from orchestrator.actions.lambda_contract import value_text
from orchestrator.support.safe_json import json_or
from orchestrator.support.spelling import did_you_mean

Coerce = Callable[[Any], Any]


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
    return value_text(value)


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
    found = _BOOLEANS.get(str(value).strip().lower()) if isinstance(value, str | int) else None
    if found is None:
        raise CoercionError(f"must be true or false, not {_render_value(value)}")
    return found


_SCALARS: dict[str, Coerce] = {
    "string": _to_string,
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
}


def _array(schema: Mapping[str, Any]) -> Coerce:
    items = compile_schema(schema.get("items", {}))

    def array(value: Any) -> list[Any]:
        if not isinstance(value, list):
            value = _to_list(value)
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
    read = json_or(text, None) if text[:1] in "[{" else None
    if isinstance(read, list | dict):
        return read if isinstance(read, list) else [read]
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    pieces = (piece.strip().strip("\"'") for piece in text.split(","))
    return [piece for piece in pieces if piece]


def _object(schema: Mapping[str, Any]) -> Coerce:
    required: Sequence[str] = schema.get("required", ())
    known = {name: compile_schema(one) for name, one in schema.get("properties", {}).items()}
    extra = schema.get("additionalProperties", True)
    other = compile_schema(extra) if isinstance(extra, Mapping) else _accept_any

    def object_(value: Any) -> dict[str, Any]:
        values = json_or(value.strip(), None) if isinstance(value, str) else value
        if not isinstance(values, Mapping):
            raise CoercionError(f"must be a JSON object, not {_render_value(value)}")
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
        # First the alternatives of the value's own type, then those it can be made into.
        same = [c for kinds, c in compiled if kinds is None or type(value) in kinds]
        for coerce in (*same, *(c for _, c in compiled)):
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
    # ECMAScript's dialect of patterns has forms that Python's does not.
    with suppress(re.error):
        if isinstance(schema.get("pattern"), str):
            found.append(_pattern(schema["pattern"]))
    return found


def _enum(values: Sequence[Any]) -> Coerce:
    texts = {value_text(value).casefold(): value for value in reversed(values)}
    shown = ", ".join(value_text(value) for value in values)

    def enum(value: Any) -> Any:
        if value in values:
            return value
        text = value_text(value).strip().casefold()
        if text in texts:
            return texts[text]
        raise CoercionError(f"must be one of {shown}; not {_render_value(value)}")

    return enum


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


# Python's expressions backtrack: on a long text a careless pattern takes minutes.
_PATTERN_INPUT = 2_000


def _pattern(pattern: str) -> Coerce:
    search = re.compile(pattern).search

    def check(value: Any) -> Any:
        if isinstance(value, str) and (len(value) > _PATTERN_INPUT or not search(value)):
            raise CoercionError(f"must match the pattern {pattern}, not {_render_value(value)}")
        return value

    return check


# Takes the arguments and the protocol; returns what fits, and the problems as texts.
Check = Callable[[Any, str], tuple[dict[str, Any], list[str]]]


class _Field(NamedTuple):
    name: str
    required: bool
    coerce: Coerce
    empty_is_absent: bool


def compile_check(operation: Operation) -> Check:
    """The function that checks the arguments of calls of `operation`; it never raises."""
    fields = tuple(map(_field, operation.parameters))

    def check(arguments: Any, protocol: str) -> tuple[dict[str, Any], list[str]]:
        # The way of a good call; everything unusual is looked at again, slowly.
        if type(arguments) is not dict:
            return _look_closely(operation, fields, arguments, protocol)
        out: dict[str, Any] = {}
        good = 0
        for name, required, coerce, _ in fields:
            if name in arguments:
                try:
                    out[name] = coerce(arguments[name])
                except (CoercionError, RecursionError):
                    return _look_closely(operation, fields, arguments, protocol)
                good += 1
            elif required:
                return _look_closely(operation, fields, arguments, protocol)
        # There are others than the operation has.
        if good != len(arguments):
            return _look_closely(operation, fields, arguments, protocol)
        return out, []

    return check


def _field(parameter: Parameter) -> _Field:
    is_text = parameter.type == "string" and "enum" not in parameter.schema
    return _Field(parameter.name, parameter.required, compile_schema(parameter.schema), not is_text)


def _look_closely(
    operation: Operation, fields: tuple[_Field, ...], arguments: Any, protocol: str
) -> tuple[dict[str, Any], list[str]]:
    tool = operation.tool_use_name if protocol == "tool_use" else operation.xml_name
    values = _to_dict(arguments)
    if values is None:
        return {}, [f"The arguments of the {tool} function call must be one JSON object."]
    known = {field.name: field for field in fields}
    values = _correct_names(values, known)
    out: dict[str, Any] = {}
    problems: list[str] = []
    for field in fields:
        value = values.get(field.name)
        absent = value is None or (value == "" and field.empty_is_absent)
        if not absent:
            try:
                out[field.name] = field.coerce(value)
            except (CoercionError, RecursionError) as error:
                problems.append(_wrong(field.name, tool, error))
        elif field.required:
            problems.append(
                f"Missing the argument {field.name} in the {tool} function call. Please add this "
                "argument with a value that the user has given; if there is none, ask the user."
            )
    problems.extend(
        f"The {tool} function has no argument {name[:100]}{did_you_mean(name, known)}. "
        f"Please use only these arguments: {', '.join(known) or 'none'}."
        for name in values
        if name not in known
    )
    return out, problems


def _to_dict(arguments: Any) -> dict[str, Any] | None:
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            return None
    if not isinstance(arguments, Mapping):
        return None
    return {str(name): value for name, value in arguments.items()}


# Models write `claim_id` for `claimId`; corrected where only one parameter can be meant.
def _correct_names(values: dict[str, Any], known: Mapping[str, _Field]) -> dict[str, Any]:
    missing: dict[str, list[str]] = {}
    for name in known:
        if name not in values:
            missing.setdefault(_fold_name(name), []).append(name)
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        meant = missing.get(_fold_name(name), ()) if name not in known else ()
        if len(meant) == 1 and meant[0] not in renamed:
            name = meant[0]
        renamed[name] = value
    return renamed


def _fold_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _wrong(name: str, tool: str, error: CoercionError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return f"The argument {name} in the {tool} function call is nested too deeply."
    path = f" ({error.path})" if error.path else ""
    return (
        f"The argument {name}{path} in the {tool} function call {error.text}. "
        "Please correct it and try again."
    )
