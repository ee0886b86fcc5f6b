"""The inputs and functions that a Handlebars template names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from orchestrator.prompts.languages.semantic_kernel.content import ROLES
from orchestrator.prompts.languages.semantic_kernel.handlebars_grammar import (
    Block,
    Call,
    Expression,
    Literal,
    Node,
    Path,
    Show,
)
from orchestrator.prompts.languages.semantic_kernel.helpers import HELPERS

_PLACING = ("messages", "message_to_prompt", "messageToPrompt")
_OWN = frozenset(
    {"set", "get", "log", "if", "unless", "each", "with", "message", "else", *_PLACING, *ROLES}
)
_LOOKING = ("each", "with")  # blocks whose inside is about something else


class Names:
    """What a template names."""

    __slots__ = ("_functions", "_marked", "_own", "calls", "names")

    def __init__(self, nodes: Sequence[Node], functions: Collection[str]) -> None:
        """Looks through a template."""
        self.names: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self._functions = {name.replace(".", "-", 1): name for name in functions}
        self._own: set[str] = set()
        self._marked = False
        self._visit_nodes(nodes, 0)

    def _visit_nodes(self, nodes: Sequence[Node], depth: int) -> None:
        for node in nodes:
            if isinstance(node, Show):
                self._visit_shown(node.expression, depth)
            elif isinstance(node, Block):
                self._visit_block(node, depth)

    def _visit_shown(self, shown: Expression, depth: int) -> None:
        if isinstance(shown, Path) and shown.text == "messages":
            self.names.setdefault("chat_history", shown.at)
        elif isinstance(shown, Path) and shown.text == "message" and self._marked:
            return  # {{message}}: the end of a message
        elif not (isinstance(shown, Path) and shown.text in (*_PLACING, *HELPERS)):
            self._visit_expression(shown, depth)

    def _visit_block(self, block: Block, depth: int) -> None:
        call, name = block.call, block.call.path.text
        if name in _OWN or name in HELPERS or call.given or call.named:
            self._visit_arguments(call, depth)
            inner = depth + (name in _LOOKING)
            if name not in _OWN and name not in HELPERS:
                self._add_call(call)
        else:
            self._visit_expression(call.path, depth)
            inner = depth + 1
        before = set(self._own)
        self._own |= set(block.parameters)
        self._visit_nodes(block.inside, inner)
        self._own = before | (self._own - set(block.parameters))
        self._visit_nodes(block.instead, depth)

    def _visit_expression(self, expression: Expression, depth: int) -> None:
        if isinstance(expression, Path):
            self._visit_path(expression, depth)
        elif isinstance(expression, Call):
            self._marked = self._marked or expression.path.text == "message"
            self._add_call(expression)
            self._visit_arguments(expression, depth)

    def _visit_arguments(self, call: Call, depth: int) -> None:
        name = call.path.text
        if name == "set" and call.given and isinstance(call.given[0], Literal):
            self._own.add(str(call.given[0].value))
        elif name == "set" and isinstance(call.named.get("name"), Literal):
            self._own.add(str(getattr(call.named["name"], "value", "")))
        elif name == "get" and call.given and isinstance(call.given[0], Literal):
            self._add_input(str(call.given[0].value), call.at)
        for one in (*call.given, *call.named.values()):
            self._visit_expression(one, depth)

    def _add_call(self, call: Call) -> None:
        name = call.path.text
        if name not in _OWN and name not in HELPERS:
            self.calls.setdefault(self._functions.get(name, name.replace("-", ".", 1)), call.at)

    def _visit_path(self, path: Path, depth: int) -> None:
        if path.text in self._functions or path.text in self._functions.values():
            self.calls.setdefault(self._functions.get(path.text, path.text), path.at)
        elif path.data and path.parts[:1] == ("root",) and len(path.parts) > 1:
            self._add_input(path.parts[1], path.at)
        elif not path.data and path.parts and path.up == depth:
            self._add_input(path.parts[0], path.at)

    def _add_input(self, name: str, at: int) -> None:
        if name not in self._own:
            self.names.setdefault(name.removeprefix("$"), at)


def is_straight(nodes: Sequence[Node]) -> bool:
    """Whether nodes show values as they are, and ask of them only whether they are empty."""
    return all(_is_straight(node) for node in nodes)


def _is_straight(node: Node) -> bool:
    if isinstance(node, Show):
        return _is_plain_output(node.expression)
    if not isinstance(node, Block):
        return True
    call, name = node.call, node.call.path.text
    if name in ("if", "unless"):
        plain = not call.named and all(_is_input(one) for one in call.given)
    else:
        plain = name in ("message", *ROLES) and _is_plain_output(call)
    return plain and not node.parameters and is_straight((*node.inside, *node.instead))


def _is_plain_output(expression: Expression) -> bool:
    if not isinstance(expression, Call):
        return isinstance(expression, Literal) or _is_input(expression)
    if expression.path.text not in ("message", *_PLACING, *ROLES):
        return False
    given = (*expression.given, *expression.named.values())
    return all(isinstance(one, Literal) or _is_input(one) for one in given)


def _is_input(expression: Expression) -> bool:
    if not isinstance(expression, Path) or expression.data or expression.up:
        return False
    return len(expression.parts) == 1 and expression.text not in (*HELPERS, "set", "get", "log")
