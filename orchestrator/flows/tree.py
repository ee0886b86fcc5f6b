"""What expressions are made of: the nodes of their trees, paths to values, and what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

NAME = r"[^\W\d]\w*"
"""What a name is, as a regular expression: a letter or `_` of any script, then digits, too."""

_STEP = re.compile(r"\.([^\W\d]\w*|\d+)|\[\s*(?:(-?\d+)|\"([^\"]*)\"|'([^']*)')\s*\]")
_HEAD = re.compile(r"\s*([^\W\d]\w*)")


class ScriptError(Exception):
    """Something in a script is wrong, or cannot be evaluated; its place is not known here.

    Whoever knows the place raises a `FlowError` of it.

    Attributes:
        message: What is wrong.
        message_zh: The same in Chinese; empty where no Chinese language has it.
        offset: Where in the expression's text.
    """

    def __init__(self, message: str, message_zh: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.message_zh = message_zh
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression."""

    # What it is: `value`, `text`, `path`, `name`, `items`, `mapping`, `either`, `both`, `negated`,
    # `compared`, `contained`, `missing`, `calculated`, `signed`, `member`, `optional`, `index`,
    # `called`, `script`, `chosen`, `otherwise`, `function`
    kind: str
    value: Any = None  # a constant, an operator or several, a name, or a path's steps
    parts: tuple[Any, ...] = ()  # the nodes in it
    offset: int = 0  # where it begins in the expression's text


MEMBERS = ("member", "optional")
"""The kinds of `value.name` and `value?.name`."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call."""

    name: str  # its name; empty for one by its place
    node: Node  # its value
    line: int = field(default=0, compare=False)  # how many lines below its call it begins
    span: tuple[int, int] = field(default=(0, 0), compare=False)  # where its value is written
    written: str = field(default="", compare=False)  # how its value is written


def parts_of(node: Node) -> Iterator[Node]:
    """The nodes right in a node: operands, items, keys and values, arguments."""
    for part in node.parts:
        if isinstance(part, tuple):
            yield from part
        else:
            yield part
    if node.kind == "called":
        for argument in node.value:
            yield argument.node


def path_of(written: str) -> tuple[str | int, ...] | None:
    """The steps of a path, such as `a.b[0]`; `None` when it is none."""
    head = _HEAD.match(written)
    if head is None:
        return None
    steps: list[str | int] = [head[1]]
    at = head.end()
    written = written.rstrip()
    while at < len(written):
        step = _STEP.match(written, at)
        if step is None:
            return None
        key, number, *quoted = step.groups()
        if number:
            steps.append(int(number))
        else:
            steps.append(next(it for it in (key, *quoted) if it is not None))
        at = step.end()
    return tuple(steps)


def find_called_name(node: Node) -> str:
    """What a node calls: `script` of `[[@script()]]`, `$name` of `this.$name()`, else nothing."""
    if node.kind != "called":
        return ""
    function = node.parts[0]
    if function.kind == "script":
        return str(function.value)
    if function.kind == "path" and len(function.value[0]) == 1:
        return f"${function.value[0][0]}"
    if function.kind in MEMBERS and function.parts[0].value == "this":
        return str(function.value) if function.value.startswith("$") else ""
    return ""


def calls_in(node: Node) -> Iterator[Node]:
    """The calls of scripts and functions in an expression, from left to right."""
    if find_called_name(node):
        yield node
    for part in parts_of(node):
        yield from calls_in(part)


_OF_NAMES = ("name", "called", "chosen", "otherwise", "function", *MEMBERS)


def names_in(node: Node) -> list[Node]:
    """The bare names, members and calls in an expression, in any order."""
    found = [node] if node.kind in _OF_NAMES else []
    for part in parts_of(node):
        found += names_in(part)
    return found
