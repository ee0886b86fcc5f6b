"""What a script may call in a turn, by which names, and how each call is made.

Registered functions have their own names. An agent's actions have those that its models call them
by, `group__function`, and where only one has it, the function's alone. A knowledge base is called
by its id, an agent's only one also as `search`; collaborators by their names. What is no letter,
digit or `_` in a name is `_` in a script.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrator.actions import ActionResult, CallContext, Operation, Parameter
from orchestrator.actions import Call as ActionCall
from orchestrator.actions.python import Action, compile_function
from orchestrator.actions.results import as_text
from orchestrator.engine.toolbox import message_name, search_name
from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.flows.steps import Call, CallCatalog
from orchestrator.flows.work import ScriptWork
from orchestrator.support.safe_json import read_json
from orchestrator.support.spelling import did_you_mean
from orchestrator.support.user_code import (
    describe_exception,
    describe_mismatch,
    is_own_failure,
    place_in_function,
)

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn


_PROTOCOL = "tool_use"
_SEND = message_name(_PROTOCOL)
_MESSAGE = {"message": {"type": "string", "description": "The whole message."}}


class NoSuchCall(ValueError):
    """A script cannot call this so; `args` are the message, and the message in Chinese."""


class CallResolver:
    """What a script may call.

    Attributes:
        known: Its names and specifications, for the script.
    """

    def __init__(
        self,
        turn: Turn,
        tools: Sequence[Mapping[str, Any]],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        """Takes what there is."""
        self._functions = {name: _build_spec(name, it) for name, it in functions.items()}
        self._actions = {it["toolSpec"]["name"]: it for it in tools if "toolSpec" in it}
        self._actions.pop(_SEND, None)
        members = turn.plan.collaborators
        self._members = {_to_identifier(name): name for name in members}
        specs = {
            **{
                _to_identifier(name): _build_agent_spec(_to_identifier(name), it.instruction)
                for name, it in members.items()
            },
            **self._actions,
            **self._functions,
        }
        work = ScriptWork(turn.plan.limits.script_work)
        self.known = CallCatalog(specs, _find_short_names(turn, specs), work=work)

    def resolve(self, step: Call) -> tuple[str, dict[str, Any]]:
        """The tool that a call means, and its input.

        Raises:
            NoSuchCall: There is none, or it takes fewer arguments.
        """
        name = self.known.name_of(step.name)
        if name in self._functions:
            input: dict[str, Any] = {"args": list(step.args), "kwargs": dict(step.kwargs)}
            return f"{FUNCTIONS}::{name}", input
        if name in self._actions:
            return name, self._by_name(name, step)
        if name in self._members:
            text = self._by_name(name, step).get("message")
            content = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
            return _SEND, {"recipient": self._members[name], "content": content}
        missing = describe_missing_function(step.name, self.known.all_names)
        raise NoSuchCall(missing, f"未找到函数: {step.name}")

    def parse_result(self, name: str, text: str) -> Any:
        """What a call gave, of its result's text: data, where a function or an action gave JSON.

        `NaN` and `Infinity`, which JSON does not have, are texts.
        """
        if self.known.name_of(name) in self._members:
            return text
        try:
            return read_json(text, parse_constant=str)
        except (ValueError, RecursionError):
            return text

    def _by_name(self, name: str, step: Call) -> dict[str, Any]:
        """Arguments by name: those by place take the names of the parameters, in order."""
        schema = self.known.specs[name]["toolSpec"]["inputSchema"]["json"]
        names = list(schema.get("properties", ()))
        if len(step.args) > len(names):
            raise NoSuchCall(
                f"{step.name!r} takes {len(names)} arguments ({', '.join(names)}), and is given "
                f"{len(step.args)}",
                f"{step.name} 最多接受 {len(names)} 个参数，实际为 {len(step.args)} 个",
            )
        return {**dict(zip(names, step.args, strict=False)), **step.kwargs}


def _find_short_names(turn: Turn, specs: Mapping[str, Any]) -> dict[str, str]:
    """Shorter names that mean one thing only, and what each means."""
    meanings: dict[str, set[str]] = {}
    for one in turn.plan.catalog.operations:
        for name in (one.name, f"{one.group}__{one.name}", one.tool_use_name):
            meanings.setdefault(_to_identifier(name), set()).add(one.tool_use_name)
    for id in turn.plan.knowledge_bases:
        for name in (_to_identifier(id), "search"):
            meanings.setdefault(name, set()).add(search_name(id, _PROTOCOL))
    return {
        name: next(iter(meant))
        for name, meant in meanings.items()
        if len(meant) == 1 and meant <= specs.keys() and name not in specs
    }


def _to_identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _build_agent_spec(name: str, instruction: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": _MESSAGE, "required": list(_MESSAGE)}
    description = instruction or f"Asks the agent {name}."
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}


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

    def call(self, call: ActionCall, context: CallContext) -> ActionResult:
        """Calls the function; its result as JSON text.

        Raises:
            DependencyFailed: It takes other arguments, raised, or returned what has no JSON form.
        """
        name = call.operation.name
        function = self._functions[name]
        args, kwargs = call.arguments.get("args", ()), call.arguments.get("kwargs", {})
        if mismatch := describe_mismatch(function, args, kwargs):
            raise DependencyFailed(f"the function {name!r} {mismatch}", resource=name)
        try:
            value = function(*args, **kwargs)
            if inspect.iscoroutine(value):
                value = asyncio.run(value)
            return ActionResult(
                json.dumps(value) if isinstance(value, str) else as_text(value) or "null"
            )
        except BaseException as error:
            if not is_own_failure(error):
                raise
            where = place_in_function(error, function)
            raise DependencyFailed(
                f"the function {name!r} {describe_exception(error, where)}", resource=name
            ) from error


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
        operation, _ = compile_function(FUNCTIONS, Action(function, name))
        description, schema = operation.description or name, dict(operation.schema)
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}
