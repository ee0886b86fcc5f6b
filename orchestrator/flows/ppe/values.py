"""The values of a running script's expressions, arguments and instructions."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.flows.evaluation import UNDEFINED, evaluate
from orchestrator.flows.expressions import parse_expression
from orchestrator.flows.ppe.data import Author
from orchestrator.flows.ppe.scope import find_read_names
from orchestrator.flows.ppe.texts import compile_text
from orchestrator.flows.steps import Step
from orchestrator.flows.tree import Argument, Node

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


Steps = Generator[Step, Any, Any]


class Values:
    """Values in one run of one script."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run

    def evaluate_node(self, node: Node) -> Steps:
        """The value of an expression; what it reads is substituted before."""
        yield from self._run.rendering.force(find_read_names(node))
        value = evaluate(node, self._run.data)
        return None if value is UNDEFINED else value

    def arguments(
        self, arguments: Sequence[Argument]
    ) -> Generator[Step, Any, tuple[list[Any], dict[str, Any]]]:
        """Arguments by place, and by name. A bare word that is no variable is a text."""
        args: list[Any] = []
        named: dict[str, Any] = {}
        for one in arguments:
            value = yield from self.evaluate_node(one.node)
            if value is None and one.node.kind == "name":
                undefined = self._run.data.raw(one.node.value) is UNDEFINED
                value = one.node.value if undefined else None
            if one.name:
                named[one.name] = value
            else:
                args.append(value)
        return args, named

    def evaluate_data(self, value: Any) -> Steps:
        """What an instruction is given: `?=` is an expression, `!` a template."""
        if isinstance(value, Author):
            return (yield from self._text(value))
        if isinstance(value, dict):
            made = {}
            for name, one in value.items():
                made[name] = yield from self.evaluate_data(one)
            return made
        if isinstance(value, list):
            items = []
            for one in value:
                items.append((yield from self.evaluate_data(one)))
            return items
        return value

    def _text(self, text: Author) -> Steps:
        if text.startswith("?="):
            return (yield from self.evaluate_node(parse_expression(text[2:])))
        if text.startswith("!"):
            made = compile_text(str(text), text.place, self._run.script.file)
            return (yield from self._run.rendering.text(made))
        return str(text)
