"""Semantic Kernel's own template language: `{{$variable}}`, `{{'value'}}` and calls.

The grammar is small, and no Python library of its own has it: text, and blocks of one variable, one
value or one call. There are no loops and no conditions, so what the tags of such a template are is
known before any value is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from orchestrator.diagnostics import Diagnostic
from orchestrator.prompts.languages.semantic_kernel.content import Filling
from orchestrator.prompts.languages.semantic_kernel.engine import Engine, MessageCalls, Rendering
from orchestrator.prompts.languages.semantic_kernel.tags import Hole, Markup
from orchestrator.prompts.languages.semantic_kernel.values import fill_value, text_of
from orchestrator.prompts.source import Source
from orchestrator.prompts.work import MOST_CHARS

_SHORTEST = len("{{$}}")
_WORD = "[0-9A-Za-z_]+"
_QUOTED = r"'(?:\\['\"\\]|\\(?!['\"\\])|[^'\\])*'|" r'"(?:\\[\'"\\]|\\(?![\'"\\])|[^"\\])*"'
_EVENT = re.compile(r"\{(?=\{)|\}\}|['\"]")
_VALUE = re.compile(_QUOTED, re.DOTALL)
_TOKEN = re.compile(
    rf"(?:\$(?P<variable>{_WORD})|(?P<value>{_QUOTED})"
    rf"|(?P<name>{_WORD})=(?:\$(?P<named>{_WORD})|(?P<named_value>{_QUOTED}))"
    rf"|(?P<function>(?:{_WORD}\.)?{_WORD}))(?:\s+|\Z)",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(['\"\\])")


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    at: int
    arguments: Sequence[str | _Variable]
    named: dict[str, str | _Variable]


_Node = str | _Variable | _Call


class Blocks(Engine):
    """A template in Semantic Kernel's language."""

    def __init__(self, source: Source, functions: Sequence[str] = ()) -> None:
        """Reads a template, which may call these functions for sure."""
        self._source = source
        self._message_calls = MessageCalls(source)
        self.names: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.diagnostics: list[Diagnostic] = []
        self._filled: list[_Variable | _Call] = []
        parts: list[Markup | Hole] = []
        for start, end, content in _split(source.text):
            if not content:
                parts.append(Markup(source.text[start:end], start))
                continue
            node = self._parse_node(content, start + source.text[start:end].index(content))
            if isinstance(node, str):
                parts.append(Markup(node, start, made=True))
            elif isinstance(node, _Call) and node.name == "message" and "message" not in functions:
                parts += self._build_message_tag(node)
            else:
                parts.append(self._add_hole(node, start))
        self.parts: Sequence[Markup | Hole] = parts
        self.straight = not self.calls

    def _add_hole(self, node: _Variable | _Call, at: int) -> Hole:
        self._filled.append(node)
        arguments: list[str | _Variable] = []
        if isinstance(node, _Call):
            self.calls.setdefault(node.name, node.at)
            arguments = [*node.arguments, *node.named.values()]
        else:
            arguments = [node]
        for one in arguments:
            if isinstance(one, _Variable):
                self.names.setdefault(one.name, one.at)
        return Hole(len(self._filled) - 1, at)

    def _parse_node(self, content: str, at: int) -> _Node:
        tokens: list[re.Match[str]] = []
        position = 0
        while position < len(content):
            token = _TOKEN.match(content, position)
            if token is None:
                raise self._source.error(
                    f"{content[position : position + 24]!r} is no part of a block: write "
                    "{{$name}}, {{'text'}} or {{plugin.function $first name='text'}}, with names "
                    "of letters, digits and '_'",
                    at + position,
                )
            tokens.append(token)
            position = token.end()
        first, *others = tokens
        if first["variable"] or first["value"]:
            self._note_ignored_tokens(others, at)
            return _parse_argument(first, at)
        if first["name"]:
            raise self._source.error("a block begins with a function, a variable or a value", at)
        return self._parse_call(first["function"], others, at)

    def _note_ignored_tokens(self, others: Sequence[re.Match[str]], at: int) -> None:
        for one in others:
            place = at + one.start()
            # Semantic Kernel's tokenizer fails with a last word of one letter.
            if one is others[-1] and len(one[0].strip()) == 1:
                raise self._source.error(f"{one[0].strip()!r} follows a variable or a value", place)
            message = f"{one[0].strip()} is ignored: a block has one variable or one value"
            self.diagnostics.append(
                self._source.warn("ignored-token", message, place, "write a block for each")
            )

    def _parse_call(self, name: str, others: Sequence[re.Match[str]], at: int) -> _Call:
        arguments: list[str | _Variable] = []
        named: dict[str, str | _Variable] = {}
        for index, one in enumerate(others):
            if one["name"]:
                named[one["name"]] = _parse_argument(one, at)
            elif index == 0 and not one["function"]:
                arguments.append(_parse_argument(one, at))
            else:
                raise self._source.error(
                    f"{one[0].strip()!r}: arguments after the first are written name=$variable or "
                    "name='value', without spaces around '='",
                    at + one.start(),
                )
        return _Call(name, at, arguments, named)

    def _build_message_tag(self, node: _Call) -> list[Markup | Hole]:
        """The tag that `{{message role="..."}}` stands for: the beginning, then the end."""
        written = node.named.get("role", "")
        role = written if isinstance(written, str) else f"${written.name}"
        if not self._message_calls.begins_message(role, node.at, arguments=bool(node.arguments)):
            return [Markup("</message>", node.at, made=True)]
        tag: list[Markup | Hole] = [Markup("<message", node.at, made=True)]
        for name, value in node.named.items():
            tag.append(Markup(f' {name}="', node.at, made=True))
            if isinstance(value, str):
                tag.append(Markup(escape(value, {'"': "&quot;"}), node.at, made=True))
            else:
                tag.append(self._add_hole(value, node.at))
            tag.append(Markup('"', node.at, made=True))
        return [*tag, Markup(">", node.at, made=True)]

    def render(self, rendering: Rendering) -> tuple[Sequence[Markup | Hole], list[Filling]]:
        """See `Engine.render`."""
        fillings = list(self._fill_nodes(rendering))
        trusted = [key for key, node in enumerate(self._filled) if rendering.trusts(node.name)]
        if not trusted:
            return self.parts, fillings
        parts: list[Markup | Hole] = []
        for part in self.parts:
            if isinstance(part, Hole) and part.key in trusted and not fillings[part.key].items:
                text = text_of(fillings[part.key].data)
                parts.append(Markup(text, part.at, made=True))
            else:
                parts.append(part)
        return parts, fillings

    def _fill_nodes(self, rendering: Rendering) -> Iterator[Filling]:
        known: dict[str, Filling] = {}  # a variable that stands in many places is encoded once
        size = 0
        for node in self._filled:
            filling = known.get(node.name) if isinstance(node, _Variable) else None
            if filling is None:
                filling = self._fill_node(node, rendering)
            if isinstance(node, _Variable):
                known[node.name] = filling
            size += sum(len(text) for _, text in filling.pieces or ())
            if size > MOST_CHARS:
                raise self._source.error(f"the text has more than {MOST_CHARS} characters", node.at)
            yield filling

    def _fill_node(self, node: _Variable | _Call, rendering: Rendering) -> Filling:
        trusted = rendering.trusts(node.name)
        if isinstance(node, _Variable):
            return fill_value(node.name, rendering.inputs.get(node.name), trusted=trusted)
        named = {name: _get_value(one, rendering) for name, one in node.named.items()}
        arguments = [_get_value(one, rendering) for one in node.arguments]
        value = rendering.call(node.name, node.at, arguments, named)
        return fill_value(node.name, value, trusted=trusted)


def _get_value(argument: str | _Variable, rendering: Rendering) -> Any:
    return argument if isinstance(argument, str) else rendering.inputs.get(argument.name)


def _parse_argument(token: re.Match[str], at: int) -> str | _Variable:
    name = token["variable"] or token["named"]
    if name:
        return _Variable(name, at + token.start("variable" if token["variable"] else "named") - 1)
    return _ESCAPED.sub(r"\1", (token["value"] or token["named_value"])[1:-1])


def _split(text: str) -> Iterator[tuple[int, int, str]]:
    """Cuts a template: where each piece begins and ends, and what a block has in it."""
    last = 0
    for start, end in _find_blocks(text) if len(text) >= _SHORTEST else ():
        content = text[start + 2 : end - 2].strip()
        if content:
            if start > last:
                yield last, start, ""
            yield start, end, content
            last = end
    if last < len(text):
        yield last, len(text), ""


def _find_blocks(text: str) -> Iterator[tuple[int, int]]:
    # Semantic Kernel's tokenizer: the last `{{` before a block's end begins it, and a quote that is
    # never closed ends the search.
    position, start = 0, -1
    while found := _EVENT.search(text, position):
        position = found.end()
        if found[0] == "{":
            start = found.start()
        elif start < 0:
            position = found.start() + 1
        elif found[0] == "}}":
            if found.start() >= start + 2:
                yield start, position
                start = -1
        else:
            value = _VALUE.match(text, found.start())
            if value is None:
                return
            position = value.end()
