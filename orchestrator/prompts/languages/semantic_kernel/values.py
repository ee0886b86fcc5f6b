"""The values of Semantic Kernel's templates: inputs, what functions give, and how both are told."""

from __future__ import annotations

import enum
import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError, ValidationError
from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja_pieces import TOLD, VALUE, Value
from orchestrator.prompts.languages.base import RenderedMessage, Thread
from orchestrator.prompts.languages.message_dicts import parse_messages
from orchestrator.prompts.languages.semantic_kernel.content import Filling
from orchestrator.prompts.languages.semantic_kernel.tags import Hole, Markup
from orchestrator.prompts.source import Source

Functions = Mapping[str, Callable[..., Any]]
"""What templates may call: `plugin.function`, or `function`."""


def origin_of(name: str) -> str:
    """What tells the texts of an input or a function: its name, which may be the author's mark."""
    return VALUE if name == AUTHOR else name


def text_of(value: Any) -> str:
    """A value as text: nothing for `None`, JSON for lists and maps, else as Python prints it.

    Raises:
        ValidationError: It is no plain data.
    """
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
    return str(value) if isinstance(value, TOLD) else ""


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
    """The messages that a value is; `None` for any other value.

    Args:
        value: A `Thread`, a message, or a list of messages.
        name: The input.
    """
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

    Args:
        name: The input.
        value: Its value.

    Raises:
        ValidationError: It is no plain data.
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


class Caller:
    """Calls functions for a template."""

    __slots__ = ("_functions", "_inputs", "_source")

    def __init__(self, functions: Functions, inputs: Mapping[str, Any], source: Source) -> None:
        """Begins a rendering.

        Args:
            functions: What it may call.
            inputs: Its inputs: parameters of these names that a call does not give are theirs.
            source: The template.
        """
        self._functions = functions
        self._inputs = inputs
        self._source = source

    @property
    def names(self) -> Sequence[str]:
        """What there is to call."""
        return tuple(self._functions)

    def has(self, name: str) -> bool:
        """Whether there is a function of this name."""
        return name in self._functions

    def call(self, name: str, at: int, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Calls a function.

        Args:
            name: The function.
            at: Where the template calls it.
            given: What the call gives first.
            named: What it gives by name.

        Raises:
            TemplateError: There is no such function, or it failed.
        """
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(map(repr, self._functions)) or "none"
            raise self._source.error(
                f"there is no function {name!r}; this template may call {known}", at
            )
        try:
            found = function(
                *given, **self._find_missing_arguments(function, given, named), **named
            )
            if inspect.isawaitable(found):
                getattr(found, "close", bool)()
                raise TypeError("it is asynchronous; give one that returns its result")
            return found
        except TemplateError:
            raise
        except Exception as error:  # whatever a user's function raises
            raise self._source.error(f"the function {name!r} failed: {error}", at) from error

    def _find_missing_arguments(
        self, function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            parameters = list(inspect.signature(function).parameters.values())[len(given) :]
        except (TypeError, ValueError):
            return {}
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return {
            one.name: self._inputs[one.name]
            for one in parameters
            if one.kind in by_name and one.name not in named and one.name in self._inputs
        }


@dataclass(frozen=True, slots=True)
class Rendering:
    """One rendering.

    Attributes:
        inputs: The inputs, with defaults.
        caller: Calls functions.
        trusted: The inputs and functions whose texts are read as the author's own, since the
            author says so (Semantic Kernel: `allow_dangerously_set_content`); `None` for all.
    """

    inputs: Mapping[str, Any]
    caller: Caller
    trusted: Collection[str] | None = ()

    def trusts(self, name: str) -> bool:
        """Whether the text of an input or a function is read as the author's own."""
        return self.trusted is None or name in self.trusted

    def trusts_texts_of(self, origin: str) -> bool:
        """Whether a text of this origin is: none that was calculated of what is not told."""
        return self.trusted is None or (origin != VALUE and origin in self.trusted)


class TemplateEngine(Protocol):
    """A template engine that Semantic Kernel has."""

    @property
    def names(self) -> Mapping[str, int]:
        """The template's inputs and where each is used first, in this order."""
        ...

    @property
    def calls(self) -> Mapping[str, int]:
        """The functions that it calls, and where each is called first."""
        ...

    @property
    def parts(self) -> Sequence[Markup | Hole] | None:
        """What it is made of, where that is known before it is rendered."""
        ...

    @property
    def straight(self) -> bool:
        """Whether it shows texts as they are, and asks of them only whether they are empty."""
        ...

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """What is doubtful about it."""
        ...

    def render(self, rendering: Rendering) -> tuple[Sequence[Markup | Hole], Sequence[Filling]]:
        """What a rendering is made of, and what its holes are filled with.

        Raises:
            TemplateError: It cannot be rendered, with its place.
            ValidationError: A value is no plain data.
        """
        ...
