"""The instructions of scripts: `$AI`, `$set`, `$echo` and the others, and registered functions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.flows.evaluation import UNDEFINED
from orchestrator.flows.ppe import asking
from orchestrator.flows.ppe.nodes import Instruction, Link
from orchestrator.flows.steps import Event, Step

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter

__all__ = ["BUILT_IN", "Instructions"]

Steps = Generator[Step, Any, Any]

_REFUSED = ("on", "once", "emit", "off")


class Instructions:
    """Carries out the instructions of one run."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run

    def run(self, statement: Instruction) -> Steps:
        """Carries a statement out; its result is the script's so far."""
        run = self._run
        value = yield from run.given(statement.value)
        args: Sequence[Any] = ()
        named: Mapping[str, Any] = {}
        if statement.arguments is not None:
            args, named = yield from run.arguments(statement.arguments)
        link = Link(statement.place, statement.name, True, ())
        if statement.name in BUILT_IN:
            made = yield from self._do(link, value, args, named)
        else:
            made = yield from self._function(link, value, args, named)
        run.keep(made)

    def call(self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Steps:
        """Carries out an instruction that a text, or a chain, calls; its result."""
        if link.name in BUILT_IN:
            return (yield from self._do(link, value, args, named))
        spread = value if isinstance(value, dict) else {} if value is None else {"content": value}
        return (yield from self._run.function(link.place, link.name, args, {**spread, **named}))

    def _function(
        self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        if isinstance(value, dict):
            named = {**value, **named}
        elif isinstance(value, list):
            args = [*value, *args]
        elif value is not None:
            args = [value, *args]
        return (yield from self._run.function(link.place, link.name, args, named))

    def _do(self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Steps:
        if value is None and args:
            value = args[0]
        given = {**(value if isinstance(value, dict) else {}), **named}
        return (yield from _MADE[link.name](self._run, link, value, given))


def _ai(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    return (yield from asking.ask_all(run, link.place, given))


def _set(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    for name, one in given.items():
        run.data.runtime[name] = one
        run.data.prompt.pop(name, None)
        yield Event("variable_set", link.place, {"name": name, "value": one})
    return dict(given)


def _prompt(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    run.data.prompt.update(given)
    yield from ()
    return dict(given)


def _parameters(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    run.parameters.update(given)
    yield from ()
    return dict(given)


def _get(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    yield from run.rendering.force(frozenset((str(value),)))
    found = run.data.value(str(value))
    return None if found is UNDEFINED else found


def _echo(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    yield from ()
    return value


def _print(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    yield Event("token", link.place, {"text": "" if value is None else str(value)})
    return value


def _ret(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    from orchestrator.flows.ppe.interpreter import Returned

    yield from ()
    run.keep(value)
    raise Returned


def _leave(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    from orchestrator.flows.ppe.interpreter import Break, Continue

    yield from ()
    raise Break if link.name == "break" else Continue


def _abort(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    yield from ()
    run.fail(link.place, f"the script was aborted: {value}" if value else "the script was aborted")


def _exec(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    name = str(given.get("id") or given.get("filename") or (value if value is not None else ""))
    for ending in (".ai.yaml", ".ppe.yaml"):
        name = name.removesuffix(ending)
    if not run.library.has(name):
        there = ", ".join(run.library.ids) or "none"
        run.fail(link.place, f"there is no script {name!r} beside this one; there is {there}")
    args = given.get("args")
    if isinstance(args, dict):
        return (yield from run.called_script(Link(link.place, name, False, ()), (), args))
    listed = args if isinstance(args, list) else [] if args is None else [args]
    return (yield from run.called_script(Link(link.place, name, False, ()), listed, {}))


def _tool(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    """`$tool: name`, or `$tool: {name: ..., ...}`: a function with the others for arguments."""
    name = str(given.get("name", value if isinstance(value, str) else ""))
    others = {key: one for key, one in given.items() if key != "name"}
    if name == "llm":
        return (yield from asking.ask_all(run, link.place, others))
    if name not in run.known.specs:
        there = ", ".join(run.known.specs) or "none"
        run.fail(link.place, f"there is no tool {name!r}; there is {there}")
    return (yield from run.function(link.place, name, (), others))


def _format(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    from orchestrator.flows.ppe.texts import compile_text

    text = compile_text(f"!{given.get('template', value)}", link.place, run.script.file)
    return (yield from run.rendering.text(text))


def _pipe(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    previous = yield from run.previous()
    target = Link(link.place, str(value), False, ())
    return (yield from run.linked(target, previous, (), {}))


def _refused(run: Interpreter, link: Link, value: Any, given: Mapping[str, Any]) -> Steps:
    yield from ()
    run.fail(
        link.place,
        f"${link.name} is not supported: there are no handlers of events in a script; what happens "
        "in a run is told to its listener (on_event)",
    )


_MADE: dict[str, Callable[..., Steps]] = {
    "AI": _ai,
    "abort": _abort,
    "break": _leave,
    "continue": _leave,
    "echo": _echo,
    "exec": _exec,
    "format": _format,
    "get": _get,
    "parameters": _parameters,
    "pipe": _pipe,
    "print": _print,
    "prompt": _prompt,
    "ret": _ret,
    "set": _set,
    "tool": _tool,
    **dict.fromkeys(_REFUSED, _refused),
}

BUILT_IN = frozenset(_MADE)
"""The instructions that every script has."""
