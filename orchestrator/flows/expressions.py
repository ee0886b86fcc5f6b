"""Expressions and arguments of scripts, parsed by a grammar before a script runs.

`orchestrator.flows.evaluation` computes their values. Quotes, brackets and code fences of both
scripting languages are found here, so that an arrow, a colon or a bracket in a quoted text is text.
"""

from __future__ import annotations

import math
import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.flows.tree import NAME, Argument, Node, ScriptError, parts_of, path_of
from orchestrator.support.lazy_imports import describe_missing_extra

FENCE = "```"

QUOTED = re.compile(
    r"\"\"\"(?:[^\"\\]|\\.|\"(?!\"\"))*\"\"\"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r"|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'",
    re.DOTALL,
)
"""A text in quotes; in three of them it may have several lines."""

_OPENING, _CLOSING = "([{", ")]}"


class LineStarts:
    """Where the lines of a text begin."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def start(self, line: int) -> int:
        """Where a line begins in the text; lines count from 0."""
        return self._starts[line]

    def line_of(self, offset: int) -> int:
        """The line that a place in the text is in, from 0."""
        return bisect_right(self._starts, offset) - 1


def outside_quotes(text: str, at: int) -> Iterator[tuple[int, str]]:
    """The letters from `at` on that are in no quotes and in no code fence, with their places.

    A quote or a fence that is not closed ends them.
    """
    while at < len(text):
        letter = text[at]
        if text.startswith(FENCE, at):
            end = text.find(FENCE, at + len(FENCE))
            if end < 0:
                return
            at = end + len(FENCE)
        elif letter in "\"'":
            quoted = QUOTED.match(text, at)
            if quoted is None:
                return
            at = quoted.end()
        else:
            yield at, letter
            at += 1


def find_closing_bracket(text: str, at: int) -> int:
    """Where the bracket that opens at `at` is closed; -1 when it is not.

    Quotes and code fences are passed over.
    """
    depth = 0
    for place, letter in outside_quotes(text, at):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
            if depth == 0:
                return place
    return -1


def import_library(library: str) -> Any:
    """A library that scripts need.

    Raises:
        DefinitionError: The installation is without the extra `flows`.
    """
    try:
        return import_module(library)
    except ImportError as error:
        raise DefinitionError(describe_missing_extra("scripts need", "flows", library)) from error


if import_library("lark"):  # or the error that says what to install
    from lark import Lark, Token, UnexpectedInput, v_args
    from lark.exceptions import VisitError
    from lark.visitors import Transformer_NonRecursive


_DEEPEST = 60
_MOST_DIGITS = 300
_MOST_SIGNS = 10_000
_LONGEST = 100_000


_CONSTANTS: dict[str, Any] = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_SIGN = re.compile(rf"{QUOTED.pattern}|[\"'].*|{NAME}|\d+|[^\w\s]", re.DOTALL)


@cache
def _parser() -> Lark:
    return Lark(
        Path(__file__).with_name("expressions.lark").read_text(encoding="utf-8"),
        parser="lalr",
        start=["expression", "arguments"],
        maybe_placeholders=False,
        propagate_positions=True,
    )


def unwrap_templates(text: str) -> str:
    """An expression with `{{ a }}` outside of quotes as `((a))`; every letter keeps its place."""
    letters = list(text)
    open_at: list[int] = []
    skipped = -1
    for at, letter in outside_quotes(text, 0):
        if at <= skipped:
            continue
        if letter == "{" and text.startswith("{{", at):
            open_at.append(at)
            skipped = at + 1
        elif letter == "}" and open_at and text.startswith("}}", at):
            begins = open_at.pop()
            letters[begins : begins + 2] = "(("
            letters[at : at + 2] = "))"
            skipped = at + 1
    return "".join(letters)


def parse_expression(text: str) -> Node:
    """Parses an expression; what is wrong in it is a `ScriptError` with its offset."""
    found: Node = _parse(text, "expression")
    return found


def parse_arguments(text: str, *, mixed: bool = False) -> list[Argument]:
    """Parses what stands between the brackets of a call, as `parse_expression` does.

    Args:
        text: What stands there.
        mixed: Whether arguments without a name may follow some with a name.
    """
    found: list[Argument] = _parse(text, "arguments")
    named = False
    for one in found:
        if named and not one.name and not mixed:
            raise ScriptError(
                "an argument without a name follows one with a name; put it before",
                "位置参数必须在关键字参数之前",
                one.node.offset,
            )
        named = named or bool(one.name)
    return [replace(one, written=text[slice(*one.span)]) for one in found]


def _parse(text: str, start: str) -> Any:
    if len(text) > _LONGEST:
        raise ScriptError(f"it is longer than {_LONGEST} characters", f"长度超过 {_LONGEST} 个字符")
    if sum(1 for _ in _SIGN.finditer(text)) > _MOST_SIGNS:
        raise ScriptError(f"it has more than {_MOST_SIGNS} words and signs", "内容过多")
    try:
        made = _Builder().transform(_parser().parse(text, start=start))
    except UnexpectedInput as error:
        raise _build_syntax_error(text, error) from None
    except VisitError as error:
        if isinstance(error.orig_exc, ScriptError):
            raise error.orig_exc from None
        raise
    for node in [made] if isinstance(made, Node) else [one.node for one in made]:
        _refuse_depth(node)
    return made


def _refuse_depth(node: Node) -> None:
    """Refuses what would take too many calls of Python to evaluate."""
    level = [node]
    for _ in range(_DEEPEST):
        level = [part for one in level for part in parts_of(one)]
        if not level:
            return
    raise ScriptError("it is nested too deeply", "嵌套过深", level[0].offset)


_FULL_WIDTH = {"、": ",", "，": ",", "（": "(", "）": ")", "：": ":", "“": '"', "”": '"', "＝": "="}


def _build_syntax_error(text: str, error: UnexpectedInput) -> ScriptError:
    at = getattr(error, "pos_in_stream", None)
    ended = getattr(getattr(error, "token", None), "type", "") == "$END"
    if ended or at is None or not 0 <= at < len(text):
        return ScriptError("it ends too early", "内容不完整", max(len(text.rstrip()) - 1, 0))
    letter = text[at]
    if letter in _FULL_WIDTH:
        plain = _FULL_WIDTH[letter]
        return ScriptError(
            f"{letter!r} is a full-width sign; write {plain!r}",
            f"{letter!r} 是全角符号，请使用 {plain!r}",
            at,
        )
    if letter in "\"'" and QUOTED.match(text, at) is None:
        return ScriptError(f"the quote {letter} is not closed", f"引号 {letter} 没有闭合", at)
    if text.startswith("=>", at):
        return ScriptError(
            "'=>' is a function in JavaScript, which is not run; register a Python function, and "
            "write its name",
            "'=>' 是 JavaScript 函数，不会运行；请注册 Python 函数并写其名称",
            at,
        )
    rest = text[at : at + 20].partition("\n")[0]
    return ScriptError(f"{rest!r} is not expected here", f"此处不应出现 {rest!r}", at)


@v_args(meta=True, inline=True)
class _Builder(Transformer_NonRecursive[Token, Any]):
    """The tree of the grammar as nodes."""

    def arguments(self, meta: Any, *parts: Argument) -> list[Argument]:
        named: set[str] = set()
        for one in parts:
            if one.name in named:
                name = one.name
                raise ScriptError(f"the argument {name!r} is given twice", f"参数 {name!r} 重复")
            if one.name:
                named.add(one.name)
        return list(parts)

    def keyword_argument(self, meta: Any, name: Token, node: Node) -> Argument:
        return Argument(str(name), node, meta.line - 1, (node.offset, meta.end_pos))

    def positional_argument(self, meta: Any, node: Node) -> Argument:
        return Argument("", node, meta.line - 1, (meta.start_pos, meta.end_pos))

    def number(self, meta: Any, written: Token) -> Node:
        number = float(written) if len(written) <= _MOST_DIGITS else math.inf
        if math.isinf(number):
            raise ScriptError("a number is too large", "数字过大", meta.start_pos)
        whole = int(written) if written.isdecimal() else number
        return Node("value", whole, offset=meta.start_pos)

    def text(self, meta: Any, quoted: Token) -> Node:
        return Node("text", _unquote(quoted), offset=meta.start_pos)

    def variable(self, meta: Any, written: Token) -> Node:
        return Node("path", ((written[1:],), str(written)), offset=meta.start_pos)

    def path(self, meta: Any, written: Token) -> Node:
        steps = path_of(written[2:-1])
        if steps is None:
            text = str(written)
            raise ScriptError(
                f"{text!r} is no path", f"{text!r} 不是有效的变量路径", meta.start_pos
            )
        return Node("path", (steps, str(written)), offset=meta.start_pos)

    def name(self, meta: Any, written: Token) -> Node:
        if written in _CONSTANTS:
            return Node("value", _CONSTANTS[written], offset=meta.start_pos)
        return Node("name", str(written), offset=meta.start_pos)

    def pair(self, meta: Any, key: Token, node: Node) -> tuple[Node, Node]:
        if key.type == "STRING":
            return Node("text", _unquote(key)), node
        if key.type == "VARIABLE":
            return Node("path", ((key[1:],), str(key))), node
        return Node("value", str(key)), node

    def comparison_chain(self, meta: Any, *parts: Any) -> Node:
        signs = tuple(str(one) for one in parts[1::2])
        return Node("compared", signs, parts[::2], meta.start_pos)

    def call(self, meta: Any, function: Node, arguments: list[Argument]) -> Node:
        return Node("called", arguments, (function,), meta.start_pos)

    def inline(self, meta: Any, name: Token, arguments: Sequence[Argument] = ()) -> Node:
        function = Node("script", str(name).removeprefix("[[@"), offset=meta.start_pos)
        return Node("called", list(arguments), (function,), meta.start_pos)

    def function(self, meta: Any, head: Token, body: Node) -> Node:
        names = tuple(re.findall(NAME, str(head)))
        return Node("function", names, (body,), meta.start_pos)

    def __default__(self, kind: Token, parts: list[Any], meta: Any) -> Node:
        """A node of the nodes in it; the sign or the name beside them is its value."""
        nodes = tuple(one for one in parts if not isinstance(one, Token))
        value = next((str(one) for one in parts if isinstance(one, Token)), None)
        return Node(str(kind), value, nodes, meta.start_pos)


def _unquote(token: Token) -> str:
    """The text in quotes; in three of them without its indentation and the blank lines around."""
    inner = str(token)
    if len(inner) >= 6 and inner.startswith(('"""', "'''")):
        # The first line may stand beside the quotes, and has no indentation then.
        first, _, rest = inner[3:-3].partition("\n")
        inner = f"{first if first.strip() else ''}\n{textwrap.dedent(rest)}".strip("\n")
    else:
        inner = inner[1:-1]
    return re.sub(r"\\(.)", lambda it: _ESCAPES.get(it[1], it[1]), inner, flags=re.DOTALL)
