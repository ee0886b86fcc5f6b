"""Bedrock's function schemas (`functionSchema.functions`) as operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Operation, Parameter
from orchestrator.actions.names import check_count, check_name, check_text
from orchestrator.errors import DefinitionError
from orchestrator.support.spelling import did_you_mean

TYPES = ("string", "number", "integer", "boolean", "array")
_MOST_PARAMETERS = 500  # (Bedrock: 5 of a function)
_MEMBERS = ("name", "description", "parameters", "requireConfirmation")
_PARAMETER_MEMBERS = ("type", "description", "required")


def function_operations(group: str, functions: Iterable[Any]) -> tuple[Operation, ...]:
    """The operations of a function schema (Bedrock: `Function` of bedrock-agent).

    Raises:
        DefinitionError: A function or a parameter is wrong; the message names it.
    """
    found: list[Operation] = []
    for function in functions:
        check_count(len(found) + 1, f"the action group {group!r}")
        found.append(_operation(group, function))
    return tuple(found)


def _operation(group: str, function: Any) -> Operation:
    if not isinstance(function, Mapping):
        raise DefinitionError(
            f"a function of the action group {group!r} must be an object with a `name`, "
            f"not {type(function).__name__}"
        )
    name = check_name(function.get("name"), "function")
    what = f"the function '{group}::{name}'"
    _members(function, _MEMBERS, what)
    entries = function.get("parameters") or {}
    if not isinstance(entries, Mapping):
        raise DefinitionError(f"`parameters` of {what} must map names to parameters")
    if len(entries) > _MOST_PARAMETERS:
        raise DefinitionError(f"{what} has more than {_MOST_PARAMETERS} parameters")
    parameters = tuple(_parameter(what, key, value) for key, value in entries.items())
    confirmation = read_confirmation(
        function.get("requireConfirmation"), f"`requireConfirmation` of {what}"
    )
    return Operation(
        group=group,
        name=name,
        description=check_text(function.get("description"), f"the description of {what}"),
        parameters=parameters,
        require_confirmation=confirmation is True,
        confirmation_waived=confirmation is False,
        schema=object_schema(parameters),
    )


def _parameter(what: str, name: object, node: Any) -> Parameter:
    name = check_name(name, f"parameter of {what},")
    place = f"the parameter {name!r} of {what}"
    if not isinstance(node, Mapping):
        raise DefinitionError(f"{place} must be an object with a `type`")
    _members(node, _PARAMETER_MEMBERS, place)
    kind = node.get("type")
    if kind not in TYPES:
        raise DefinitionError(
            f"{place} has the type {kind!r}; allowed are {', '.join(TYPES)}"
            f"{did_you_mean(kind, TYPES)}"
        )
    required = node.get("required", False)
    if not isinstance(required, bool):
        raise DefinitionError(f"`required` of {place} must be true or false, not {required!r}")
    description = check_text(node.get("description"), f"the description of {place}")
    schema = {"type": kind, "description": description} if description else {"type": kind}
    return Parameter(name, kind, description, required, schema=schema)


def _members(node: Mapping[str, Any], allowed: Sequence[str], what: str) -> None:
    for key in node:
        if key not in allowed:
            raise DefinitionError(
                f"{what} has an unknown member {key!r}; allowed are {', '.join(allowed)}"
                f"{did_you_mean(key, allowed)}"
            )


def read_confirmation(value: object, what: str) -> bool | None:
    """Bedrock's `ENABLED` or `DISABLED`, as a bool; `None` when it is left out.

    Raises:
        DefinitionError: It is something else.
    """
    if value is None or isinstance(value, bool):
        return value
    if value in ("DISABLED", "ENABLED"):
        return value == "ENABLED"
    raise DefinitionError(f"{what} must be ENABLED or DISABLED, not {value!r}")


def object_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """One JSON Schema of all parameters, in their order.

    It is what native tool use and constrained decoding take: a closed object, no references.
    """
    return {
        "type": "object",
        "properties": {parameter.name: parameter.schema for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required],
        "additionalProperties": False,
    }
