"""Expressions of conditions: comparisons of inputs and constants, joined by and, or and not.

```
either     = both { "or" both }
both       = single { "and" single }
single     = "not" single | "(" either ")" | comparison
comparison = operand [ ("==" | "!=" | ">" | ">=" | "<" | "<=") operand ]
operand    = name of an input | number | "text" | 'text' | true | false
```

(AWS: "Condition expressions". Values of two types are never equal; only numbers are greater or
less. An operand alone is a Boolean input, or a constant.)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from orchestrator.flows.node_graph.data_types import is_of_type, name_type

# Bedrock: FlowConditionExpression. It bounds the depth of parentheses, too.
_LONGEST = 64
_TOKEN = re.compile(
    r"""
    \s*(?:
      (?P<text>"[^"]*"|'[^']*')
    | (?P<number>-?\d+(?:\.\d+)?(?![\w.]))
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign>==|!=|>=|<=|>|<|\(|\))
    )""",
    re.VERBOSE | re.ASCII,
)
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_WORDS = ("and", "or", "not")
_CONSTANTS = {"true": True, "false": False}

Values = Mapping[str, Any]
_Test = Callable[[Values], bool]


class ConditionSyntaxError(ValueError):
    """An expression is not one; its text says what is wrong."""


class ConditionTypeError(TypeError):
    """A value is of a type that the expression cannot use; its text says which."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An input's name, or a constant."""

    text: str  # as it is written
    name: str = ""  # of the input; empty for a constant
    constant: Any = None

    def get(self, values: Values) -> Any:
        """Its value."""
        return values[self.name] if self.name else self.constant


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that was read."""

    test: _Test
    names: frozenset[str]  # the inputs that it reads
    numbers: frozenset[str]  # those of them that have to be numbers
    truths: frozenset[str]  # those that have to be Booleans

    def evaluate(self, values: Values) -> bool:
        """Whether it holds, with the inputs' values.

        Raises:
            ConditionTypeError: A value is of a type that it cannot use.
        """
        return self.test(values)


@lru_cache(maxsize=1024)
def parse_condition(text: str) -> Condition:
    """Reads an expression.

    Raises:
        ConditionSyntaxError: It is none.
    """
    if len(text) > _LONGEST:
        raise ConditionSyntaxError(f"it has {len(text):,} characters; the most are {_LONGEST}")
    reader = _Reader(list(_split(text)))
    test = reader.read_either()
    if reader.left:
        raise ConditionSyntaxError(f"nothing may follow before {reader.left[0][1]!r}")
    return Condition(test, *map(frozenset, (reader.names, reader.numbers, reader.truths)))


def _split(text: str) -> Iterator[tuple[str, str]]:
    """The tokens: what each is, and its text."""
    text = text.rstrip()
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ConditionSyntaxError(f"{text[place:].lstrip()[:20]!r} cannot be read")
        kind = str(found.lastgroup)
        yield kind, found[kind]
        place = found.end()


class _Reader:
    """Reads tokens by recursive descent."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.left = tokens
        self.names: set[str] = set()
        self.numbers: set[str] = set()
        self.truths: set[str] = set()

    def read_either(self) -> _Test:
        tests = [self._read_both()]
        while self._take("or"):
            tests.append(self._read_both())
        return tests[0] if len(tests) == 1 else lambda values: any(it(values) for it in tests)

    def _read_both(self) -> _Test:
        tests = [self._read_single()]
        while self._take("and"):
            tests.append(self._read_single())
        return tests[0] if len(tests) == 1 else lambda values: all(it(values) for it in tests)

    def _read_single(self) -> _Test:
        if self._take("not"):
            test = self._read_single()
            return lambda values: not test(values)
        if self._take("("):
            inner = self.read_either()
            if not self._take(")"):
                raise ConditionSyntaxError("a parenthesis is not closed")
            return inner
        return self._read_comparison()

    def _read_comparison(self) -> _Test:
        left = self._read_operand()
        sign = self.left[0][1] if self.left and self.left[0][0] == "sign" else ""
        if sign in ("", "(", ")"):
            return self._read_truth(left)
        del self.left[0]
        right = self._read_operand()
        if sign in _ORDERS:
            return self._read_order(sign, left, right)
        same = sign == "=="
        return lambda values: _is_equal(left.get(values), right.get(values)) == same

    def _read_truth(self, operand: Operand) -> _Test:
        if operand.name:
            self.truths.add(operand.name)
        elif not isinstance(operand.constant, bool):
            raise ConditionSyntaxError(f"{operand.text} is compared with nothing")
        return lambda values: _check(operand, values, "Boolean") is True

    def _read_order(self, sign: str, left: Operand, right: Operand) -> _Test:
        for operand in (left, right):
            if operand.name:
                self.numbers.add(operand.name)
            elif not is_of_type(operand.constant, "Number"):
                raise ConditionSyntaxError(f"{operand.text} is no number: {sign} compares numbers")
        compare = _ORDERS[sign]
        return lambda values: compare(
            _check(left, values, "Number"), _check(right, values, "Number")
        )

    def _read_operand(self) -> Operand:
        kind, text = self.left.pop(0) if self.left else ("", "")
        if kind == "text":
            return Operand(text, constant=text[1:-1])
        if kind == "number":
            return Operand(text, constant=float(text) if "." in text else int(text))
        if kind != "word" or text in _WORDS:
            found = repr(text) if text else "the end"
            raise ConditionSyntaxError(f"an input or a constant is missing before {found}")
        if text in _CONSTANTS:
            return Operand(text, constant=_CONSTANTS[text])
        self.names.add(text)
        return Operand(text, name=text)

    def _take(self, text: str) -> bool:
        """Whether the next token is that one, which is taken then."""
        found = bool(self.left) and self.left[0][1] == text and self.left[0][0] != "text"
        if found:
            del self.left[0]
        return found


def _is_equal(left: Any, right: Any) -> bool:
    # `1 == True` for Python.
    return name_type(left) == name_type(right) and bool(left == right)


def _check(operand: Operand, values: Values, type: str) -> Any:
    value = operand.get(values)
    if not is_of_type(value, type):
        raise ConditionTypeError(
            f"{operand.text} is of the type {name_type(value)}, where the expression needs a {type}"
        )
    return value
