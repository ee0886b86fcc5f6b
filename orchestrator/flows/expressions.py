"""Expressions and arguments of scripts: parsed by a grammar, and evaluated by us, never by Python.

Whole arguments and conditions are parsed before a script runs. What comes of a value while it runs
is a value: no text in it is ever read as an expression.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from orchestrator.flows.needed import missing

try:
    from lark import Lark, Token, Transformer, UnexpectedInput, v_args
    from lark.exceptions import VisitError
except ImportError as _error:
    raise missing("lark") from _error

__all__ = [
    "UNDEFINED",
    "Argument",
    "Node",
    "Scope",
    "Wrong",
    "evaluate",
    "names_in",
    "parse_arguments",
    "parse_expression",
    "path_value",
]

UNDEFINED: Any = type(
    "Undefined", (), {"__bool__": lambda self: False, "__repr__": lambda self: "undefined"}
)()
"""What a name without a value is, where it is asked for."""

_DEEPEST = 60
_LONGEST = 100_000


class Wrong(Exception):
    """An expression is wrong, or cannot be evaluated.

    Attributes:
        message: What is wrong.
        message_zh: The same in Chinese.
        offset: Where in the expression's text.
    """

    def __init__(self, message: str, message_zh: str, offset: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.message_zh = message_zh
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression.

    Attributes:
        kind: What it is: `value`, `text`, `path`, `name`, `items`, `mapping`, `either`, `both`,
            `negated`, `compared`, `contained`, `missing`, `calculated`, `signed`, `member`,
            `index`, `called`.
        value: A constant, an operator, a name, or a path's steps.
        parts: The nodes in it.
        offset: Where it begins in the expression's text.
    """

    kind: str
    value: Any = None
    parts: tuple[Any, ...] = ()
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call.

    Attributes:
        name: Its name; empty for one by its place.
        node: Its value.
    """

    name: str
    node: Node


class Scope(Protocol):
    """What expressions are evaluated in."""

    def variable(self, steps: Sequence[str | int], written: str) -> Any:
        """The value at a path, or what stands for an undefined one."""
        ...

    def text(self, text: str) -> Any:
        """A quoted text's value."""
        ...

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The value of a function in an expression.

        Raises:
            Wrong: There is none.
        """
        ...


_CONSTANTS: dict[str, Any] = {
    "True": True,
    "true": True,
    "False": False,
    "false": False,
    "None": None,
    "null": None,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_STEP = re.compile(r"\.([^\W\d]\w*|\d+)|\[\s*(?:(-?\d+)|\"([^\"]*)\"|'([^']*)')\s*\]")
_HEAD = re.compile(r"\s*([^\W\d]\w*)")


@cache
def _parser() -> Lark:
    return Lark(
        Path(__file__).with_name("expressions.lark").read_text(encoding="utf-8"),
        parser="lalr",
        start=["expression", "arguments"],
        maybe_placeholders=False,
        propagate_positions=True,
    )


def parse_expression(text: str) -> Node:
    """Parses an expression.

    Raises:
        Wrong: It is none.
    """
    found: Node = _parse(text, "expression")
    return found


def parse_arguments(text: str) -> list[Argument]:
    """Parses what stands between the brackets of a call.

    Raises:
        Wrong: They are no arguments, or one by its place follows one by its name.
    """
    found: list[Argument] = _parse(text, "arguments")
    return found


def _parse(text: str, start: str) -> Any:
    if len(text) > _LONGEST:
        raise Wrong(f"it is longer than {_LONGEST} characters", f"长度超过 {_LONGEST} 个字符")
    _refuse_depth(text)
    try:
        return _Builder().transform(_parser().parse(text, start=start))
    except UnexpectedInput as error:
        raise _unexpected(text, error) from None
    except VisitError as error:
        if isinstance(error.orig_exc, Wrong):
            raise error.orig_exc from None
        raise


def _refuse_depth(text: str) -> None:
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth > _DEEPEST:
            raise Wrong("it is nested too deeply", "嵌套过深", at)


_FULL_WIDTH = {"、": ",", "，": ",", "（": "(", "）": ")", "：": ":", "“": '"', "”": '"', "＝": "="}


def _unexpected(text: str, error: UnexpectedInput) -> Wrong:
    at = getattr(error, "pos_in_stream", None)
    ended = getattr(getattr(error, "token", None), "type", "") == "$END"
    if ended or at is None or not 0 <= at < len(text):
        return Wrong("it ends too early", "内容不完整", max(len(text.rstrip()) - 1, 0))
    letter = text[at]
    if letter in _FULL_WIDTH:
        plain = _FULL_WIDTH[letter]
        return Wrong(
            f"{letter!r} is a full-width sign; write {plain!r}",
            f"{letter!r} 是全角符号，请使用 {plain!r}",
            at,
        )
    if letter in "\"'":
        return Wrong(f"the quote {letter} is not closed", f"引号 {letter} 没有闭合", at)
    rest = text[at : at + 20].splitlines()[0]
    return Wrong(f"{rest!r} is not expected here", f"此处不应出现 {rest!r}", at)


@v_args(meta=True)
class _Builder(Transformer[Token, Any]):
    """The tree of the grammar as nodes."""

    def arguments(self, meta: Any, parts: list[Argument]) -> list[Argument]:
        named = False
        for one in parts:
            if named and not one.name:
                raise Wrong(
                    "an argument without a name follows one with a name; put it before",
                    "位置参数必须在关键字参数之前",
                    one.node.offset,
                )
            named = named or bool(one.name)
        twice = [one.name for one in parts if one.name]
        for name in twice:
            if twice.count(name) > 1:
                raise Wrong(f"the argument {name!r} is given twice", f"参数 {name!r} 重复")
        return parts

    def named(self, meta: Any, parts: list[Any]) -> Argument:
        return Argument(str(parts[0]), parts[1])

    def placed(self, meta: Any, parts: list[Any]) -> Argument:
        return Argument("", parts[0])

    def number(self, meta: Any, parts: list[Token]) -> Node:
        written = str(parts[0])
        whole = written.isdecimal()
        return Node("value", int(written) if whole else float(written), offset=meta.start_pos)

    def text(self, meta: Any, parts: list[Token]) -> Node:
        return Node("text", _unquoted(parts[0]), offset=meta.start_pos)

    def variable(self, meta: Any, parts: list[Token]) -> Node:
        written = str(parts[0])
        return Node("path", ((written[1:],), written), offset=meta.start_pos)

    def braced(self, meta: Any, parts: list[Token]) -> Node:
        written = str(parts[0])
        steps = path_of(written[2:-1])
        if steps is None:
            raise Wrong(
                f"{written!r} is no path", f"{written!r} 不是有效的变量路径", meta.start_pos
            )
        return Node("path", (steps, written), offset=meta.start_pos)

    def name(self, meta: Any, parts: list[Token]) -> Node:
        written = str(parts[0])
        if written in _CONSTANTS:
            return Node("value", _CONSTANTS[written], offset=meta.start_pos)
        return Node("name", written, offset=meta.start_pos)

    def items(self, meta: Any, parts: list[Node]) -> Node:
        return Node("items", None, tuple(parts), meta.start_pos)

    def mapping(self, meta: Any, parts: list[tuple[Any, Node]]) -> Node:
        return Node("mapping", None, tuple(parts), meta.start_pos)

    def pair(self, meta: Any, parts: list[Any]) -> tuple[Any, Node]:
        key, node = parts
        if key.type == "STRING":
            return Node("text", _unquoted(key)), node
        if key.type == "VARIABLE":
            return Node("path", ((str(key)[1:],), str(key))), node
        return Node("value", str(key)), node

    def compared(self, meta: Any, parts: list[Any]) -> Node:
        left, sign, right = parts
        return Node("compared", str(sign), (left, right), meta.start_pos)

    def calculated(self, meta: Any, parts: list[Any]) -> Node:
        left, sign, right = parts
        return Node("calculated", str(sign), (left, right), meta.start_pos)

    def signed(self, meta: Any, parts: list[Any]) -> Node:
        return Node("signed", str(parts[0]), (parts[1],), meta.start_pos)

    def member(self, meta: Any, parts: list[Any]) -> Node:
        return Node("member", str(parts[1]), (parts[0],), meta.start_pos)

    def called(self, meta: Any, parts: list[Any]) -> Node:
        return Node("called", parts[1], (parts[0],), meta.start_pos)

    def _plain(kind: str) -> Callable[[Any, Any, list[Any]], Node]:  # type: ignore[misc]
        def made(self: Any, meta: Any, parts: list[Any]) -> Node:
            return Node(kind, None, tuple(parts), meta.start_pos)

        return made

    either = _plain("either")
    both = _plain("both")
    negated = _plain("negated")
    contained = _plain("contained")
    missing = _plain("missing")
    index = _plain("index")


def _unquoted(token: Token) -> str:
    return re.sub(
        r"\\(.)", lambda it: _ESCAPES.get(it[1], it[1]), str(token)[1:-1], flags=re.DOTALL
    )


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
        steps.append(
            key
            if key is not None
            else int(number)
            if number
            else next(q for q in quoted if q is not None)
        )
        at = step.end()
    return tuple(steps)


def path_value(root: Any, steps: Sequence[str | int]) -> Any:
    """The value at the end of a path, or `UNDEFINED`. Keys of mappings and places of lists only."""
    value = root
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step, value.get(str(step), UNDEFINED))
        elif isinstance(value, list | tuple | str) and (place := _place(step)) is not None:
            value = value[place] if -len(value) <= place < len(value) else UNDEFINED
        else:
            return UNDEFINED
    return value


def _place(step: str | int) -> int | None:
    if isinstance(step, int):
        return step
    return int(step) if step.isdecimal() else None


def names_in(node: Node) -> list[Node]:
    """The bare names and calls in an expression, for languages that have none."""
    found = [node] if node.kind in ("name", "called", "member") else []
    for part in node.parts:
        for one in part if isinstance(part, tuple) else (part,):
            found += names_in(one)
    return found


def evaluate(node: Node, scope: Scope) -> Any:
    """The value of an expression.

    Raises:
        Wrong: Its values do not go together.
    """
    return _EVALUATORS[node.kind](node, scope)


def _mapping(node: Node, scope: Scope) -> dict[str, Any]:
    return {str(evaluate(key, scope)): evaluate(value, scope) for key, value in node.parts}


def _compared(node: Node, scope: Scope) -> bool:
    left, right = (evaluate(one, scope) for one in node.parts)
    sign = node.value
    if sign in _EQUAL:
        return bool(_EQUAL[sign](_plain_value(left), _plain_value(right)))
    if not _ordered(left, right):
        raise Wrong(
            f"{_kind(left)} and {_kind(right)} cannot be compared with {sign!r}",
            f"{_kind_zh(left)}与{_kind_zh(right)}不能用 {sign!r} 比较",
            node.offset,
        )
    return bool(_ORDER[sign](left, right))


def _plain_value(value: Any) -> Any:
    return None if value is UNDEFINED else value


def _ordered(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return True
    return _is_number(left) and _is_number(right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _contained(node: Node, scope: Scope) -> bool:
    part, whole = (evaluate(one, scope) for one in node.parts)
    if isinstance(whole, str) and isinstance(part, str):
        return part in whole
    if isinstance(whole, list | tuple | dict):
        return part in whole
    raise Wrong(
        f"{_kind(part)} cannot be looked for in {_kind(whole)}",
        f"不能在{_kind_zh(whole)}中查找{_kind_zh(part)}",
        node.offset,
    )


def _calculated(node: Node, scope: Scope) -> Any:
    left, right = (evaluate(one, scope) for one in node.parts)
    sign = node.value
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if sign == "+" and isinstance(left, list) and isinstance(right, list):
        return left + right
    if not (_is_number(left) and _is_number(right)):
        raise Wrong(
            f"{_kind(left)} and {_kind(right)} cannot be calculated with {sign!r}",
            f"{_kind_zh(left)}与{_kind_zh(right)}不能做 {sign!r} 运算",
            node.offset,
        )
    if sign in "/%" and right == 0:
        raise Wrong("a number is divided by zero", "除数为零", node.offset)
    value = _NUMBERS[sign](left, right)
    return int(value) if isinstance(value, float) and value.is_integer() and sign == "/" else value


def _signed(node: Node, scope: Scope) -> Any:
    value = evaluate(node.parts[0], scope)
    if not _is_number(value):
        raise Wrong(f"{_kind(value)} has no sign", f"{_kind_zh(value)}不能带正负号", node.offset)
    return -value if node.value == "-" else value


def _member(node: Node, scope: Scope) -> Any:
    return path_value(evaluate(node.parts[0], scope), [node.value])


def _index(node: Node, scope: Scope) -> Any:
    whole, step = (evaluate(one, scope) for one in node.parts)
    return path_value(whole, [step]) if isinstance(step, int | str) else UNDEFINED


def _called(node: Node, scope: Scope) -> Any:
    (function,) = node.parts
    if function.kind != "name":
        raise Wrong(
            "only functions by their names can be called", "只能按名称调用函数", node.offset
        )
    args = [evaluate(one.node, scope) for one in node.value if not one.name]
    kwargs = {one.name: evaluate(one.node, scope) for one in node.value if one.name}
    return scope.call(function.value, args, kwargs)


def _either(node: Node, scope: Scope) -> Any:
    first, second = node.parts
    return evaluate(first, scope) or evaluate(second, scope)


def _both(node: Node, scope: Scope) -> Any:
    first, second = node.parts
    return evaluate(first, scope) and evaluate(second, scope)


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), ("undefined", ""))[0]


def _kind_zh(value: Any) -> str:
    return _KINDS.get(type(value), ("", "未定义的值"))[1]


_KINDS = {
    str: ("a text", "文本"),
    int: ("a number", "数字"),
    float: ("a number", "数字"),
    bool: ("a truth value", "布尔值"),
    list: ("a list", "列表"),
    dict: ("a map", "字典"),
    type(None): ("None", "None"),
}
_EQUAL = {"==": operator.eq, "===": operator.eq, "!=": operator.ne, "!==": operator.ne}
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_NUMBERS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}
_EVALUATORS: dict[str, Callable[[Node, Scope], Any]] = {
    "value": lambda node, scope: node.value,
    "text": lambda node, scope: scope.text(node.value),
    "path": lambda node, scope: scope.variable(*node.value),
    "name": lambda node, scope: scope.variable((node.value,), node.value),
    "items": lambda node, scope: [evaluate(one, scope) for one in node.parts],
    "mapping": _mapping,
    "either": _either,
    "both": _both,
    "negated": lambda node, scope: not evaluate(node.parts[0], scope),
    "compared": _compared,
    "contained": _contained,
    "missing": lambda node, scope: not _contained(node, scope),
    "calculated": _calculated,
    "signed": _signed,
    "member": _member,
    "index": _index,
    "called": _called,
}
