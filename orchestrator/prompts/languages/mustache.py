"""Mustache templates, whose renderings know who wrote what.

The language of mustache(5) is read here: variables, sections, inverted sections, comments and other
delimiters. Partials are other files, and are refused.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja_pieces import VALUE, Value
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.mistakes import Mistake
from orchestrator.prompts.work import ITEM, STEP, Refused, Work

_DEEPEST = 50
_AFTER = re.compile(r"[ \t]*(?:\n|\Z)")
_NAME = re.compile(r"\.|[^\s.{}]+(?:\.[^\s.{}]+)*")
_ALONE = "#^/!="  # tags that may have a line for themselves, which is then left out


@dataclass(slots=True)
class _Node:
    """A text (no `kind`), a variable (`$`, or `&` for one that is not escaped) or a section."""

    kind: str
    text: str
    line: int
    inside: list[_Node] = field(default_factory=list)


# The libraries for Python give one text, in which nobody can tell values from the author's words.
class Mustache:
    """A compiled template; `text_of` gives the text of a printed value."""

    def __init__(self, text: str, text_of: Callable[[Any], str]) -> None:
        reader = _Reader(text)
        self._nodes = reader.read()
        self._text_of = text_of
        self.names = frozenset(filter(None, reader.names))
        self.straight = reader.straight

    def pieces(self, values: Mapping[str, Any]) -> list[Piece]:
        """Renders it, as pieces: who wrote each, and its text."""
        rendering = _Rendering(self._text_of)
        try:
            rendering.add(self._nodes, [values])
        except Refused as refused:
            raise Mistake(str(refused), rendering.line) from None
        return rendering.pieces


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._open, self._shut = "{{", "}}"
        # A name inside of a section may be an input or a member of its value: nobody knows before.
        self.names: set[str] = set()
        self.straight = True

    def read(self) -> list[_Node]:
        text, at, stack = self._text, 0, [_Node("#", "", 1)]
        while (start := text.find(self._open, at)) >= 0:
            kind, name, end = self._read_tag(start)
            before, after = text[at:start], end
            if kind in _ALONE and (alone := self._find_own_line(start, end)) is not None:
                before, after = text[at : alone[0]], alone[1]
            if before:
                stack[-1].inside.append(_Node("", before, 0))
            if kind != "!":
                self._add_tag(kind, name, self._line(start), stack)
            at = after
        if text[at:]:
            stack[-1].inside.append(_Node("", text[at:], 0))
        if len(stack) > 1:
            raise Mistake(f"the section {stack[-1].text!r} is not closed", stack[-1].line)
        return stack[0].inside

    def _add_tag(self, kind: str, name: str, line: int, stack: list[_Node]) -> None:
        if kind == "=":
            parts = name.split()
            if len(parts) != 2:
                raise Mistake("other delimiters are written {{=<% %>=}}", line)
            self._open, self._shut = parts
        elif kind == ">":
            raise Mistake(f"the partial {name!r}: templates have no other files here", line)
        elif not _NAME.fullmatch(name):
            raise Mistake(f"{name!r} is not the name of a value", line)
        elif kind == "/":
            if len(stack) == 1 or stack.pop().text != name:
                raise Mistake(f"{name!r} is closed here, and is not the section that is open", line)
        else:
            self.names.add(name.partition(".")[0])
            self.straight = self.straight and kind != "$"
            node = _Node(kind, name, line)
            stack[-1].inside.append(node)
            if kind in "#^":
                if len(stack) > _DEEPEST:
                    raise Mistake("the template is nested too deeply", line)
                stack.append(node)

    def _read_tag(self, start: int) -> tuple[str, str, int]:
        """The kind, the content and the end of the tag that begins at `start`."""
        text, inner = self._text, start + len(self._open)
        kind = text[inner : inner + 1]
        shut = {"{": "}" + self._shut, "=": "=" + self._shut}.get(kind, self._shut)
        end = text.find(shut, inner)
        if end < 0:
            raise Mistake(f"a tag is not closed; write {shut}", self._line(start))
        if kind and kind in "#^/!&>={":
            inner += 1
        else:
            kind = "$"
        return ("&" if kind == "{" else kind), text[inner:end].strip(), end + len(shut)

    def _find_own_line(self, start: int, end: int) -> tuple[int, int] | None:
        """The beginning and the end of the line that has the tag and nothing else."""
        line = self._text.rfind("\n", 0, start) + 1
        after = _AFTER.match(self._text, end)
        if after is None or self._text[line:start].strip(" \t"):
            return None
        return line, after.end()

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1


class _Rendering:
    def __init__(self, text_of: Callable[[Any], str]) -> None:
        self.pieces: list[Piece] = []
        self.line = 1
        self._text_of = text_of
        self._work = Work()

    def add(self, nodes: Sequence[_Node], stack: list[Any]) -> None:
        for node in nodes:
            self._work.spend(STEP)
            if not node.kind:
                self._put(AUTHOR, node.text)
                continue
            self.line = node.line
            value = _look_up(node.text, stack)
            if node.kind == "#":
                for inner in self._work.count_items(_to_items(value), ITEM):
                    self.add(node.inside, [*stack, inner])
            elif node.kind == "^":
                if not _to_items(value):
                    self.add(node.inside, stack)
            else:
                text = self._text_of(value)
                if node.kind == "$":  # mustache(5): variables are HTML-escaped; `'` stays
                    text = html.escape(text, quote=False).replace('"', "&quot;")
                self._put(value.origin if isinstance(value, Value) else VALUE, text)

    def _put(self, origin: str, text: str) -> None:
        self._work.count_output(text)
        if text:
            self.pieces.append((origin, text))


def _to_items(value: Any) -> Sequence[Any]:
    """The values that a section is rendered with, once for each."""
    if isinstance(value, list | tuple):
        return value
    return [value] if value else []


def _look_up(name: str, stack: Sequence[Any]) -> Any:
    if name == ".":
        return stack[-1]
    first, *rest = name.split(".")
    holder = next((it for it in reversed(stack) if isinstance(it, Mapping) and first in it), {})
    value = holder.get(first)
    for member in rest:
        value = value.get(member) if isinstance(value, Mapping) else None
    return value
