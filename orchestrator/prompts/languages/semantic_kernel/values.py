"""The values of Semantic Kernel's templates: their texts, their messages, and the helpers."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import Undefined

from orchestrator.errors import ValidationError
from orchestrator.prompts.jinja_pieces import AS_TEXT, Value
from orchestrator.prompts.languages.base import RenderedMessage, Thread, origin_of
from orchestrator.prompts.languages.message_dicts import parse_messages
from orchestrator.prompts.languages.semantic_kernel.content import Filling
from orchestrator.prompts.work import MOST_CHARS, MOST_ITEMS


def text_of(value: Any) -> str:
    """A value as text: nothing for `None`, JSON for lists and maps, else as Python prints it."""
    if isinstance(value, enum.Enum):
        return text_of(value.value)
    if isinstance(value, str):
        # A plain text: subclasses know an origin that others may not rely on.
        return value + ""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    data = value if isinstance(value, list | tuple) else _to_json_data(value)
    if isinstance(data, str):
        return data
    return json.dumps(data, ensure_ascii=False, default=_to_json_data)


def _to_json_data(value: Any) -> Any:
    if isinstance(value, Undefined):  # a member that an item of a list has not
        return None
    if isinstance(value, RenderedMessage | Thread):
        raise ValidationError("messages can only be placed between messages")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, AS_TEXT):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise ValidationError(
        f"a {type(value).__name__} is no value for a template: give texts, numbers, lists and maps"
    )


def to_messages(value: Any, name: str) -> list[RenderedMessage | Thread] | None:
    """The messages that a value is; `None` for any other value."""
    if isinstance(value, Thread | RenderedMessage):
        return [value]
    if isinstance(value, list | tuple) and all(_is_message(one) for one in value):
        return list(parse_messages(value, name))
    return None


def _is_message(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return isinstance(value, RenderedMessage | Thread)
    role = value.get("role")
    return isinstance(role, str) and (
        "content" in value or "tool_calls" in value or role == "assistant"
    )


def complete_messages(value: Any) -> Any:
    """A history whose messages all have a `content`, for templates that loop over it.

    Chat APIs leave it out of the assistant's messages that only call tools.
    """
    if not isinstance(value, list) or not value or not all(map(_is_message, value)):
        return value
    if all("content" in one for one in value if isinstance(one, Mapping)):
        return value
    return [
        {**one, "content": None} if isinstance(one, Mapping) and "content" not in one else one
        for one in value
    ]


def fill_messages(value: Any, name: str, *, trusted: bool = False) -> Filling | None:
    """The messages that a value is, which can only stand between messages.

    The author asks for them; only those of a `trusted` value may instruct the model.
    """
    found = to_messages([value] if isinstance(value, Mapping) else value, name)
    return (
        None if found is None else Filling(None, value, found, name, placed=True, trusted=trusted)
    )


def fill_value(name: str, value: Any, *, trusted: bool = False) -> Filling:
    """What a place of an input is filled with; see `Filling`."""
    items = to_messages(value, name)
    values = value if isinstance(value, list | tuple) else [value]
    if items is not None and any(isinstance(one, RenderedMessage | Thread) for one in values):
        return Filling(None, value, items, name, placed=True, trusted=trusted)
    try:
        text = text_of(value)
    except (RecursionError, ValueError) as error:  # data that contains itself
        raise ValidationError(f"the value of {name!r} is no JSON data: {error}") from None
    origin = value.origin if isinstance(value, Value) else origin_of(name)
    return Filling([(origin, text)], value, items, name, placed=trusted, trusted=trusted)


def format_value(value: Any) -> str:
    """A value as Handlebars prints it: truth values as JSON has them."""
    return text_of(value).lower() if isinstance(value, bool) else text_of(value)


def _to_number(value: Any) -> int | float:
    if isinstance(value, int | float):
        return value
    text = str(value)
    try:
        return int(text) if re.fullmatch(r"[-+]?\d{1,300}", text) else float(text)
    except ValueError:  # whose words have the text
        raise ValueError("a value is no number") from None


def _concat(*values: Any) -> str:
    texts = [format_value(one) for one in values]
    if sum(map(len, texts)) > MOST_CHARS:
        raise ValueError(f"the text has more than {MOST_CHARS} characters")
    return "".join(texts)


def _range(*values: Any) -> list[int]:
    found = range(*[int(_to_number(one)) for one in values])
    if len(found) > MOST_ITEMS:
        raise ValueError(f"the list has more than {MOST_ITEMS} items")
    return list(found)


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
    "less_than": lambda one, other: _to_number(one) < _to_number(other),
    "greater_than": lambda one, other: _to_number(one) > _to_number(other),
    "less_than_or_equal": lambda one, other: _to_number(one) <= _to_number(other),
    "greater_than_or_equal": lambda one, other: _to_number(one) >= _to_number(other),
    "double_open": lambda: "{{",
    "double_close": lambda: "}}",
    "camel_case": camel_case,
    "snake_case": snake_case,
}


# Helpers that only look at their arguments (Semantic Kernel: `HANDLEBAR_SYSTEM_HELPERS`).
HELPERS: Mapping[str, Callable[..., Any]] = {
    "array": lambda *values: list(values),
    "range": _range,
    "concat": _concat,
    "or": lambda *values: any(values),
    "add": lambda *values: sum([_to_number(one) for one in values]),
    "subtract": lambda one, *others: _to_number(one) - sum(map(_to_number, others)),
    "equals": lambda one, other: one == other,
    "json": lambda *values: json.dumps(values[0], ensure_ascii=False) if values else "",
    "lookup": _lookup,
    **_ADDED,
    # `less_than` is `lessThan`, too.
    **{name[0] + camel_case(name)[1:]: helper for name, helper in _ADDED.items()},
}
