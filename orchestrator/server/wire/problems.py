"""What is wrong with a value, in the words that AWS's services use."""

from __future__ import annotations

from typing import Any, NamedTuple

Path = tuple[Any, str] | None
"""Where a value lies: the path around it and its name. Spelled out only when something is wrong."""

HIDDEN = object()
"""Stands for a value that is not told."""

_MOST = 50
_LONGEST = 200


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes:
        path: Where.
        constraint: What is not so.
        value: The value, when it may be told.
        limit: Whether the value is of the right kind, but against a length, range, pattern or enum.
    """

    path: Path
    constraint: str
    value: Any = HIDDEN
    limit: bool = False

    @property
    def place(self) -> str:
        """Such as `messages.1.member.role`."""
        return format_path(self.path)

    def __str__(self) -> str:
        value = "" if self.value is HIDDEN else f" {_format_value(self.value)}"
        return f"Value{value} at '{self.place}' failed to satisfy constraint: {self.constraint}"


class Problems:
    """All that is wrong with a value."""

    __slots__ = ("found", "more")

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.more = 0

    def add(self, path: Path, constraint: str, value: Any = HIDDEN, *, limit: bool = False) -> None:
        """Notes a problem; those after the fiftieth are counted only."""
        if len(self.found) < _MOST:
            self.found.append(Problem(path, constraint, value, limit))
        else:
            self.more += 1

    def __bool__(self) -> bool:
        return bool(self.found)

    def __str__(self) -> str:
        count = len(self.found) + self.more
        errors = "error" if count == 1 else "errors"
        told = "; ".join(map(str, self.found))
        return f"{count} validation {errors} detected: {told}" + ("; ..." if self.more else "")


def is_deeper(path: Path, names: int) -> bool:
    """Whether a path has more names than so many."""
    while path is not None and names >= 0:
        path, names = path[0], names - 1
    return names < 0


def format_path(path: Path) -> str:
    """A path with dots, as AWS writes it: the parts of a list are `.1.member`, of a map `.KEY`."""
    names = []
    while path is not None:
        path, name = path
        names.append(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}...")
    return ".".join(reversed(names))


def _format_value(value: Any) -> str:
    if value is None:
        return "null"
    text = str(value)
    return f"'{text}'" if len(text) <= _LONGEST else f"'{text[:_LONGEST]}...'"
