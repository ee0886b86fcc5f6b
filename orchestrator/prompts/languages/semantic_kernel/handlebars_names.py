"""Names in a Handlebars template: the inputs and functions it names, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.prompts.jinja_pieces import tag_origin
from orchestrator.prompts.languages.base import origin_of
from orchestrator.prompts.languages.semantic_kernel.content import ROLES
from orchestrator.prompts.languages.semantic_kernel.engine import Rendering
from orchestrator.prompts.languages.semantic_kernel.handlebars_grammar import (
    Block,
    Call,
    Expression,
    Literal,
    Node,
    Path,
    Show,
)
from orchestrator.prompts.languages.semantic_kernel.values import HELPERS
from orchestrator.prompts.source import Source
from orchestrator.prompts.work import STEP, Work

# Helpers that place messages.
PLACING = ("messages", "message_to_prompt", "messageToPrompt")
_OWN = frozenset(
    {"set", "get", "log", "if", "unless", "each", "with", "message", "else", *PLACING, *ROLES}
)
# Inside of these a name is a member of something else, and an input only with `../`.
_CHANGING_CONTEXT = ("each", "with")


class Names:
    """The inputs and functions that a template names, and where each is named first."""

    def __init__(self, nodes: Sequence[Node], functions: Collection[str]) -> None:
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
        elif not (isinstance(shown, Path) and shown.text in (*PLACING, *HELPERS)):
            self._visit_expression(shown, depth)

    def _visit_block(self, block: Block, depth: int) -> None:
        call, name = block.call, block.call.path.text
        if name in _OWN or name in HELPERS or call.arguments or call.named:
            self._visit_arguments(call, depth)
            inner = depth + (name in _CHANGING_CONTEXT)
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
        if name == "set" and call.arguments and isinstance(call.arguments[0], Literal):
            self._own.add(str(call.arguments[0].value))
        elif name == "set" and isinstance(call.named.get("name"), Literal):
            self._own.add(str(getattr(call.named["name"], "value", "")))
        elif name == "get" and call.arguments and isinstance(call.arguments[0], Literal):
            self._add_input(str(call.arguments[0].value), call.at)
        for one in (*call.arguments, *call.named.values()):
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
    for node in nodes:
        if isinstance(node, Show) and not _is_plain_output(node.expression):
            return False
        if isinstance(node, Block) and not _is_straight_block(node):
            return False
    return True


def _is_straight_block(block: Block) -> bool:
    call, name = block.call, block.call.path.text
    if name in ("if", "unless"):
        plain = not call.named and all(_is_input(one) for one in call.arguments)
    else:
        plain = name in ("message", *ROLES) and _is_plain_output(call)
    return plain and not block.parameters and is_straight((*block.inside, *block.instead))


def _is_plain_output(expression: Expression) -> bool:
    if not isinstance(expression, Call):
        return isinstance(expression, Literal) or _is_input(expression)
    if expression.path.text not in ("message", *PLACING, *ROLES):
        return False
    arguments = (*expression.arguments, *expression.named.values())
    return all(isinstance(one, Literal) or _is_input(one) for one in arguments)


def _is_input(expression: Expression) -> bool:
    if not isinstance(expression, Path) or expression.data or expression.up:
        return False
    return len(expression.parts) == 1 and expression.text not in (*HELPERS, "set", "get", "log")


# Nothing is at this path: not the same as a value `None`.
MISSING = object()


@dataclass(slots=True)
class Context:
    """The value `this` that names are looked up in, with what a block adds to it."""

    this: Any
    data: Mapping[str, Any] = field(default_factory=dict)  # of a loop: `@index`
    names: Mapping[str, Any] = field(default_factory=dict)  # of `as |item index|`


class Scope:
    """Where names are looked up: the innermost context, and what the template has set."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self._contexts = [Context(inputs)]
        self._set: dict[str, Any] = {}

    @property
    def this(self) -> Any:
        """The innermost context."""
        return self._contexts[-1].this

    @property
    def inputs(self) -> dict[str, Any]:
        """The outermost context."""
        inputs: dict[str, Any] = self._contexts[0].this
        return inputs

    @contextmanager
    def inside(self, context: Context) -> Iterator[None]:
        """Looks names up in another context for a while."""
        self._contexts.append(context)
        try:
            yield
        finally:
            self._contexts.pop()

    def set(self, name: str, value: Any) -> None:
        """Gives a name a value, for the rest of the template."""
        self._set[name] = value
        if name in self.inputs:
            self.inputs[name] = value

    def look_up(self, path: Path) -> Any:
        """The value at a path, or `MISSING`."""
        if path.up >= len(self._contexts):
            return MISSING
        context = self._contexts[-1 - path.up]
        if path.data:
            data = {"root": self._contexts[0].this, **context.data}
            return _look_up_parts(data, path.parts) if path.parts else MISSING
        if not path.parts:
            return context.this
        first, *others = path.parts
        if first in context.names and not path.up:
            return _look_up_parts(context.names[first], others)
        found = _look_up_parts(context.this, (first,))
        if found is MISSING and not path.up:
            found = self._set.get(first, MISSING)
        if found is MISSING and first.startswith("$"):
            # Semantic Kernel's own language writes inputs so, and its Handlebars takes both.
            found = _look_up_parts(context.this, (first[1:],))
        return found if found is MISSING else _look_up_parts(found, others)


def _look_up_parts(value: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


class Evaluator:
    """Looks values up, and calls helpers and functions, in one rendering."""

    def __init__(self, source: Source, rendering: Rendering, scope: Scope, work: Work) -> None:
        self._source = source
        self._rendering = rendering
        self._scope = scope
        self._work = work
        self._helpers: Mapping[str, Callable[[Call], Any]] = {
            "set": self._set,
            "get": self._get,
            "log": lambda call: None,
        }

    def evaluate(self, expression: Expression) -> Any:
        """The value of an expression; `None` where there is nothing of the name."""
        found = self._find_value(expression)
        return None if found is MISSING else found

    def evaluate_shown(self, expression: Expression) -> Any:
        """The same, of an expression that is shown: there must be something of the name."""
        found = self._find_value(expression)
        if found is not MISSING or not isinstance(expression, Path):
            return None if found is MISSING else found
        plain = bool(expression.parts) and not (expression.up or expression.data)
        outside = plain and self._scope.this is not self._scope.inputs
        further_out = outside and expression.parts[0] in self._scope.inputs
        hint = f"; write ../{expression.text}, or @root.{expression.text}" if further_out else ""
        raise self._source.error(f"there is no {expression.text!r} here{hint}", expression.at)

    def _find_value(self, expression: Expression) -> Any:
        self._work.spend(STEP // 2)
        if isinstance(expression, Literal):
            return expression.value
        if isinstance(expression, Call):
            return self.call(expression)
        found = self._scope.look_up(expression)
        if found is not MISSING:
            return found
        name = expression.text
        if name in self._helpers or name in HELPERS or self._find_function(name) is not None:
            return self.call(Call(expression, (), {}, expression.at))
        return MISSING

    def call(self, call: Call) -> Any:
        """The result of a helper or a function."""
        self._work.spend(STEP)
        name = call.path.text
        if name in self._helpers:
            return self._helpers[name](call)
        arguments = [self._evaluate_argument(one) for one in call.arguments]
        if name in HELPERS:
            return self._call_helper(call, arguments)
        function = self._find_function(name)
        if function is not None or self._scope.look_up(call.path) is MISSING:
            named = {key: self._evaluate_argument(one) for key, one in call.named.items()}
            shown = function or name
            result = self._rendering.call(shown, call.at, arguments, named)
            return tag_origin(result, origin_of(shown))
        if arguments or call.named:
            raise self._source.error(f"{name!r} is a value and takes no arguments", call.at)
        return self._scope.look_up(call.path)

    def _evaluate_argument(self, expression: Expression) -> Any:
        # A helper may look at all of it, so its size counts.
        value = self.evaluate(expression)
        self._work.measure(value, data=False)
        return value

    def _call_helper(self, call: Call, arguments: Sequence[Any]) -> Any:
        name = call.path.text
        if call.named:
            raise self._source.error(f"{name!r} takes no arguments by name", call.at)
        try:
            made = HELPERS[name](*arguments)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self._source.error(f"{name!r} failed: {error}", call.at) from None
        except ValidationError as error:
            raise self._source.error(f"{name!r} failed: {error.message}", call.at) from None
        self._work.spend(len(made) if isinstance(made, str | list) else 0)
        return made

    def _find_function(self, name: str) -> str | None:
        """The function that a name means: `plugin-function`, or its whole name."""
        dotted = name.replace("-", ".", 1)
        return next((it for it in (name, dotted) if it in self._rendering.functions), None)

    def _set(self, call: Call) -> None:
        arguments = [self.evaluate(one) for one in call.arguments]
        if {"name", "value"} <= set(call.named):
            arguments = [self.evaluate(call.named["name"]), self.evaluate(call.named["value"])]
        if len(arguments) != 2 or not isinstance(arguments[0], str):
            raise self._source.error("set takes a name and a value: {{set 'name' value}}", call.at)
        self._scope.set(str(arguments[0]), arguments[1])

    def _get(self, call: Call) -> Any:
        name = str(self.evaluate(call.arguments[0])) if call.arguments else ""
        found = self._scope.look_up(Path((name,), 0, False, call.at, name))
        return "" if found is MISSING else found
