"""What names mean in a Handlebars template: the contexts that its blocks are in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from orchestrator.prompts.languages.handlebars_scanner import Path

__all__ = ["MISSING", "Context", "Scope"]

MISSING = object()
"""What is at a path where nothing is."""


@dataclass(slots=True)
class Context:
    """What names mean.

    Attributes:
        this: The value that they are looked up in.
        data: What a loop knows: `@index`.
        names: The names of `as |item index|`.
    """

    this: Any
    data: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)


class Scope:
    """Where names are looked up: the innermost context, and what the template has set."""

    __slots__ = ("_contexts", "_set")

    def __init__(self, inputs: dict[str, Any]) -> None:
        """Begins with the inputs."""
        self._contexts = [Context(inputs)]
        self._set: dict[str, Any] = {}

    @property
    def this(self) -> Any:
        """The innermost context."""
        return self._contexts[-1].this

    @property
    def inputs(self) -> dict[str, Any]:
        """The outermost context."""
        inputs: dict[str, Any] = self._contexts[0].this
        return inputs

    @contextmanager
    def inside(self, context: Context) -> Iterator[None]:
        """Looks names up in another context for a while."""
        self._contexts.append(context)
        try:
            yield
        finally:
            self._contexts.pop()

    def set(self, name: str, value: Any) -> None:
        """Gives a name a value, for the rest of the template."""
        self._set[name] = value
        if name in self.inputs:
            self.inputs[name] = value

    def look_up(self, path: Path) -> Any:
        """What is at a path, or `MISSING`."""
        if path.up >= len(self._contexts):
            return MISSING
        context = self._contexts[-1 - path.up]
        if path.data:
            data = {"root": self._contexts[0].this, **context.data}
            return _look_up_parts(data, path.parts) if path.parts else MISSING
        if not path.parts:
            return context.this
        first, *others = path.parts
        if first in context.names and not path.up:
            return _look_up_parts(context.names[first], others)
        found = _look_up_parts(context.this, (first,))
        if found is MISSING and not path.up:
            found = self._set.get(first, MISSING)
        if found is MISSING and first.startswith("$"):  # Semantic Kernel's own way to write it
            found = _look_up_parts(context.this, (first[1:],))
        return found if found is MISSING else _look_up_parts(found, others)


def _look_up_parts(value: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value
