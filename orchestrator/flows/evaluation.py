"""Values of expressions: calculated by us, never by Python.

What comes of a value while a script runs is a value: no text in it is ever read as an expression.
Numbers, texts and lists stay small, whatever a loop does with them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from orchestrator.flows.members import MOST, call_member, has_length
from orchestrator.flows.tree import MEMBERS, Node, ScriptError
from orchestrator.flows.work import ScriptWork

UNDEFINED: Any = type(
    "Undefined", (), {"__bool__": lambda self: False, "__repr__": lambda self: "undefined"}
)()
"""What a name without a value is, where it is asked for."""

_MOST_BITS = 1024


class Scope(Protocol):
    """What expressions are evaluated in.

    Attributes:
        work: Counts what they do.
    """

    work: ScriptWork

    def variable(self, steps: Sequence[str | int], written: str) -> Any:
        """The value at a path, or what stands for an undefined one."""
        ...

    def text(self, text: str) -> Any:
        """A quoted text's value."""
        ...

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The value of a function in an expression; a `ScriptError` where there is none."""
        ...


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


def evaluate(node: Node, scope: Scope) -> Any:
    """The value of an expression; `UNDEFINED` when it is a name without one.

    Values that do not go together are a `ScriptError`.
    """
    return _EVALUATORS[node.kind](node, scope)


def evaluate_or_none(node: Node, scope: Scope) -> Any:
    """The value of an expression; `None` when it is a name without one."""
    value = evaluate(node, scope)
    return None if value is UNDEFINED else value


def _evaluate_items(node: Node, scope: Scope) -> list[Any]:
    scope.work.copy(node.parts)
    return [evaluate_or_none(one, scope) for one in node.parts]


def _evaluate_mapping(node: Node, scope: Scope) -> dict[str, Any]:
    scope.work.copy(node.parts)
    return {
        str(evaluate_or_none(key, scope)): evaluate_or_none(value, scope)
        for key, value in node.parts
    }


def _evaluate_comparison(node: Node, scope: Scope) -> bool:
    """Whether each two neighbours are so: `1 < a < 3` is `1 < a and a < 3`, as in Python."""
    left = evaluate(node.parts[0], scope)
    for sign, part in zip(node.value, node.parts[1:], strict=True):
        right = evaluate(part, scope)
        if not _compare(sign, left, right, node, scope):
            return False
        left = right
    return True


def _compare(sign: str, left: Any, right: Any, node: Node, scope: Scope) -> bool:
    _count_comparison(scope.work, left, right)
    if sign[0] in "=!":
        return bool(COMPARISONS[sign](_none_if_undefined(left), _none_if_undefined(right)))
    texts = isinstance(left, str) and isinstance(right, str)
    if not texts and not (is_number(left) and is_number(right)):
        raise ScriptError(
            f"{_kind(left)} and {_kind(right)} cannot be compared with {sign!r}",
            f"{_kind_zh(left)}与{_kind_zh(right)}不能用 {sign!r} 比较",
            node.offset,
        )
    return bool(COMPARISONS[sign](left, right))


def _count_comparison(work: ScriptWork, left: Any, right: Any) -> None:
    if isinstance(left, list | dict) and isinstance(right, list | dict):
        work.measure(left)
    else:
        work.copy(left)


def _none_if_undefined(value: Any) -> Any:
    return None if value is UNDEFINED else value


def is_number(value: Any) -> bool:
    """Whether a value is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _evaluate_contains(node: Node, scope: Scope) -> bool:
    part, whole = (evaluate(one, scope) for one in node.parts)
    if isinstance(part, list | dict) and isinstance(whole, list | tuple):
        scope.work.measure(whole)
    elif not isinstance(whole, dict):
        scope.work.copy(whole)
    if isinstance(whole, str) and isinstance(part, str):
        return part in whole
    if isinstance(whole, list | tuple):
        return _none_if_undefined(part) in whole
    if isinstance(whole, dict):
        return isinstance(part, str) and part in whole
    raise ScriptError(
        f"{_kind(part)} cannot be looked for in {_kind(whole)}",
        f"不能在{_kind_zh(whole)}中查找{_kind_zh(part)}",
        node.offset,
    )


def _evaluate_arithmetic(node: Node, scope: Scope) -> Any:
    left, right = (evaluate(one, scope) for one in node.parts)
    sign = node.value
    joined = sign == "+" and any(isinstance(left, it) and isinstance(right, it) for it in _JOINED)
    if joined:
        if len(left) + len(right) > MOST:
            raise ScriptError(
                f"{_kind(left)} would be longer than {MOST}",
                f"{_kind_zh(left)}长度超过 {MOST}",
                node.offset,
            )
        scope.work.copy(left, right)
        return left + right
    if not (is_number(left) and is_number(right)):
        raise ScriptError(
            f"{_kind(left)} and {_kind(right)} cannot be calculated with {sign!r}",
            f"{_kind_zh(left)}与{_kind_zh(right)}不能做 {sign!r} 运算",
            node.offset,
        )
    if sign in "/%" and right == 0:
        raise ScriptError("a number is divided by zero", "除数为零", node.offset)
    return _number(sign, left, right, node)


def _number(sign: str, left: Any, right: Any, node: Node) -> Any:
    try:
        value = _NUMBERS[sign](left, right)
    except OverflowError:
        value = math.inf
    large = value.bit_length() > _MOST_BITS if isinstance(value, int) else not math.isfinite(value)
    if large:
        raise ScriptError("the number is too large", "数字过大", node.offset)
    return int(value) if isinstance(value, float) and value.is_integer() and sign == "/" else value


def _evaluate_sign(node: Node, scope: Scope) -> Any:
    value = evaluate(node.parts[0], scope)
    if not is_number(value):
        raise ScriptError(
            f"{_kind(value)} has no sign", f"{_kind_zh(value)}不能带正负号", node.offset
        )
    return -value if node.value == "-" else value


def _evaluate_index(node: Node, scope: Scope) -> Any:
    whole, step = (evaluate(one, scope) for one in node.parts)
    return path_value(whole, [step]) if isinstance(step, int | str) else UNDEFINED


def _evaluate_member(node: Node, scope: Scope) -> Any:
    whole = evaluate(node.parts[0], scope)
    if has_length(whole, node.value):
        return len(whole)
    return path_value(whole, [node.value])


def _evaluate_call(node: Node, scope: Scope) -> Any:
    (function,) = node.parts
    if function.kind in MEMBERS:
        return _call_member(node, function, scope)
    if function.kind != "name":
        raise ScriptError(
            "only functions by their names can be called", "只能按名称调用函数", node.offset
        )
    args = [evaluate_or_none(one.node, scope) for one in node.value if not one.name]
    kwargs = {one.name: evaluate_or_none(one.node, scope) for one in node.value if one.name}
    return scope.call(function.value, args, kwargs)


def _call_member(node: Node, function: Node, scope: Scope) -> Any:
    """`value.member(arguments)`; of `value?.member()`, nothing where there is no value."""
    value = evaluate(function.parts[0], scope)
    if function.kind == "optional" and (value is UNDEFINED or value is None):
        return UNDEFINED
    args = [_evaluate_argument(one.node, scope) for one in node.value]
    try:
        return call_member(value, function.value, args, scope.work)
    except ScriptError as wrong:
        raise ScriptError(wrong.message, wrong.message_zh, node.offset) from None


def _evaluate_argument(node: Node, scope: Scope) -> Any:
    if node.kind != "function":
        return evaluate_or_none(node, scope)

    def call(*values: Any) -> Any:
        scope.work.spend(10)
        named = dict(zip(node.value, values, strict=False))
        return evaluate_or_none(node.parts[0], _InnerScope(scope, named))

    return call


class _InnerScope:
    """The body of `item => …`: its names above the scope around it."""

    def __init__(self, outer: Scope, named: Mapping[str, Any]) -> None:
        self._outer = outer
        self._named = named
        self.work = outer.work

    def variable(self, steps: Sequence[str | int], written: str) -> Any:
        """The value at a path."""
        if steps[0] in self._named:
            return path_value(self._named[str(steps[0])], steps[1:])
        return self._outer.variable(steps, written)

    def text(self, text: str) -> Any:
        """A quoted text's value."""
        return self._outer.text(text)

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The value of a function of the scope around it."""
        return self._outer.call(name, args, kwargs)


def _evaluate_choice(node: Node, scope: Scope) -> Any:
    condition, then, otherwise = node.parts
    return evaluate(then if evaluate(condition, scope) else otherwise, scope)


def _evaluate_otherwise(node: Node, scope: Scope) -> Any:
    value = evaluate(node.parts[0], scope)
    return evaluate(node.parts[1], scope) if value is None or value is UNDEFINED else value


def _refuse_function(node: Node, scope: Scope) -> NoReturn:
    raise ScriptError(
        "a function (=>) is an argument of map, filter, find and the like, and no value",
        "函数（=>）只能作为 map、filter、find 等的参数",
        node.offset,
    )


def _kind(value: Any) -> str:
    return _kinds(value)[0]


def _kind_zh(value: Any) -> str:
    return _kinds(value)[1]


def _kinds(value: Any) -> tuple[str, str]:
    return next((names for kind, names in _KINDS if isinstance(value, kind)), _NO_VALUE)


_NO_VALUE = ("undefined", "未定义的值")
_KINDS: tuple[tuple[type, tuple[str, str]], ...] = (
    (str, ("a text", "文本")),
    (bool, ("a truth value", "布尔值")),
    (int, ("a number", "数字")),
    (float, ("a number", "数字")),
    (list, ("a list", "列表")),
    (dict, ("a map", "字典")),
    (type(None), ("None", "None")),
)
_JOINED = (str, list)
COMPARISONS = {
    "==": operator.eq,
    "===": operator.eq,
    "!=": operator.ne,
    "!==": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""What compares two values, by how it is written."""

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
    "items": _evaluate_items,
    "mapping": _evaluate_mapping,
    "either": lambda node, scope: evaluate(node.parts[0], scope) or evaluate(node.parts[1], scope),
    "both": lambda node, scope: evaluate(node.parts[0], scope) and evaluate(node.parts[1], scope),
    "negated": lambda node, scope: not evaluate(node.parts[0], scope),
    "compared": _evaluate_comparison,
    "contained": _evaluate_contains,
    "missing": lambda node, scope: not _evaluate_contains(node, scope),
    "calculated": _evaluate_arithmetic,
    "signed": _evaluate_sign,
    "member": _evaluate_member,
    "optional": _evaluate_member,
    "chosen": _evaluate_choice,
    "otherwise": _evaluate_otherwise,
    "function": _refuse_function,
    "index": _evaluate_index,
    "called": _evaluate_call,
}
