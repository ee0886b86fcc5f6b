"""The values of Semantic Kernel's templates: inputs, what functions give, and how both are told."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja_pieces import AS_TEXT, VALUE, Value
from orchestrator.prompts.languages.base import RenderedMessage, Thread
from orchestrator.prompts.languages.message_dicts import parse_messages
from orchestrator.prompts.languages.semantic_kernel.content import Filling


def origin_of(name: str) -> str:
    """What tells the texts of an input or a function: its name, which may be the author's mark."""
    return VALUE if name == AUTHOR else name


def text_of(value: Any) -> str:
    """A value as text: nothing for `None`, JSON for lists and maps, else as Python prints it."""
    if isinstance(value, enum.Enum):
        return text_of(value.value)
    if isinstance(value, str):
        return value + ""  # no more than the text
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    return _format_scalar(value) or json.dumps(
        _check_data(value), ensure_ascii=False, default=_to_json_data
    )


def _format_scalar(value: Any) -> str:
    return str(value) if isinstance(value, AS_TEXT) else ""


def _check_data(value: Any) -> Any:
    if isinstance(value, Mapping | list | tuple):
        return value
    raise ValidationError(
        f"a {type(value).__name__} is no value for a template: give texts, numbers, lists and maps"
    )


def _to_json_data(value: Any) -> Any:
    if isinstance(value, RenderedMessage | Thread):
        raise ValidationError("messages can only be placed between messages")
    if isinstance(value, enum.Enum):
        return value.value
    return _format_scalar(value) or dict(_check_data(value))


def to_messages(value: Any, name: str) -> list[RenderedMessage | Thread] | None:
    """The messages that a value is; `None` for any other value."""
    if isinstance(value, Thread | RenderedMessage):
        return [value]
    if isinstance(value, list | tuple) and all(_is_message(one) for one in value):
        return list(parse_messages(value, origin_of(name)))
    return None


def _is_message(value: Any) -> bool:
    if isinstance(value, RenderedMessage | Thread):
        return True
    told = isinstance(value, Mapping) and isinstance(value.get("role"), str)
    return told and ("content" in value or "tool_calls" in value)


def fill_messages(value: Any, name: str) -> Filling | None:
    """The messages that a value is, which can only stand between messages."""
    found = to_messages([value] if isinstance(value, Mapping) else value, name)
    return None if found is None else Filling(None, value, found)


def fill_value(name: str, value: Any) -> Filling:
    """What a place of an input is filled with.

    A list of messages is messages between messages, and JSON inside of one.
    """
    items = to_messages(value, name)
    if items is not None and any(
        isinstance(one, RenderedMessage | Thread) for one in _as_list(value)
    ):
        return Filling(None, value, items)
    try:
        text = text_of(value)
    except (RecursionError, ValueError) as error:  # data that contains itself
        raise ValidationError(f"the value of {name!r} is no JSON data: {error}") from None
    origin = value.origin if isinstance(value, Value) else origin_of(name)
    return Filling([(origin, text)], value, items)


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]
