"""Functions that scripts call by name, as actions: with JSON data for arguments and results."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from orchestrator.actions import ActionGroup, ActionResult, Call, CallContext, Operation, Parameter
from orchestrator.actions.results import as_text
from orchestrator.actions.signatures import compile_function
from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.raised import raised

__all__ = ["FUNCTIONS", "function_specs", "functions_group"]

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
            DependencyFailed: It raised, or returned what has no JSON form.
        """
        name = call.operation.name
        given = call.arguments
        try:
            value = self._functions[name](*given.get("args", ()), **given.get("kwargs", {}))
            if inspect.iscoroutine(value):
                import asyncio

                value = asyncio.run(value)
            return ActionResult(
                json.dumps(value) if isinstance(value, str) else as_text(value) or "null"
            )
        except Exception as error:
            raise DependencyFailed(
                f"the function {name!r} {raised(error)}", resource=name
            ) from error


def functions_group(functions: Mapping[str, Callable[..., Any]]) -> ActionGroup:
    """The action group of a script's functions."""
    return ActionGroup(FUNCTIONS, executor=Functions(functions))


def function_specs(functions: Mapping[str, Callable[..., Any]]) -> dict[str, dict[str, Any]]:
    """What a model is told of functions that it may call, by their names."""
    return {name: _spec(name, function) for name, function in functions.items()}


def _spec(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    description, schema = inspect.getdoc(function) or name, _OBJECT
    with suppress(DefinitionError):  # such as one that takes anything
        operation, _ = compile_function(FUNCTIONS, name, function)
        description, schema = operation.description or name, dict(operation.schema)
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}
