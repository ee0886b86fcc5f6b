"""Functions that scripts call by name, as actions: with JSON data for arguments and results."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from orchestrator.actions import ActionGroup, ActionResult, Call, CallContext, Operation, Parameter
from orchestrator.actions.names import did_you_mean
from orchestrator.actions.python import compile_function
from orchestrator.actions.results import as_text
from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.support.user_code import describe_exception, place_in_function

FUNCTIONS = "flowfunctions"
"""The action group of a script's functions."""

_ANYTHING = {
    "type": "object",
    "properties": {"args": {"type": "array"}, "kwargs": {"type": "object"}},
}
_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": True}
_PARAMETERS = (
    Parameter("args", "array", "Arguments by place."),
    Parameter("kwargs", "object", "Arguments by name."),
)


class Functions:
    """Calls plain functions with what a script gave: `args`, a list, and `kwargs`, a mapping."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._functions = functions

    def operations(self, group: str) -> list[Operation]:
        """One operation a function."""
        return [
            Operation(group, name, inspect.getdoc(function) or "", _PARAMETERS, schema=_ANYTHING)
            for name, function in self._functions.items()
        ]

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Calls the function; its result as JSON text.

        Raises:
            DependencyFailed: It takes other arguments, raised, or returned what has no JSON form.
        """
        name = call.operation.name
        function = self._functions[name]
        args, kwargs = call.arguments.get("args", ()), call.arguments.get("kwargs", {})
        _check(name, function, args, kwargs)
        try:
            value = function(*args, **kwargs)
            if inspect.iscoroutine(value):
                import asyncio

                value = asyncio.run(value)
            return ActionResult(
                json.dumps(value) if isinstance(value, str) else as_text(value) or "null"
            )
        except Exception as error:
            where = place_in_function(error, function)
            raise DependencyFailed(
                f"the function {name!r} {describe_exception(error, where)}", resource=name
            ) from error


def _check(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Refuses arguments that a function does not take.

    Raises:
        DependencyFailed: It does not; the message has no values.
    """
    try:
        taken = inspect.signature(function)
    except (TypeError, ValueError):  # of some that are written in C
        return
    try:
        taken.bind(*args, **kwargs)
    except TypeError as error:
        counts = [f"{len(args)} by place"] if args or not kwargs else []
        counts += [f"{one!r} by name" for one in kwargs]
        raise DependencyFailed(
            f"the function {name!r} takes ({', '.join(taken.parameters)}), and is given "
            f"{', '.join(counts)}: {error}",
            resource=name,
        ) from None


def build_functions_group(functions: Mapping[str, Callable[..., Any]]) -> ActionGroup:
    """The action group of a script's functions."""
    return ActionGroup(FUNCTIONS, executor=Functions(functions))


def build_function_specs(functions: Mapping[str, Callable[..., Any]]) -> dict[str, dict[str, Any]]:
    """Specifications of the functions that a model may call, by name."""
    return {name: _build_spec(name, function) for name, function in functions.items()}


def describe_missing_function(name: str, known: Collection[str]) -> str:
    """The error of a function that is missing, and how to register one."""
    there = f"there is {', '.join(sorted(known))}" if known else "no function is registered yet"
    meant = did_you_mean(name, known)
    return (
        f"there is no function {name!r}{f'{meant} Give' if meant else '; give'} it with "
        f"--tool {name}=FILE:FUNCTION, in Python with tools={{{name!r}: ...}}, in an agent with an "
        f"action; {there}"
    )


def _build_spec(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    description, schema = inspect.getdoc(function) or name, _OBJECT
    with suppress(DefinitionError):  # such as one that takes anything
        operation, _ = compile_function(FUNCTIONS, name, function)
        description, schema = operation.description or name, dict(operation.schema)
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}
