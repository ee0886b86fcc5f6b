"""Tools of a script's model (`tools:`): scripts, functions and actions that it may call."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.flows.custom.python_loop import ModelAnswer
from orchestrator.flows.ppe.jinja_texts import value_text
from orchestrator.flows.ppe.nodes import Link, Script
from orchestrator.flows.ppe.output import inputs_of
from orchestrator.flows.ppe.settings import Tool, script_id
from orchestrator.flows.steps import Ask, AskUser, Place, Step

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


_MOST_ROUNDS = 20
_YES = frozenset(("y", "yes", "ok", "allow", "true", "是", "好", "可以", "允许"))

Specs = Mapping[str, Mapping[str, Any]]


def build_specs(run: Interpreter) -> dict[str, Mapping[str, Any]]:
    """Specifications of the model's tools, by name, without those that it may never call."""
    found: dict[str, Mapping[str, Any]] = {}
    for tool in _expand_tools(run):
        if run.script.settings.permissions.may_ever(tool.name):
            found[tool.name] = _build_spec(run, tool)
    return found


def _expand_tools(run: Interpreter) -> list[Tool]:
    """The tools, with those that a script of tools stands for (`export`)."""
    found = []
    for tool in run.script.settings.tools.values():
        exported: Any = ()
        if id := run.script_of(tool.name):
            exported = run.library.script(id).front.get("export") or ()
        names = [one for one in exported if isinstance(one, str) and one != "."]
        found += [replace(tool, name=script_id(one).removeprefix("$")) for one in names] or [tool]
    return found


def _build_spec(run: Interpreter, tool: Tool) -> Mapping[str, Any]:
    if run.script_of(tool.name):
        script, _ = run.find_script(tool.name)
        described = str(script.front.get("title") or script.front.get("description") or "")
        schema = _schema(script, tool)
    else:
        name = run.known.name_of(tool.name)
        if not name:
            run.fail(
                Place(1),
                f"there is no tool {tool.name!r}: no script beside this one, and no function",
                f"没有工具 {tool.name!r}：既无同名脚本，也无同名函数",
            )
        known = run.known.specs[name]["toolSpec"]
        described, schema = known.get("description", ""), known["inputSchema"]["json"]
    spec = {"description": tool.title or described or tool.name, "inputSchema": {"json": schema}}
    return {"toolSpec": {"name": tool.name, **spec}}


def _schema(script: Script, tool: Tool) -> dict[str, Any]:
    """A script's inputs as a JSON Schema; hidden ones are left out, those with a default free."""
    properties, required = {}, []
    for one in inputs_of(script.front.get("input")):
        if one.hidden and not one.required:
            continue
        property = {"type": "string", **(one.schema or {})}
        properties[one.name] = {**property, **({"description": one.about} if one.about else {})}
        if one.required and one.name not in tool.defaults:
            required.append(one.name)
    return {"type": "object", "properties": properties, "required": required}


def ask_with_tools(run: Interpreter, ask: Ask, offered: Specs) -> Generator[Step, Any, ModelAnswer]:
    """The model's reply, when it calls no tool any more."""
    messages = list(ask.messages)
    for _ in range(_MOST_ROUNDS):
        reply: ModelAnswer = yield replace(ask, messages=messages)
        if not reply.calls:
            return reply
        results = []
        for call in reply.calls:
            results.append((yield from _build_result(run, ask.place, call, offered)))
        messages = [*messages, reply.message, {"role": "user", "content": results}]
    run.fail(
        ask.place,
        f"the model called tools in {_MOST_ROUNDS} replies, and did not answer",
        f"模型在 {_MOST_ROUNDS} 次回复中一直调用工具，没有给出答案",
    )


def _build_result(
    run: Interpreter, place: Place, call: Mapping[str, Any], offered: Specs
) -> Generator[Step, Any, dict[str, Any]]:
    """A tool's result for the model; a call that is not allowed is a result, too."""
    name, refused = call["name"], ""
    defaults = next((one.defaults for one in _expand_tools(run) if one.name == name), {})
    arguments = {**defaults, **call["input"]}
    if name not in offered:
        refused = f"There is no tool {name!r}; there is {', '.join(offered)}."
    elif not (yield from _check_allowed(run, place, name, arguments)):
        refused = f"The call of {name!r} with these arguments is not permitted."
    text = refused or value_text((yield from _call_tool(run, place, name, arguments)))
    result: dict[str, Any] = {"toolUseId": call["toolUseId"], "content": [{"text": text or " "}]}
    return {"toolResult": {**result, "status": "error"} if refused else result}


def _check_allowed(
    run: Interpreter, place: Place, name: str, arguments: Mapping[str, Any]
) -> Generator[Step, Any, bool]:
    action = run.script.settings.permissions.action(name, arguments)
    if action != "confirm":
        return action == "allow"
    shown = value_text(dict(arguments))
    question = f"May {name!r} be called with {shown}? (yes or no)"
    reply = yield AskUser(place, question, run.result, run.data.whole())
    return str(reply).strip().casefold() in _YES


def _call_tool(run: Interpreter, place: Place, name: str, arguments: Mapping[str, Any]) -> Any:
    if run.script_of(name):
        return (yield from run.calls.script(Link(place, name, False), (), arguments))
    return (yield from run.calls.function(place, name, (), arguments))
