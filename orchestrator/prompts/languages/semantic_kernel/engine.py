"""What the template engines of Semantic Kernel's prompts have in common."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError
from orchestrator.prompts.jinja_pieces import VALUE
from orchestrator.prompts.languages.semantic_kernel.content import Filling
from orchestrator.prompts.languages.semantic_kernel.tags import Hole, Markup
from orchestrator.prompts.source import Source
from orchestrator.support.threads import wait_for
from orchestrator.support.user_code import (
    describe_exception,
    describe_mismatch,
    is_debugging,
    is_own_failure,
    place_in_function,
)

# What templates may call: `plugin.function`, or `function`.
Functions = Mapping[str, Callable[..., Any]]


def find_function(functions: Functions, name: str) -> Callable[..., Any] | None:
    """The function of a name; without a plugin it is the first function of that name."""
    # (Semantic Kernel: `Kernel.get_function`.)
    if name in functions or "." in name:
        return functions.get(name)
    return next((it for key, it in functions.items() if key.rpartition(".")[2] == name), None)


class Engine(ABC):
    """A template, read once by one of the engines."""

    names: Mapping[str, int]  # its inputs and where each is used first, in this order
    calls: Mapping[str, int]  # the functions that it calls, and where each is called first
    # What it is made of, where that is known before it is rendered.
    parts: Sequence[Markup | Hole] | None = None
    diagnostics: Sequence[Diagnostic] = ()  # what is doubtful about it
    # Whether it shows texts as they are, and asks of them only whether they are empty.
    straight: bool

    @abstractmethod
    def render(self, rendering: Rendering) -> tuple[Sequence[Markup | Hole], Sequence[Filling]]:
        """The parts of a rendering, and what its holes are filled with.

        Raises:
            TemplateError: It cannot be rendered, with its place.
            ValidationError: A value is no plain data.
        """


class MessageCalls:
    """Calls that begin a message and, called again, end it: `{{message role="user"}}`."""

    def __init__(self, source: Source, example: str = '{{message role="user"}}') -> None:
        self._source = source
        self._example = example
        self._open_role = ""

    def begins_message(self, role: str, at: int, *, arguments: bool = False) -> bool:
        """Whether this call begins a message; else it ends the one that is open.

        `arguments` says that the call has others than by name.
        """
        if self._open_role and role in ("", self._open_role):
            self._open_role = ""
            return False
        if self._open_role:
            close = self._example.replace('"user"', f'"{self._open_role}"')
            message = f"the message of role {self._open_role!r} before is not closed: write {close}"
            raise self._source.error(message, at)
        if not role or arguments:
            raise self._source.error(f"a message has a role: {self._example}", at)
        self._open_role = role
        return True


class Rendering:
    """What a template is rendered with: its inputs, with defaults, and the functions it may call.

    A call's missing parameter is the input of that name.
    """

    def __init__(
        self,
        source: Source,
        inputs: Mapping[str, Any],
        functions: Functions,
        trusted: Collection[str] | None = (),
    ) -> None:
        """With `trusted`: the inputs and functions whose texts are read as the author's own.

        The author says so (Semantic Kernel: `allow_dangerously_set_content`); `None` for all.
        """
        self._source = source
        self._trusted = trusted
        self.inputs = inputs
        # The same as the template has them, where that are other objects
        self.shown = inputs
        self.functions = functions

    def trusts(self, name: str) -> bool:
        """Whether the text of an input or a function is read as the author's own."""
        return self._trusted is None or name in self._trusted

    def trusts_texts_of(self, origin: str) -> bool:
        """The same by a text's origin; a calculated text is not trusted by name."""
        return self._trusted is None or (origin != VALUE and origin in self._trusted)

    @cached_property
    def _ids_of_trust(self) -> set[int]:
        # By identity: a member of some value may have the name of an input that is trusted.
        found: set[int] = set()
        for name, value in self.shown.items():
            if self.trusts(name) and isinstance(value, list | tuple | Mapping):
                found |= {id(value), *map(id, value if isinstance(value, list | tuple) else ())}
        return found

    def trusts_value(self, value: Any) -> bool:
        """Whether a list or map of `shown`, or an item of one, may instruct the model."""
        return self._trusted is None or id(value) in self._ids_of_trust

    def call(self, name: str, at: int, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The result of a call that stands at this offset of the template."""
        function = find_function(self.functions, name)
        if function is None:
            known = ", ".join(map(repr, self.functions)) or "none"
            raise self._source.error(
                f"there is no function {name!r}; this template may call {known}", at
            )
        given = {**self._find_missing_arguments(function, arguments, named), **named}
        if mismatch := describe_mismatch(function, arguments, given):
            raise self._source.error(f"the function {name!r} {mismatch}", at)
        try:
            result = function(*arguments, **given)
            return wait_for(result) if inspect.isawaitable(result) else result
        except TemplateError:
            raise
        except BaseException as error:  # whatever a user's function raises
            if not is_own_failure(error):
                raise
            failure = error
        # Outside of the handler, whose exception would stay in the chain
        raised = describe_exception(failure, place_in_function(failure, function))
        cause = failure if is_debugging() else None
        raise self._source.error(f"the function {name!r} {raised}", at) from cause

    def _find_missing_arguments(
        self, function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            parameters = list(inspect.signature(function).parameters.values())[len(arguments) :]
        except (TypeError, ValueError):
            return {}
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return {
            one.name: self.inputs[one.name]
            for one in parameters
            if one.kind in by_name and one.name not in named and one.name in self.inputs
        }
