"""JSON text → data with places."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from typing import Any, NoReturn

from orchestrator.definition.document import Document, Reader
from orchestrator.definition.positions import Node

__all__ = ["JsonReader"]

_SPACE = re.compile(r"[ \t\n\r]*")


class JsonReader(Reader):
    """JSON, read with its places."""

    def read(self) -> Document:
        """Reads the whole text."""
        self.decoder = json.JSONDecoder(parse_constant=self._no_number)
        self.starts = [0, *(found.end() for found in re.finditer("\n", self.text))]
        try:
            data, node, end = self._read_value(self._skip(0), 0)
            if (end := self._skip(end)) < len(self.text):
                raise json.JSONDecodeError("there is more text after the document", self.text, end)
        except json.JSONDecodeError as error:
            self.fail(f"this is not JSON: {error.msg}", *self._at(error.pos))
        return Document(data, node)

    def _no_number(self, name: str) -> NoReturn:
        raise json.JSONDecodeError(f"{name} is no number", self.text, self.scalar)

    def _at(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def _skip(self, offset: int) -> int:
        found = _SPACE.match(self.text, offset)
        return found.end() if found else offset

    def _read_value(self, offset: int, depth: int) -> tuple[Any, Node, int]:
        node = Node(*self._at(offset))
        self.enter(depth, node.line, node.column)
        match self.text[offset : offset + 1]:
            case "{":
                return self._read_mapping(node, offset + 1, depth)
            case "[":
                return self._read_list(node, offset + 1, depth)
        value, end = self._read_scalar(offset)
        if isinstance(value, str):
            value = self.join_surrogates(value, node.line, node.column)
        else:
            node.text = self.text[offset:end]
        return value, node, end

    def _read_scalar(self, offset: int) -> tuple[Any, int]:
        self.scalar = offset
        try:
            value, end = self.decoder.raw_decode(self.text, offset)
        except json.JSONDecodeError:
            raise
        except ValueError:  # Python bounds the digits that it converts.
            value, end = math.inf, offset
        if isinstance(value, float) and math.isinf(value):
            self.fail("this number is too large", *self._at(offset))
        return value, end

    def _read_mapping(self, node: Node, offset: int, depth: int) -> tuple[Any, Node, int]:
        data: dict[str, Any] = {}
        offset = self._skip(offset)
        if self.text[offset : offset + 1] == "}":
            return data, node, offset + 1
        while True:
            place = self._at(offset)
            if self.text[offset : offset + 1] != '"':
                self.fail("this is not JSON: a member's name in double quotes is missing", *place)
            name, offset = self._read_scalar(offset)
            offset = self._expect(":", self._skip(offset))
            value, inner, offset = self._read_value(self._skip(offset), depth + 1)
            inner.key = place
            self.put(data, self.join_surrogates(name, *place), value, inner, node)
            offset = self._skip(offset)
            if self.text[offset : offset + 1] == "}":
                return data, node, offset + 1
            offset = self._skip(self._expect(",", offset))

    def _read_list(self, node: Node, offset: int, depth: int) -> tuple[Any, Node, int]:
        data: list[Any] = []
        offset = self._skip(offset)
        if self.text[offset : offset + 1] == "]":
            return data, node, offset + 1
        while True:
            value, node.children[len(data)], offset = self._read_value(offset, depth + 1)
            data.append(value)
            offset = self._skip(offset)
            if self.text[offset : offset + 1] == "]":
                return data, node, offset + 1
            offset = self._skip(self._expect(",", offset))

    def _expect(self, mark: str, offset: int) -> int:
        if self.text[offset : offset + 1] != mark:
            self.fail(f"this is not JSON: a {mark!r} is missing here", *self._at(offset))
        return offset + 1
