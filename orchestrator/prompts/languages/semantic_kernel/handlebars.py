"""Handlebars prompts with Semantic Kernel's helpers.

`{{#message role="user"}}` gives a message whose text is all that is inside. `{{#user}}`, and so any
other role, gives one that may have tags inside, as `<message role="user">` has.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja_pieces import VALUE, Value, tag_origin
from orchestrator.prompts.languages.base import RenderedMessage, Thread, origin_of
from orchestrator.prompts.languages.semantic_kernel.content import ROLES, Filling
from orchestrator.prompts.languages.semantic_kernel.engine import Engine, MessageCalls, Rendering
from orchestrator.prompts.languages.semantic_kernel.handlebars_grammar import (
    Block,
    Call,
    Expression,
    Literal,
    Node,
    Path,
    Show,
    Text,
    parse,
)
from orchestrator.prompts.languages.semantic_kernel.handlebars_names import (
    MISSING,
    PLACING,
    Context,
    Evaluator,
    Names,
    Scope,
    is_straight,
)
from orchestrator.prompts.languages.semantic_kernel.tags import Hole, Markup
from orchestrator.prompts.languages.semantic_kernel.values import (
    HELPERS,
    fill_messages,
    fill_value,
    format_value,
)
from orchestrator.prompts.source import Source
from orchestrator.prompts.work import ITEM, STEP, Refused, Work


class Handlebars(Engine):
    """A Handlebars template."""

    def __init__(self, source: Source, functions: Sequence[str] = ()) -> None:
        """Reads a template, which may call these functions for sure."""
        self._source = source
        self._nodes = parse(source)
        found = Names(self._nodes, functions)
        self.names = found.names
        self.calls = found.calls
        self.straight = not found.calls and is_straight(self._nodes)

    def render(self, rendering: Rendering) -> tuple[Sequence[Markup | Hole], Sequence[Filling]]:
        """See `Engine.render`."""
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
        inputs = rendering.inputs.items()
        rendering.shown = {name: tag_origin(value, origin_of(name)) for name, value in inputs}
        self._scope = Scope(dict(rendering.shown))
        self._work = Work()
        self._values = Evaluator(source, rendering, self._scope, self._work)
        # Inside of `{{#message}}` tags are text.
        self._inert = False
        self._message_calls = MessageCalls(source)
        self._blocks: Mapping[str, Callable[[Block], None]] = {
            "if": lambda block: self._choose(block, self._evaluate_single(block)),
            "unless": lambda block: self._choose(block, not self._evaluate_single(block)),
            "each": self._each,
            "with": self._with,
            "message": self._message,
            **dict.fromkeys(ROLES, self._role),
        }

    def add(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self.at = node.at
            self._work.spend(STEP)
            if isinstance(node, Text):
                self._add_text(node)
            elif isinstance(node, Show):
                self._add_expression(node)
            else:
                self._block(node)

    def _add_text(self, text: Text) -> None:
        if self._inert:
            self._add(Filling([(AUTHOR, html.unescape(text.text))]), text.at)
        else:
            self._work.count_output(text.text)
            self.parts.append(Markup(text.text, text.at))

    def _add(self, filled: Filling, at: int) -> None:
        self._work.spend(STEP)
        for _, text in filled.pieces or ():
            self._work.count_output(text)
        self.parts.append(Hole(len(self.fillings), at))
        self.fillings.append(filled)

    def _add_tag(self, text: str, at: int) -> None:
        self._work.spend(STEP)
        self._work.count_output(text)
        self.parts.append(Markup(text, at, made=True))

    def _add_expression(self, node: Show) -> None:
        shown, name = node.expression, _get_name(node.expression)
        if isinstance(shown, Literal):
            self._add(Filling([(AUTHOR, format_value(shown.value))], shown.value), node.at)
        elif name in PLACING and self._is_helper(shown):
            self._add_messages(shown, node.at)
        elif name == "message" and self._is_helper(shown) and name not in self._rendering.functions:
            self._add_message_mark(shown, node.at)
        else:
            self._add_value(self._values.evaluate_shown(shown), node.at, name)

    def _is_helper(self, shown: Path | Call) -> bool:
        return isinstance(shown, Call) or self._scope.look_up(shown) is MISSING

    def _add_value(self, value: Any, at: int, name: str = "") -> None:
        self._work.measure(value, data=False)
        if isinstance(value, bool):
            value = format_value(value)
        origin = value.origin if isinstance(value, Value) else VALUE
        if self._rendering.trusts_texts_of(origin) and not self._inert:
            self._add_tag(format_value(value), at)
            return
        structured = isinstance(value, list | tuple | Mapping)
        trusted = structured and self._rendering.trusts_value(value)
        self._add(fill_value(name if structured else origin, value, trusted=trusted), at)

    def _add_messages(self, shown: Path | Call, at: int) -> None:
        """`{{messages history}}`, and `{{message_to_prompt}}` of the message that a loop is at."""
        arguments = shown.arguments if isinstance(shown, Call) else ()
        several = _get_name(shown) == "messages"
        if arguments:
            value = self._values.evaluate(arguments[0])
            name = _get_name(arguments[0]).removeprefix("$") or "messages"
        elif several:
            value, name = self._scope.inputs.get("chat_history"), "chat_history"
        else:
            value, name = self._scope.this, "this"
        self._work.measure(value, data=False)
        trusted = self._rendering.trusts_value(value)
        given = value not in (None, "")
        filling = fill_messages(value, name, trusted=trusted) if given else None
        if filling is not None:
            self._add(filling, at)
        elif not several:
            self._add_value(value, at)
        elif value not in (None, ""):
            raise self._source.error(f"{name!r} is no list of messages", at)

    def _add_message_mark(self, shown: Path | Call, at: int) -> None:
        """`{{message role="user"}}`: the beginning of a message, and then its end."""
        attributes = shown.named if isinstance(shown, Call) else {}
        role = attributes.get("role", Literal("", at))
        written = format_value(role.value) if isinstance(role, Literal) else f"${_get_name(role)}"
        arguments = isinstance(shown, Call) and bool(shown.arguments)
        if self._message_calls.begins_message(written, at, arguments=arguments):
            self._open_message(at, attributes)
        else:
            self._add_tag("</message>", at)

    def _block(self, block: Block) -> None:
        name = block.call.path.text
        add_block = self._blocks.get(name)
        if add_block is not None and self._scope.look_up(block.call.path) is MISSING:
            add_block(block)
        elif block.call.arguments or block.call.named or name in HELPERS:
            self._choose(block, self._values.call(block.call))
        else:
            self._section(block, self._values.evaluate(block.call.path))

    def _evaluate_single(self, block: Block) -> Any:
        if len(block.call.arguments) != 1:
            raise self._source.error(f"{{{{#{block.call.path.text}}}}} takes one value", block.at)
        return self._values.evaluate(block.call.arguments[0])

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
        value = self._evaluate_single(block)
        if not value:
            self.add(block.instead)
            return
        names = dict(zip(block.parameters, [value], strict=False))
        with self._scope.inside(Context(value, names=names)):
            self.add(block.inside)

    def _each(self, block: Block) -> None:
        value = self._evaluate_single(block)
        if isinstance(value, Thread):
            message = f"the messages of {value.name!r} are placed as a whole"
            raise self._source.error(f"{message}: {{{{messages {value.name}}}}}", block.at)
        if not value:
            self.add(block.instead)
        elif isinstance(value, Mapping | list | tuple):
            self._loop(block, value)
        else:
            what = "text" if isinstance(value, str) else type(value).__name__
            raise self._source.error(f"{{{{#each}}}} of a {what}, no list", block.at)

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
            is_message = isinstance(this, Mapping | RenderedMessage)
            trusted = self._rendering.trusts_value(this)
            filling = fill_messages(this, "this", trusted=trusted) if is_message else None
            if filling is None:
                wanted = '{{#message}} has no role: {{#message role="user"}}'
                raise self._source.error(wanted, block.at)
            self._add(filling, block.at)
            return
        self._open_message(block.at, block.call.named)
        self._inert = True
        self.add(block.inside)
        self._inert = False
        self._add_tag("</message>", block.at)

    def _role(self, block: Block) -> None:
        # As Semantic Kernel's decision record renders it: `~` leaves a line break beside the tags.
        role = Literal(block.call.path.text, block.at)
        self._open_message(block.at, {"role": role, **block.call.named})
        if block.trimmed[0]:
            self._add_tag("\n", block.at)
        self.add(block.inside)
        self._add_tag("\n</message>" if block.trimmed[1] else "</message>", block.at)

    def _open_message(self, at: int, attributes: Mapping[str, Expression]) -> None:
        if self._inert:
            raise self._source.error("a message in a message", at)
        self._add_tag("<message", at)
        for name, expression in attributes.items():
            value = self._values.evaluate(expression)
            if value is None:
                continue
            self._add_tag(f' {name}="', at)
            if isinstance(expression, Literal):
                self._add_tag(escape(format_value(value), {'"': "&quot;"}), at)
            else:
                self._add_value(value, at)
            self._add_tag('"', at)
        self._add_tag(">", at)


def _get_name(expression: Expression) -> str:
    if isinstance(expression, Call):
        return expression.path.text
    return expression.text if isinstance(expression, Path) else ""
