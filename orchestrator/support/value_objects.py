"""What dataclasses of values have in common: equality, a hash and a text.

`dataclass` writes and compiles these for each class anew, which is more than half of what a frozen
one takes when it is imported.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class ValueObject:
    """A base for frozen dataclasses that are made with `eq=False, repr=False`.

    They compare, hash and show themselves as other frozen dataclasses do.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _list_values(self) == _list_values(other)

    def __hash__(self) -> int:
        return hash(_list_values(self))

    def __repr__(self) -> str:
        shown: Any = [it.name for it in fields(self) if it.repr]  # type: ignore[arg-type]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"


def _list_values(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, it.name) for it in fields(value) if it.compare)
