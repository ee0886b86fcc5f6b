"""Handlebars prompts, with Semantic Kernel's helpers; what they render knows who wrote it.

`{{#message role="user"}}` gives a message whose text is all that is inside. `{{#user}}`, and so any
other role, gives one that may have tags inside, as `<message role="user">` has.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError, ValidationError
from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja import VALUE, Value, named
from orchestrator.prompts.languages.base import Said, Thread
from orchestrator.prompts.languages.handlebars_helpers import HELPERS, told
from orchestrator.prompts.languages.handlebars_names import Names
from orchestrator.prompts.languages.handlebars_parser import Block, Node, Show, parse
from orchestrator.prompts.languages.handlebars_scanner import Call, Expression, Literal, Path, Text
from orchestrator.prompts.languages.handlebars_scope import MISSING, Context, Scope
from orchestrator.prompts.languages.message_tags import Hole, Markup
from orchestrator.prompts.languages.semantic_kernel_content import ROLES, Filling
from orchestrator.prompts.languages.semantic_kernel_rendering import Rendering
from orchestrator.prompts.languages.semantic_kernel_source import Source
from orchestrator.prompts.languages.semantic_kernel_values import (
    Functions,
    filling,
    origin_of,
    placed,
)
from orchestrator.prompts.work import ITEM, MOST_CHARS, STEP, Refused, Work

if TYPE_CHECKING:
    from orchestrator.prompts.languages.semantic_kernel import MessagesDocument

__all__ = ["Handlebars", "read"]


def read(
    text: str,
    source: str | None = None,
    *,
    strict: bool = True,
    functions: Functions | None = None,
    folder: FilePath | None = None,
    environ: Mapping[str, str] | None = None,
) -> MessagesDocument:
    """Reads a Handlebars prompt; see `semantic_kernel.read`.

    Raises:
        TemplateError: It is wrong, with its place.
    """
    from orchestrator.prompts.languages.semantic_kernel import read as read_any

    return read_any(text, source, format="handlebars", strict=strict, functions=functions)


class Handlebars:
    """A Handlebars template.

    Attributes:
        names: Its inputs and where each is used first, in this order.
        calls: The functions that it calls, and where each is called first.
        parts: Nothing: what it is made of is known when it is rendered.
        diagnostics: What is doubtful about it.
    """

    __slots__ = ("_nodes", "_source", "calls", "diagnostics", "names", "parts")

    def __init__(self, source: Source, functions: Sequence[str] = ()) -> None:
        """Reads a template.

        Args:
            source: The template.
            functions: The names of functions that it may call for sure.

        Raises:
            TemplateError: It is wrong, with its place.
        """
        self._source = source
        self._nodes = parse(source)
        found = Names(self._nodes, functions)
        self.names: Mapping[str, int] = found.names
        self.calls: Mapping[str, int] = found.calls
        self.parts = None
        self.diagnostics: Sequence[Diagnostic] = ()

    def render(self, rendering: Rendering) -> tuple[Sequence[Markup | Hole], Sequence[Filling]]:
        """What a rendering is made of, and what its holes are filled with.

        Raises:
            TemplateError: It cannot be rendered, with its place.
            ValidationError: A value is no plain data.
        """
        run = _Run(self._source, rendering)
        try:
            run.add(self._nodes)
        except Refused as refused:
            raise self._source.error(str(refused), run.at) from None
        return run.parts, run.fillings


class _Run:
    """One rendering."""

    def __init__(self, source: Source, rendering: Rendering) -> None:
        self.parts: list[Markup | Hole] = []
        self.fillings: list[Filling] = []
        self.at = 0
        self._source = source
        self._rendering = rendering
        root = {name: named(value, origin_of(name)) for name, value in rendering.inputs.items()}
        self._scope = Scope(root)
        self._inert = False  # inside of {{#message}}, where tags are text
        self._work = Work()
        self._chars = 0
        self._blocks: Mapping[str, Callable[[Block], None]] = {
            "if": lambda block: self._choose(block, self._one(block)),
            "unless": lambda block: self._choose(block, not self._one(block)),
            "each": self._each,
            "with": self._with,
            "message": self._message,
            **dict.fromkeys(ROLES, self._role),
        }
        self._helpers: Mapping[str, Callable[[Call], Any]] = {
            "set": self._set_name,
            "get": self._get_name,
            "log": lambda call: None,
        }

    def _error(self, message: str, at: int) -> TemplateError:
        return self._source.error(message, at)

    # What is put together.

    def add(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self.at = node.at
            self._work.spend(STEP)
            if isinstance(node, Text):
                self._add_text(node)
            elif isinstance(node, Show):
                self._show(node)
            else:
                self._block(node)

    def _add_text(self, text: Text) -> None:
        if self._inert:
            self._add(Filling([(AUTHOR, html.unescape(text.text))]), text.at)
        else:
            self._count(text.text)
            self.parts.append(Markup(text.text, text.at))

    def _count(self, text: str) -> None:
        self._work.spend(len(text))
        self._chars += len(text)
        if self._chars > MOST_CHARS:
            raise Refused(f"the text has more than {MOST_CHARS} characters")

    def _add(self, filled: Filling, at: int) -> None:
        self._work.spend(STEP)
        for _, text in filled.pieces or ():
            self._count(text)
        self.parts.append(Hole(len(self.fillings), at))
        self.fillings.append(filled)

    def _tag(self, text: str, at: int) -> None:
        self._work.spend(STEP)
        self._count(text)
        self.parts.append(Markup(text, at, made=True))

    def _show(self, node: Show) -> None:
        shown = node.expression
        if isinstance(shown, Literal):
            self._add(Filling([(AUTHOR, told(shown.value))], shown.value), node.at)
        elif isinstance(shown, Path | Call) and self._is_messages(shown):
            self._place(shown, node.at)
        elif _name_of(shown) == "message" and isinstance(shown, Call):
            raise self._error("write {{#message role=...}}...{{/message}}", node.at)
        else:
            self._add_value(self._value(shown, strict=True), node.at)

    def _add_value(self, value: Any, at: int) -> None:
        self._work.measure(value, data=False)
        if isinstance(value, bool):
            value = told(value)
        origin = value.origin if isinstance(value, Value) else VALUE
        if self._rendering.trusts_texts_of(origin) and not self._inert:
            self._tag(told(value), at)
            return
        self._add(filling(origin, value), at)

    def _is_messages(self, shown: Path | Call) -> bool:
        name = _name_of(shown)
        if name not in ("messages", "message_to_prompt", "messageToPrompt"):
            return False
        return isinstance(shown, Call) or self._scope.found(shown) is MISSING

    def _place(self, shown: Path | Call, at: int) -> None:
        """`{{messages history}}`, and `{{message_to_prompt}}` of the message that a loop is at."""
        given = shown.given if isinstance(shown, Call) else ()
        several = _name_of(shown) == "messages"
        if given:
            value, name = self._value(given[0]), _written(given[0])
        elif several:
            value, name = self._scope.inputs.get("chat_history"), "chat_history"
        else:
            value, name = self._scope.this, "this"
        self._work.measure(value, data=False)
        found = None if value is None or value == "" else placed(value, name)
        if found is not None:
            self._add(found, at)
        elif not several:
            self._add_value(value, at)
        elif value not in (None, ""):
            raise self._error(f"{name!r} is no list of messages", at)

    # Blocks.

    def _block(self, block: Block) -> None:
        name = block.call.path.text
        made = self._blocks.get(name)
        if made is not None and self._scope.found(block.call.path) is MISSING:
            made(block)
        elif block.call.given or block.call.named or name in HELPERS:
            self._choose(block, self._called(block.call))
        else:
            self._section(block, self._value(block.call.path))

    def _one(self, block: Block) -> Any:
        if len(block.call.given) != 1:
            raise self._error(f"{{{{#{block.call.path.text}}}}} takes one value", block.at)
        return self._value(block.call.given[0])

    def _choose(self, block: Block, value: Any) -> None:
        self.add(block.inside if value else block.instead)

    def _section(self, block: Block, value: Any) -> None:
        if isinstance(value, list | tuple) and value:
            self._loop(block, value)
        elif not value or value is True:
            self._choose(block, value)
        else:
            with self._scope.inside(Context(value)):
                self.add(block.inside)

    def _with(self, block: Block) -> None:
        value = self._one(block)
        if not value:
            self.add(block.instead)
            return
        names = dict(zip(block.parameters, [value], strict=False))
        with self._scope.inside(Context(value, names=names)):
            self.add(block.inside)

    def _each(self, block: Block) -> None:
        value = self._one(block)
        if isinstance(value, Thread):
            raise self._error(
                f"the messages of {value.name!r} are placed as a whole: {{{{messages "
                f"{value.name}}}}}",
                block.at,
            )
        if not value:
            self.add(block.instead)
        elif isinstance(value, Mapping | list | tuple):
            self._loop(block, value)
        else:
            raise self._error(f"{{{{#each}}}} of a {type(value).__name__}, no list", block.at)

    def _loop(self, block: Block, value: Any) -> None:
        keys = list(value) if isinstance(value, Mapping) else list(range(len(value)))
        for index, key in enumerate(keys):
            self._work.spend(ITEM)
            data = {"index": index, "key": key, "first": not index, "last": index + 1 == len(keys)}
            item = value[key]
            names = dict(zip(block.parameters, (item, key), strict=False))
            with self._scope.inside(Context(item, data, names)):
                self.add(block.inside)

    def _message(self, block: Block) -> None:
        this = self._scope.this
        if "role" not in block.call.named:
            found = placed(this, "this") if isinstance(this, Mapping | Said) else None
            if found is None:
                raise self._error('{{#message}} has no role: {{#message role="user"}}', block.at)
            self._add(found, block.at)
            return
        self._open(block, {name: one for name, one in block.call.named.items()})
        self._inert = True
        self.add(block.inside)
        self._inert = False
        self._tag("</message>", block.at)

    def _role(self, block: Block) -> None:
        # As the decision record renders it: `~` leaves one line break beside the tags.
        role = Literal(block.call.path.text, block.at)
        self._open(block, {"role": role, **block.call.named})
        if block.trimmed[0]:
            self._tag("\n", block.at)
        self.add(block.inside)
        self._tag("\n</message>" if block.trimmed[1] else "</message>", block.at)

    def _open(self, block: Block, attributes: Mapping[str, Expression]) -> None:
        if self._inert:
            raise self._error("a message in a message", block.at)
        self._tag("<message", block.at)
        for name, expression in attributes.items():
            value = self._value(expression)
            if value is None:
                continue
            self._tag(f' {name}="', block.at)
            if isinstance(expression, Literal):
                self._tag(escape(told(value), {'"': "&quot;"}), block.at)
            else:
                self._add_value(value, block.at)
            self._tag('"', block.at)
        self._tag(">", block.at)

    # Values.

    def _value(self, expression: Expression, *, strict: bool = False) -> Any:
        self._work.spend(STEP // 2)
        if isinstance(expression, Literal):
            return expression.value
        if isinstance(expression, Call):
            return self._called(expression)
        found = self._scope.found(expression)
        if found is not MISSING:
            return found
        if expression.text in self._helpers or expression.text in HELPERS:
            return self._called(Call(expression, (), {}, expression.at))
        if self._function(expression.text) is not None:
            return self._called(Call(expression, (), {}, expression.at))
        if not strict:
            return None
        further_out = expression.parts[:1] and expression.parts[0] in self._scope.inputs
        hint = f"; write ../{expression.text}, or @root.{expression.text}" if further_out else ""
        raise self._error(f"there is no {expression.text!r} here{hint}", expression.at)

    def _called(self, call: Call) -> Any:
        self._work.spend(STEP)
        name = call.path.text
        if name in self._helpers:
            return self._helpers[name](call)
        given = [self._argument(one) for one in call.given]
        if name in HELPERS:
            return self._helped(call, given)
        function = self._function(name)
        if function is not None or self._scope.found(call.path) is MISSING:
            arguments = {key: self._argument(one) for key, one in call.named.items()}
            shown = function or name
            result = self._rendering.caller.call(shown, call.at, given, arguments)
            return named(result, origin_of(shown))
        if given or call.named:
            raise self._error(f"{name!r} is a value and takes no arguments", call.at)
        return self._scope.found(call.path)

    def _argument(self, expression: Expression) -> Any:
        """What a helper or a function is given, and so looks at."""
        value = self._value(expression)
        self._work.measure(value, data=False)
        return value

    def _helped(self, call: Call, given: Sequence[Any]) -> Any:
        name = call.path.text
        if call.named:
            raise self._error(f"{name!r} takes no arguments by name", call.at)
        try:
            made = HELPERS[name](*given)
            self._work.spend(len(made) if isinstance(made, str | list) else 0)
            return made
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self._error(f"{name!r} failed: {error}", call.at) from None
        except ValidationError as error:
            raise self._error(f"{name!r} failed: {error.message}", call.at) from None

    def _function(self, name: str) -> str | None:
        """The function that a name means: `plugin-function`, or as it was given."""
        dotted = name.replace("-", ".", 1)
        return next((it for it in (name, dotted) if self._rendering.caller.has(it)), None)

    def _set_name(self, call: Call) -> None:
        given = [self._value(one) for one in call.given]
        if {"name", "value"} <= set(call.named):
            given = [self._value(call.named["name"]), self._value(call.named["value"])]
        if len(given) != 2 or not isinstance(given[0], str):
            raise self._error("set takes a name and a value: {{set 'name' value}}", call.at)
        self._scope.set(str(given[0]), given[1])

    def _get_name(self, call: Call) -> Any:
        name = str(self._value(call.given[0])) if call.given else ""
        found = self._scope.found(Path((name,), 0, False, call.at, name))
        return "" if found is MISSING else found


def _name_of(expression: Expression) -> str:
    if isinstance(expression, Call):
        return expression.path.text
    return expression.text if isinstance(expression, Path) else ""


def _written(expression: Expression) -> str:
    return _name_of(expression).removeprefix("$") or "messages"
