"""Reads a template's JSON body into nodes that know their place in the text.

Published Bedrock templates are mostly not strict JSON: they have raw line breaks inside strings.
Those are accepted (and counted) unless `strict` is set; everything else is an error with its line,
its column and what was expected there. Time is linear in the text's length.
"""

from __future__ import annotations

import json.decoder
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from orchestrator.errors import TemplateError
from orchestrator.prompts.source import Source

_MAX_DEPTH = 16
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.", re.DOTALL)
_scan_string = json.decoder.scanstring  # type: ignore[attr-defined]


class Node(NamedTuple):
    """A JSON value and where it stands in the text; a string starts behind its opening quote."""

    kind: str  # `object`, `array`, `string`, or `scalar` for a number or a word as it is written
    value: Any
    start: int
    end: int


class Body(NamedTuple):
    """A parsed body, with offsets of raw control characters and of members that come twice."""

    root: Node
    raw_controls: tuple[int, ...]
    repeated: tuple[tuple[int, str], ...]


def parse(text: str, *, strict: bool = False, source: str | None = None) -> Body:
    """Parses a whole template; `strict` refuses raw control characters, as JSON does."""
    reader = _Reader(text, strict, source)
    root = reader.read_value(reader.skip_space(0), 0)
    end = reader.skip_space(root.end)
    if end < len(text):
        raise reader.error(end, "expected nothing after the closing brace", _QUOTES)
    return Body(root, tuple(reader.controls), tuple(reader.repeated))


def source_offsets(text: str, node: Node, offsets: list[int]) -> Iterator[int]:
    """Where the characters at `offsets` (ascending) of a string node's value stand in `text`."""
    escapes = _ESCAPE.finditer(text, node.start, node.end)
    escape = next(escapes, None)
    shift = node.start
    for offset in offsets:
        while escape is not None and escape.start() < offset + shift:
            shift += len(escape[0]) - 1
            escape = next(escapes, None)
        yield offset + shift


_QUOTES = 'a double quote inside a text is written \\"'


class _Reader:
    def __init__(self, text: str, strict: bool, source: str | None) -> None:
        self.text, self.strict, self.source = text, strict, source
        self.controls: list[int] = []
        self.repeated: list[tuple[int, str]] = []

    def error(self, offset: int, expected: str, hint: str = "") -> TemplateError:
        found = repr(self.text[offset : offset + 12]) if offset < len(self.text) else "the end"
        message = f"Invalid JSON in the prompt: {expected}, found {found}"
        message += f" ({hint})" if hint else ""
        return Source(self.text, self.source).error(message, offset)

    def skip_space(self, offset: int) -> int:
        found = _SPACE.match(self.text, offset)
        return found.end() if found else offset

    def read_value(self, offset: int, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self.error(offset, f"expected at most {_MAX_DEPTH} levels of nesting")
        first = self.text[offset : offset + 1]
        if first == "{":
            return self._read_object(offset, depth)
        if first == "[":
            return self._read_array(offset, depth)
        if first == '"':
            return self._read_string(offset)
        if found := _SCALAR.match(self.text, offset):
            return Node("scalar", found[0], offset, found.end())
        raise self.error(offset, "expected a value: a text in double quotes, {...} or [...]")

    def _read_string(self, offset: int) -> Node:
        try:
            value, end = _scan_string(self.text, offset + 1, self.strict)
        except json.JSONDecodeError as error:
            raise self._string_error(offset, error) from None
        node = Node("string", value, offset + 1, end)
        if not value.isprintable():
            found = _CONTROL.finditer(self.text, node.start, node.end)
            self.controls.extend(match.start() for match in found)
        return node

    def _string_error(self, offset: int, error: json.JSONDecodeError) -> TemplateError:
        if error.msg.startswith("Unterminated"):
            return self.error(offset, "expected a closing double quote for this text", _QUOTES)
        if error.msg.startswith("Invalid control"):
            return self.error(
                error.pos, "expected no raw line break or control character", "write \\n or \\t"
            )
        hint = 'after a backslash only " \\ / b f n r t and uXXXX may follow'
        return self.error(error.pos, "expected an escape that JSON knows", hint)

    def _read_object(self, offset: int, depth: int) -> Node:
        members: dict[str, Node] = {}
        position = self.skip_space(offset + 1)
        if self.text[position : position + 1] == "}":
            return Node("object", members, offset, position + 1)
        while True:
            if self.text[position : position + 1] != '"':
                raise self.error(position, "expected a member's name in double quotes")
            name = self._read_string(position)
            position = self._expect(":", name.end, f"expected ':' after {name.value!r}")
            if name.value in members:
                self.repeated.append((name.start, name.value))
            value = members[name.value] = self.read_value(position, depth + 1)
            after = self.skip_space(value.end)
            if self.text[after : after + 1] == "}":
                return Node("object", members, offset, after + 1)
            missing = f"expected ',' or '}}' after the value of {name.value!r}"
            position = self._expect(",", after, missing, _hint(value))

    def _read_array(self, offset: int, depth: int) -> Node:
        items: list[Node] = []
        position = self.skip_space(offset + 1)
        if self.text[position : position + 1] == "]":
            return Node("array", items, offset, position + 1)
        while True:
            items.append(self.read_value(position, depth + 1))
            after = self.skip_space(items[-1].end)
            if self.text[after : after + 1] == "]":
                return Node("array", items, offset, after + 1)
            missing = "expected ',' or ']' after a list's item"
            position = self._expect(",", after, missing, _hint(items[-1]))

    def _expect(self, mark: str, offset: int, missing: str, hint: str = "") -> int:
        position = self.skip_space(offset)
        if self.text[position : position + 1] != mark:
            raise self.error(position, missing, hint)
        return self.skip_space(position + 1)


def _hint(node: Node) -> str:
    return _QUOTES if node.kind == "string" else ""
