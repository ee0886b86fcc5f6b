"""The helpers that Semantic Kernel gives to Handlebars and Jinja2 templates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orchestrator.prompts.languages.semantic_kernel.values import text_of
from orchestrator.prompts.work import MOST_CHARS, MOST_ITEMS


def format_value(value: Any) -> str:
    """A value as Handlebars prints it: truth values as JSON has them."""
    return text_of(value).lower() if isinstance(value, bool) else text_of(value)


def _to_number(value: Any) -> int | float:
    if isinstance(value, int | float):
        return value
    text = str(value)
    return int(text) if re.fullmatch(r"[-+]?\d{1,300}", text) else float(text)


def _concat(*given: Any) -> str:
    texts = [format_value(one) for one in given]
    if sum(map(len, texts)) > MOST_CHARS:
        raise ValueError(f"the text has more than {MOST_CHARS} characters")
    return "".join(texts)


def _range(*given: Any) -> list[int]:
    found = range(*[int(_to_number(one)) for one in given])
    if len(found) > MOST_ITEMS:
        raise ValueError(f"the list has more than {MOST_ITEMS} items")
    return list(found)


def _subtract(first: Any, *others: Any) -> int | float:
    return _to_number(first) - sum([_to_number(one) for one in others])


def _make_comparison(
    compare: Callable[[int | float, int | float], bool],
) -> Callable[[Any, Any], bool]:
    return lambda one, other: compare(_to_number(one), _to_number(other))


def _lookup(value: Any, key: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    inside = isinstance(value, Sequence) and isinstance(key, int) and -1 < key < len(value)
    return value[key] if inside else None


def camel_case(text: Any) -> str:
    """`ab_cd` as `AbCd`."""
    return "".join([word.capitalize() for word in str(text).split("_")])


def snake_case(text: Any) -> str:
    """`AbCd` as `ab_cd`."""
    apart = re.sub(r"([A-Z])(?=[A-Z][a-z])|([a-z\d])(?=[A-Z])", r"\1\2_", str(text))
    return apart.replace("-", "_").lower()


_ADDED: dict[str, Callable[..., Any]] = {
    "less_than": _make_comparison(lambda one, other: one < other),
    "greater_than": _make_comparison(lambda one, other: one > other),
    "less_than_or_equal": _make_comparison(lambda one, other: one <= other),
    "greater_than_or_equal": _make_comparison(lambda one, other: one >= other),
    "double_open": lambda: "{{",
    "double_close": lambda: "}}",
    "camel_case": camel_case,
    "snake_case": snake_case,
}


def _other_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join([word.capitalize() for word in others])


# Helpers that only look at their arguments (Semantic Kernel: `HANDLEBAR_SYSTEM_HELPERS`).
HELPERS: Mapping[str, Callable[..., Any]] = {
    "array": lambda *given: list(given),
    "range": _range,
    "concat": _concat,
    "or": lambda *given: any(given),
    "add": lambda *given: sum([_to_number(one) for one in given]),
    "subtract": _subtract,
    "equals": lambda one, other: one == other,
    "json": lambda *given: json.dumps(given[0], ensure_ascii=False) if given else "",
    "lookup": _lookup,
    **_ADDED,
    **{_other_name(name): helper for name, helper in _ADDED.items()},
}
