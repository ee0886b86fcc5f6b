"""Jinja2 prompts with Semantic Kernel's helpers; what they render knows who wrote it.

`message(item)` gives one message and `messages(history)` a list of them, `<message>` tags are the
author's. Jinja2 itself is `orchestrator.prompts.jinja`: sandboxed, and bounded in time and size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import takewhile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from jinja2 import Undefined, nodes
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.nodes import Call

from orchestrator.errors import TemplateError, ValidationError
from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja import Jinja
from orchestrator.prompts.jinja_files import IncludedFiles
from orchestrator.prompts.jinja_limits import get_work
from orchestrator.prompts.jinja_pieces import VALUE, Value, tag_origin
from orchestrator.prompts.languages.base import RenderedMessage, Thread, first_uses, origin_of
from orchestrator.prompts.languages.semantic_kernel.content import Filling
from orchestrator.prompts.languages.semantic_kernel.engine import Engine, MessageCalls, Rendering
from orchestrator.prompts.languages.semantic_kernel.tags import Hole, Markup
from orchestrator.prompts.languages.semantic_kernel.values import (
    HELPERS,
    fill_messages,
    text_of,
    to_messages,
)
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.mistakes import Mistake
from orchestrator.prompts.source import Source
from orchestrator.prompts.work import STEP

# Semantic Kernel: `JINJA2_SYSTEM_HELPERS`. The shared ones only look at their arguments.
_SHARED = (
    *("array", "double_open", "double_close", "camel_case", "snake_case"),
    *("doubleOpen", "doubleClose", "camelCase", "snakeCase"),
)
_OWN = {
    "message": "_message",
    "messages": "_messages",
    "message_to_prompt": "_message_to_prompt",
    "messageToPrompt": "_message_to_prompt",
    "get": "_get",
}
_PLACE = "place_of_text"
_PLACE_CALLS = (_PLACE, "message", "messages")
_CAPTURES = {
    **dict.fromkeys(("macro", "call", "filter"), 1),
    **dict.fromkeys(("endmacro", "endcall", "endfilter", "endset"), -1),
}


class _Mark(str):
    """The origin of what is no value: an author's text with its place, a tag, or messages."""

    __slots__ = ("what",)
    what: int | str | Filling


_running: ContextVar[_Run] = ContextVar("running")


def _make_mark(what: int | str | Filling) -> Value:
    mark = _Mark("mark")
    mark.what = what
    # A text, so that it is true in a condition; as a space it does no harm where the mark is lost.
    value = Value(" ")
    value.origin = mark
    return value


class _Environment(Jinja):
    """Jinja2 whose renderings know where the author's texts stand, and where messages go."""

    def __init__(self, source: Source, folder: Path | None) -> None:
        super().__init__(finalize=_format_value, extensions=[_PlaceExtension])
        self.source = source
        self.files = IncludedFiles(folder)
        self.globals[_PLACE] = _make_mark
        # Values cannot be tags, so they need no encoding.
        for name in ("e", "escape", "forceescape", "safe"):
            self.filters[name] = lambda value: value
        self.filters["tojson"] = _to_json

    def _finalize_value(self, value: Any) -> Any:
        if isinstance(value, list | tuple) and value:
            get_work().measure(value, data=False)
            found = to_messages(value, "messages")
            if found is not None:
                trusted = _running.get().trusts(value)
                pieces = [(VALUE, text_of(value))]
                value = _make_mark(Filling(pieces, value, found, placed=trusted, trusted=trusted))
        return super()._finalize_value(value)


def _to_json(value: Any, indent: int | None = None) -> str:
    get_work().measure(value)
    return json.dumps(value, ensure_ascii=False, indent=indent if indent in range(9) else None)


def _format_value(value: Any) -> str:
    if isinstance(value, Value) and isinstance(value.origin, _Mark):
        return " "
    return "" if isinstance(value, Undefined) else text_of(value)


class _PlaceExtension(Extension):
    """Puts a call with its place before each text that may have tags, for errors."""

    # A text that a template captures in a variable or changes with a filter has no such call: the
    # captured text must be exactly what the author wrote.
    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """The tokens of a template, with a call before each such text."""
        if stream.name is not None:  # a file's texts are where the template includes it
            yield from stream
            return
        source: Source = self.environment.source  # type: ignore[attr-defined]
        last = captures = 0
        tokens = list(stream)
        for index, token in enumerate(tokens):
            if token.type == "data":
                line = source.offset(token.lineno)
                found = source.text.find(token.value, max(line, last))
                last = last if found < 0 else found + len(token.value)
                if not captures and ("<" in token.value or "&" in token.value):
                    yield from _emit_place(token.lineno, line if found < 0 else found)
            elif token.type == "block_begin":
                captures += _get_capture_delta(tokens[index + 1 : index + 200])
            yield token


def _emit_place(line: int, at: int) -> Iterator[Token]:
    yield Token(line, "variable_begin", "{{")
    yield Token(line, "name", _PLACE)
    yield Token(line, "lparen", "(")
    yield Token(line, "integer", at)  # type: ignore[arg-type]
    yield Token(line, "rparen", ")")
    yield Token(line, "variable_end", "}}")


def _get_capture_delta(tokens: Sequence[Token]) -> int:
    """Whether a tag begins (1) or ends (-1) a text that is captured."""
    name = tokens[0].value if tokens else ""
    if name == "set":
        within = takewhile(lambda token: token.type != "block_end", tokens)
        return int(all(token.type != "assign" for token in within))
    return _CAPTURES.get(name, 0)


class Jinja2Prompts(Engine):
    """A Jinja2 template."""

    def __init__(
        self, source: Source, functions: Sequence[str] = (), folder: Path | None = None
    ) -> None:
        """Reads a template, which may call these functions for sure, and files of this folder."""
        self._source = source
        environment = _Environment(source, folder)
        try:
            tree = environment.parse_template(source.text)
            called = dict(_find_calls(environment, tree, source))
            for name, at in called.items():
                shared = HELPERS[name] if name in _SHARED else None
                environment.globals[name] = shared or _make_helper(name, at)
            self._compiled = environment.compile_template(tree, calls=_PLACE_CALLS)
        except Mistake as mistake:
            raise _make_error(mistake, source) from None
        self.names = dict(self._inputs())
        spelled = {_to_identifier(name): name for name in functions}
        self.calls = {
            spelled.get(name, name): at
            for name, at in called.items()
            if name not in _OWN and name not in _SHARED
        }
        self.straight = self._compiled.straight

    def _inputs(self) -> Iterator[tuple[str, int]]:
        names = self._compiled.names
        places = first_uses(self._source.text, names)
        for name, (line, column) in places.items():
            yield name, self._source.offset(line) + column - 1
        yield from ((name, 0) for name in sorted(names - places.keys()))

    def render(self, rendering: Rendering) -> tuple[Sequence[Markup | Hole], Sequence[Filling]]:
        """See `Engine.render`."""
        run = _Run(self._source, rendering)
        token = _running.set(run)
        try:
            pieces = self._compiled.pieces(run.values(self._compiled.names))
        except Mistake as mistake:
            if isinstance(mistake.__cause__, TemplateError | ValidationError):
                raise mistake.__cause__ from None
            raise _make_error(mistake, self._source) from mistake.__cause__
        finally:
            _running.reset(token)
        for piece in pieces:
            run.add(piece)
        return run.parts, run.fillings


def _make_error(mistake: Mistake, source: Source) -> TemplateError:
    if mistake.file is not None:
        return TemplateError(mistake.message, file=mistake.file, line=mistake.line, column=1)
    return source.error(mistake.message, source.offset(mistake.line))


def _find_calls(
    environment: _Environment, tree: nodes.Template, source: Source
) -> Iterator[tuple[str, int]]:
    """The names that a template calls and does not define, and where each is called first."""
    names = environment.find_undeclared(tree)
    calls = [
        (one, it.line) for it in environment.files.found.values() for one in it.tree.find_all(Call)
    ]
    calls += [(one, one.lineno) for one in reversed(list(tree.find_all(Call)))]
    for one, line in calls:
        called = one.node
        if isinstance(called, nodes.Name) and called.name in names:
            yield called.name, source.offset(line)


def _make_helper(name: str, at: int) -> Callable[..., Any]:
    """What a name calls, in the rendering that goes on."""
    return lambda *arguments, **named: _running.get().call(name, at, arguments, named)


class _Run:
    """One rendering."""

    def __init__(self, source: Source, rendering: Rendering) -> None:
        self.parts: list[Markup | Hole] = []
        self.fillings: list[Filling] = []
        self._source = source
        self._rendering = rendering
        self._message_calls = MessageCalls(source, '{{ message(role="user") }}')
        self._called_at = 0
        self._at = 0
        self._exact = False  # the author's next text stands at `_at`
        self.trusts = rendering.trusts_value

    def values(self, names: Collection[str]) -> dict[str, Any]:
        """The values of the rendering."""
        inputs = self._rendering.inputs
        shown = {name: self._input(name, inputs[name]) for name in names if name in inputs}
        self._rendering.shown = shown
        return shown

    def _input(self, name: str, value: Any) -> Any:
        items = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(one, RenderedMessage | Thread) for one in items):
            trusted = self._rendering.trusts(name)
            found = to_messages(value, name)
            return _make_mark(Filling(None, value, found, name, placed=True, trusted=trusted))
        return tag_origin(value, origin_of(name))

    def call(self, name: str, at: int, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The result of a function of the caller, or of a helper."""
        get_work().spend(3 * STEP)  # for the message that may come of it
        functions = self._rendering.functions
        function = next((it for it in functions if _to_identifier(it) == name), name)
        if name in _OWN and function not in functions:
            self._called_at = at
            try:
                return getattr(self, _OWN[name])(*arguments, **named)
            except ValueError as error:
                raise self._source.error(str(error), at) from None
        result = self._rendering.call(function, at, arguments, named)
        return tag_origin(result, origin_of(function))

    def _message(self, item: Any = None, **attributes: Any) -> Value:
        if item is not None:
            return self._place(item, "message", one=True)
        role = str(attributes.get("role", ""))
        if not self._message_calls.begins_message(role, self._called_at):
            return _make_mark("</message>")
        if not all(type(one) is str for one in attributes.values()):
            raise ValueError("the attributes of message(role=...) are the author's texts")
        written = [f" {name}={quoteattr(one)}" for name, one in attributes.items()]
        return _make_mark(f"<message{''.join(written)}>")

    def _messages(self, history: Any = None) -> Value:
        if history is None or isinstance(history, Undefined) or history == "":
            return _make_mark(Filling((), None, ()))
        return self._place(history, "messages")

    def _message_to_prompt(self, item: Any) -> Any:
        try:
            return self._place(item, "message_to_prompt", one=True)
        except ValueError:
            return item

    def _place(self, value: Any, helper: str, one: bool = False) -> Value:
        if isinstance(value, Value) and isinstance(value.origin, _Mark):
            return value
        found = fill_messages(value, helper, trusted=self.trusts(value))
        if found is None:
            raise ValueError(f"{helper}() is given no {'message' if one else 'list of messages'}")
        return _make_mark(found)

    def _get(self, context: Any = None, name: Any = None, default: Any = "") -> Any:
        return context.get(name, default) if isinstance(context, Mapping) else default

    def add(self, piece: Piece) -> None:
        """Adds a piece of the rendering."""
        origin, text = piece
        mark = origin.what if isinstance(origin, _Mark) else None
        if isinstance(mark, int):
            self._at, self._exact = mark, True
        elif isinstance(mark, str):
            self.parts.append(Markup(mark, self._at, made=True))
        elif mark is not None:
            self._add(mark)
        elif origin == AUTHOR:
            self.parts.append(Markup(text, self._at, made=not self._exact))
            self._exact = False
        elif self._rendering.trusts_texts_of(origin):
            self.parts.append(Markup(text, self._at, made=True))
        else:
            self._add(Filling([(origin, text)], text))

    def _add(self, filled: Filling) -> None:
        self.parts.append(Hole(len(self.fillings), self._at))
        self.fillings.append(filled)


def _to_identifier(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")
