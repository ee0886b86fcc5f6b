"""Metadata filters: Bedrock's `RetrievalFilter`, checked and made a test of one passage.

The operators and what they mean are those of Bedrock's API reference (RetrievalFilter): a filter
has exactly one member; `andAll` and `orAll` take at least two filters; `notEquals` and `notIn` also
let pass what does not have the attribute; every other operator does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from orchestrator.errors import ValidationError

Metadata = Mapping[str, Any]
Test = Callable[[Metadata], bool]

_MOST_DEEP = 10
_MOST_CONDITIONS = 1000
_LONGEST_KEY = 100  # Bedrock: FilterKey


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was checked."""

    test: Test  # whether a passage with this metadata passes
    keys: frozenset[str]  # the attributes that it looks at


def compile_filter(value: Any) -> Filter:
    """Checks a `RetrievalFilter` and makes it a test.

    Raises:
        ValidationError: It is none; the message says where and what is allowed. Values are not
            repeated: they may be secret (Bedrock: `RetrievalFilter` is sensitive).
    """
    return _Compiler().filter(value, "filter", 1)


class _Compiler:
    def __init__(self) -> None:
        self.conditions = 0

    def filter(self, value: Any, at: str, depth: int) -> Filter:
        if not isinstance(value, Mapping) or len(value) != 1:
            raise ValidationError(
                f"{at} must be an object with exactly one member, one of {_NAMES}"
            )
        ((operator, operand),) = value.items()
        self.conditions += 1
        if depth > _MOST_DEEP or self.conditions > _MOST_CONDITIONS:
            raise ValidationError(
                f"{at} is nested deeper than {_MOST_DEEP} levels or one of more than "
                f"{_MOST_CONDITIONS} conditions; make the filter smaller"
            )
        if operator in _GROUPS:
            return self._group(operator, operand, f"{at}.{operator}", depth)
        if operator not in _CONDITIONS:
            raise ValidationError(f"{at} has no operator {operator!r}; there are {_NAMES}")
        return _condition(operator, operand, f"{at}.{operator}")

    def _group(self, operator: str, operand: Any, at: str, depth: int) -> Filter:
        if not _is_list(operand) or len(operand) < 2:
            raise ValidationError(f"{at} must be a list of at least two filters")
        inner = [self.filter(it, f"{at}[{n}]", depth + 1) for n, it in enumerate(operand)]
        tests = [it.test for it in inner]
        every = _GROUPS[operator]
        keys = frozenset[str]().union(*(it.keys for it in inner))
        return Filter(lambda metadata: every(test(metadata) for test in tests), keys)


def _condition(operator: str, operand: Any, at: str) -> Filter:
    if not isinstance(operand, Mapping) or set(operand) != {"key", "value"}:
        raise ValidationError(f"{at} must be an object with the members 'key' and 'value'")
    key, value = operand["key"], operand["value"]
    if not isinstance(key, str) or not 1 <= len(key) <= _LONGEST_KEY:
        raise ValidationError(f"{at}.key must be a text of 1 to {_LONGEST_KEY} characters")
    fits, wanted, compare = _CONDITIONS[operator]
    if not fits(value):
        raise ValidationError(f"{at}.value of the attribute {key!r} must be {wanted}")
    negative = operator in _NEGATIVE

    def test(metadata: Metadata) -> bool:
        found = metadata.get(key)
        return negative if found is None else compare(found, value)

    return Filter(test, frozenset((key,)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_plain_list(value: Any) -> bool:
    return _is_list(value) and bool(value) and all(map(_is_plain, value))


def _same(found: Any, value: Any) -> bool:
    # True is 1 in Python, and not in JSON.
    return isinstance(found, bool) == isinstance(value, bool) and bool(found == value)


def _among(found: Any, values: Sequence[Any]) -> bool:
    return any(_same(found, value) for value in values)


def _order(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda found, value: _is_number(found) and compare(found, value)


def _starts(found: Any, value: str) -> bool:
    return isinstance(found, str) and found.startswith(value)


def _holds(found: Any, value: Any) -> bool:
    return _is_list(found) and _among(value, found)


def _has_text(found: Any, value: str) -> bool:
    texts = found if _is_list(found) else (found,)
    return any(isinstance(text, str) and value in text for text in texts)


_GROUPS: dict[str, Callable[[Any], bool]] = {"andAll": all, "orAll": any}
_NEGATIVE = frozenset(("notEquals", "notIn"))
_PLAIN = (_is_plain, "a text, a number or a truth value")
_NUMBER = (_is_number, "a number")
_LIST = (_is_plain_list, "a list of texts, numbers or truth values")
_TEXT = (lambda value: isinstance(value, str), "a text")

_CONDITIONS: dict[str, tuple[Callable[[Any], bool], str, Callable[[Any, Any], bool]]] = {
    "equals": (*_PLAIN, _same),
    "notEquals": (*_PLAIN, lambda found, value: not _same(found, value)),
    "greaterThan": (*_NUMBER, _order(gt)),
    "greaterThanOrEquals": (*_NUMBER, _order(ge)),
    "lessThan": (*_NUMBER, _order(lt)),
    "lessThanOrEquals": (*_NUMBER, _order(le)),
    "in": (*_LIST, _among),
    "notIn": (*_LIST, lambda found, values: not _among(found, values)),
    "startsWith": (*_TEXT, _starts),
    "listContains": (*_PLAIN, _holds),
    "stringContains": (*_TEXT, _has_text),
}

# The names of all operators.
OPERATORS = (*_CONDITIONS, *_GROUPS)

_NAMES = ", ".join(OPERATORS)
