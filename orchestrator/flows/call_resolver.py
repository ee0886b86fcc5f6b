"""What a script may call in a turn, by which names, and how each call is made.

Registered functions have their own names. An agent's actions have those that its models call them
by, `group__function`, and where only one has it, the function's alone. A knowledge base is called
by its id, an agent's only one also as `search`; collaborators by their names. What is no letter,
digit or `_` in a name is `_` in a script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.engine.toolbox import message_name, search_name
from orchestrator.flows.functions import FUNCTIONS, build_function_specs, describe_missing_function
from orchestrator.flows.steps import Call, CallCatalog

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
        self._functions = build_function_specs(functions)
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
        self.known = CallCatalog(specs, _find_unique_names(_list_short_names(turn), specs))

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
        raise NoSuchCall(*self._unknown(step.name))

    def parse_result(self, name: str, text: str) -> Any:
        """What a call gave, of its result's text: data, where a function or an action gave JSON."""
        if self.known.name_of(name) in self._members:
            return text
        try:
            return json.loads(text)
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

    def _unknown(self, name: str) -> tuple[str, str]:
        known = {*self.known.specs, *filter(self.known.name_of, self.known.names)}
        return describe_missing_function(name, known), f"未找到函数: {name}"


def _list_short_names(turn: Turn) -> Iterator[tuple[str, str]]:
    """Shorter names, and what each means."""
    plan = turn.plan
    for one in plan.catalog.operations:
        for name in (one.name, f"{one.group}__{one.name}", one.tool_use_name):
            yield _to_identifier(name), one.tool_use_name
    for id in plan.knowledge_bases:
        yield _to_identifier(id), search_name(id, _PROTOCOL)
        yield "search", search_name(id, _PROTOCOL)


def _find_unique_names(
    found: Iterator[tuple[str, str]], specs: Mapping[str, Any]
) -> dict[str, str]:
    """The names that mean one thing only."""
    names: dict[str, str] = {}
    for name, meant in found:
        names[name] = meant if names.get(name, meant) == meant else ""
    return {name: meant for name, meant in names.items() if meant in specs and name not in specs}


def _to_identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _build_agent_spec(name: str, instruction: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": _MESSAGE, "required": list(_MESSAGE)}
    description = instruction or f"Asks the agent {name}."
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}
