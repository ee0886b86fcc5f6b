"""Carries instructions out: those that every script has, registered functions, and imports."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.flows.ppe.built_in import BUILT_IN, MADE, ORDER
from orchestrator.flows.ppe.instruction_reader import LISTENING
from orchestrator.flows.ppe.nodes import Instruction, Link
from orchestrator.flows.steps import Step

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


Steps = Generator[Step, Any, Any]


class Instructions:
    """Carries out the instructions of one run."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run

    def run(self, statement: Instruction) -> Steps:
        """Carries a statement out; its result is the script's so far."""
        self._run.keep((yield from self.value(statement)))

    def value(self, statement: Instruction) -> Steps:
        """Carries a statement out; its result."""
        run = self._run
        piped = (yield from run.previous()) if statement.piped else None
        value = statement.value
        if statement.name not in LISTENING:
            value = yield from run.values.evaluate_data(value)
        args: Sequence[Any] = ()
        named: Mapping[str, Any] = {}
        if statement.arguments is not None:
            args, named = yield from run.values.arguments(statement.arguments)
        link = Link(statement.place, statement.name, True)
        if piped is not None:
            named = {**(value if isinstance(value, dict) else {}), **named}
            return (yield from run.calls.call_link(link, piped, args, named))
        if statement.name in BUILT_IN:
            return (yield from self._run_built_in(link, value, args, named))
        return (yield from self._run_function(link, value, args, named))

    def call(self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Steps:
        """Carries out an instruction that a text, or a chain, calls; its result."""
        if link.name in BUILT_IN:
            return (yield from self._run_built_in(link, value, args, named))
        spread = value if isinstance(value, dict) else {} if value is None else {"content": value}
        return (yield from self._call_function(link, args, {**spread, **named}))

    def _run_function(
        self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        if isinstance(value, dict):
            named = {**value, **named}
        elif isinstance(value, list):
            args = [*value, *args]
        elif value is not None:
            args = [value, *args]
        return (yield from self._call_function(link, args, named))

    def _call_function(self, link: Link, args: Sequence[Any], named: Mapping[str, Any]) -> Steps:
        """Calls a function, or a script that was imported under its name."""
        run = self._run
        if link.name in run.script.settings.imports:
            return (yield from run.calls.script(link, args, named))
        return (yield from run.calls.function(link.place, link.name, args, named))

    def _run_built_in(
        self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        if value is None and args:
            value = args[0]
            named = {**dict(zip(ORDER.get(link.name, ()), args, strict=False)), **named}
        given = {**(value if isinstance(value, dict) else {}), **named}
        return (yield from MADE[link.name](self._run, link, value, given))
