"""Arguments as models write them, checked against an operation's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from orchestrator.actions.base import Operation, Parameter
from orchestrator.actions.coercion import PLAIN, Coerce, CoercionError, begin_check, compile_schema
from orchestrator.support.safe_json import read_json
from orchestrator.support.spelling import did_you_mean
from orchestrator.support.work_budget import TooMuchWork

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
    is_bounded = all(field.coerce in PLAIN for field in fields)

    def check(arguments: Any, protocol: str) -> tuple[dict[str, Any], list[str]]:
        if not is_bounded:
            begin_check()
        # The way of a good call; everything unusual is looked at again, slowly.
        if type(arguments) is not dict:
            return _look_closely(operation, fields, arguments, protocol)
        out: dict[str, Any] = {}
        good = 0
        for name, required, coerce, _ in fields:
            if name in arguments:
                try:
                    out[name] = coerce(arguments[name])
                except (CoercionError, RecursionError, TooMuchWork):
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
    begin_check()
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
            except (CoercionError, RecursionError, TooMuchWork) as error:
                problems.append(_wrong(field.name, tool, error))
        elif field.required:
            problems.append(
                f"Missing the argument {field.name} in the {tool} function call. Please add this "
                "argument with a value that the user has given; if there is none, ask the user."
            )
    unknown = [name for name in values if name not in known]
    problems.extend(
        f"The {tool} function has no argument {name[:100]}{did_you_mean(name, known)}. "
        f"Please use only these arguments: {', '.join(known) or 'none'}."
        for name in unknown[:_UNKNOWN]
    )
    return out, problems


# How many names of arguments that are none are reported: each is compared with the right ones.
_UNKNOWN = 10


def _to_dict(arguments: Any) -> dict[str, Any] | None:
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            arguments = read_json(arguments) if arguments.strip() else {}
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


def _wrong(name: str, tool: str, error: CoercionError | RecursionError | TooMuchWork) -> str:
    if isinstance(error, TooMuchWork):
        return f"The argument {name} in the {tool} function call is too large to be checked."
    if isinstance(error, RecursionError):
        return f"The argument {name} in the {tool} function call is nested too deeply."
    path = f" ({error.path})" if error.path else ""
    return (
        f"The argument {name}{path} in the {tool} function call {error.text}. "
        "Please correct it and try again."
    )
