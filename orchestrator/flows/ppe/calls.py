"""Calls of a running script: instructions, functions, other scripts, and the targets of chains."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from orchestrator.errors import FlowError
from orchestrator.flows.ppe.built_in import (
    BUILT_IN,
    GIVING,
    MADE,
    ORDER,
    is_template_argument,
    is_written_template,
    set_variable,
)
from orchestrator.flows.ppe.control_flow import to_named_arguments
from orchestrator.flows.ppe.data import map_of
from orchestrator.flows.ppe.instruction_reader import LISTENING
from orchestrator.flows.ppe.nodes import Instruction, Link, Script
from orchestrator.flows.ppe.output import inputs_of
from orchestrator.flows.steps import Call, Event, Place, Step

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter

MOST_LEVELS = 20
MOST_CALLS = 10_000

Steps = Generator[Step, Any, Any]


class Calls:
    """Calls of one run of one script: of other scripts, functions and instructions."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run

    def call_link(
        self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        """Calls a target of a chain with a value."""
        is_script = bool(self._run.script_of(link.name))
        if not is_script and (link.instruction or link.name in BUILT_IN):
            return (yield from self.instruction(link, value, args, named))
        named = {**to_named_arguments(value), **named}
        if is_script:
            return (yield from self.script(link, args, named))
        return (yield from self.function(link.place, link.name, args, named))

    def call(self, link: Link, args: Sequence[Any], named: Mapping[str, Any]) -> Steps:
        """Calls what a text or an expression names, with arguments alone; its result."""
        if link.instruction:
            return (yield from self.instruction(link, None, args, named))
        if self._run.script_of(link.name):
            return (yield from self.script(link, args, named))
        return (yield from self.function(link.place, link.name, args, named))

    def find_inputs(self, link: Link) -> frozenset[str]:
        """The names of the inputs of the script that is called; none of anything else."""
        run = self._run
        is_script = not link.instruction or link.name in run.script.settings.imports
        id = run.script_of(link.name) if is_script else ""
        if not id:
            return frozenset()
        script, _ = run.find_script(link.name)
        return frozenset(one.name for one in inputs_of(script.front.get("input")))

    def script(self, link: Link, args: Sequence[Any], named: Mapping[str, Any]) -> Steps:
        """Runs another script with a new dialogue; returns its result."""
        run = self._run
        if run.level >= MOST_LEVELS:
            run.fail(
                link.place,
                f"scripts call each other more than {MOST_LEVELS} levels deep",
                f"脚本互相调用超过 {MOST_LEVELS} 层",
            )
        args, named = yield from self._before(link.place, link.name, args, named)
        data = {"name": link.name, "args": list(args), "kwargs": dict(named)}
        yield Event("tool_call", link.place, data)
        run.shared.calls += 1
        if run.shared.calls > MOST_CALLS:
            run.fail(
                link.place,
                f"scripts call each other more than {MOST_CALLS} times",
                f"脚本互相调用超过 {MOST_CALLS} 次",
            )
        script, is_spare = run.find_script(link.name)
        if is_spare:
            text = f"the script {link.name!r} calls functions that nobody registered: the standard "
            text += "script of its name is run"
            yield Event("warning", link.place, {"text": text})
        value = yield from self._run_script(link, script, args, named)
        yield Event("tool_result", link.place, {"name": link.name, "value": value})
        return (yield from self._after(link.place, link.name, args, named, value))

    def _run_script(
        self, link: Link, script: Script, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        try:
            inner = self._run.inner(script, args, named)
        except FlowError as error:  # of its arguments, which stand here
            self._fail_here(link, error)
        try:
            return (yield from inner.run())
        except FlowError as error:
            if not self._run.library.is_standard(script.id):
                raise
            # The author knows his own line, and not those of the standard scripts.
            self._fail_here(link, error)

    def _fail_here(self, link: Link, error: FlowError) -> NoReturn:
        """Fails at the call for what is wrong in the script that is called."""
        zh = error.message_zh.partition("：")[2] or error.reason
        self._run.fail(link.place, f"{link.name}: {error.reason}", f"{link.name}: {zh}")

    def function(
        self, place: Place, name: str, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        """Calls a registered function; its result."""
        args, named = yield from self._before(place, name, args, named)
        yield Event("tool_call", place, {"name": name, "args": list(args), "kwargs": dict(named)})
        value = yield Call(place, name, list(args), dict(named))
        yield Event("tool_result", place, {"name": name, "value": value})
        return (yield from self._after(place, name, args, named, value))

    def _before(
        self, place: Place, name: str, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Generator[Step, Any, tuple[Sequence[Any], Mapping[str, Any]]]:
        """The arguments, as listeners to `beforeCall` leave them."""
        run = self._run
        params = _as_params(args, named)
        answer = yield from run.listeners.emit(place, "beforeCall", [name, params], 1)
        if answer is None:
            return args, named
        if not isinstance(answer, dict) or not isinstance(answer.get("args", []), list):
            run.fail(
                place,
                "a listener to 'beforeCall' gives back a map of arguments",
                "'beforeCall' 的监听者须返回参数字典",
            )
        return answer.pop("args", []), answer

    def _after(
        self, place: Place, name: str, args: Sequence[Any], named: Mapping[str, Any], value: Any
    ) -> Steps:
        values = [name, _as_params(args, named), value]
        answer = yield from self._run.listeners.emit(place, "afterCall", values, 2)
        return value if answer is None else answer

    def statement(self, statement: Instruction) -> Steps:
        """Carries out an instruction that is a statement, or a condition; its result."""
        run = self._run
        piped = (yield from run.previous()) if statement.piped else None
        run.values.place = statement.place
        value = yield from self._evaluate(statement)
        args: Sequence[Any] = ()
        named: Mapping[str, Any] = {}
        written = statement.arguments or ()
        link = Link(statement.place, statement.name, True, written, value=statement.value)
        if statement.name == "format":
            written = [one for one in written if not is_template_argument(one)]
        if written:
            args, named = yield from run.values.arguments(written, link)
        if piped is not None:
            return (yield from self.call_link(link, piped, args, {**map_of(value), **named}))
        if statement.name in BUILT_IN:
            return (yield from self._run_built_in(link, value, args, named))
        if isinstance(value, dict):
            named = {**value, **named}
        elif value is not None:
            args = [*(value if isinstance(value, list) else [value]), *args]
        return (yield from self._call_function(link, args, named))

    def _evaluate(self, statement: Instruction) -> Steps:
        """The value below an instruction; a template of `$format` waits for its data."""
        value = statement.value
        if statement.name in LISTENING:
            return value
        if statement.name == "format":
            if not isinstance(value, dict):
                return (
                    value
                    if is_written_template(value)
                    else (yield from self._run.values.evaluate_data(value))
                )
            kept = {k: it for k, it in value.items() if k == "template" and is_written_template(it)}
            rest = {k: it for k, it in value.items() if k not in kept}
            return {**kept, **(yield from self._run.values.evaluate_data(rest))}
        return (yield from self._run.values.evaluate_data(value))

    def instruction(
        self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        """Carries out an instruction that a text, a chain or an event calls; its result."""
        if link.name in BUILT_IN:
            return (yield from self._run_built_in(link, value, args, named))
        return (yield from self._call_function(link, args, {**to_named_arguments(value), **named}))

    def _call_function(self, link: Link, args: Sequence[Any], named: Mapping[str, Any]) -> Steps:
        """Calls a function, or a script that was imported under its name."""
        if link.name in self._run.script.settings.imports:
            return (yield from self.script(link, args, named))
        return (yield from self.function(link.place, link.name, args, named))

    def _run_built_in(
        self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        if value is None and args:
            value = args[0]
            named = {**dict(zip(ORDER.get(link.name, ()), args, strict=False)), **named}
        elif link.name in GIVING and (args or "content" in named):
            value = named["content"] if "content" in named else args[0]
        if link.name == "set" and args:
            return (yield from set_variable(self._run, link, args, value))
        arguments = {**map_of(value), **named}
        return (yield from MADE[link.name](self._run, link, value, arguments))


def _as_params(args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for listeners: those by name, and `args`, if there are any."""
    return {**named, "args": list(args)} if args else dict(named)
