"""What one rendering of a user's template may do: everything is counted, by the size of its data.

A template is short, and yet it may loop in loops, double a text or a list, nest one list in itself
many times, or ask a helper for a billion items. So each item of a loop counts by how much the
template does with it, and the size of whatever is looked at, or made, counts too; what could make
something large is asked before it does. A unit is about the time of a character, at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MappingView
from typing import Any

from jinja2 import Undefined

MOST_CHARS = 4_000_000
"""Characters of a rendering, and of any text that it puts together on the way."""

ITEM = 40
"""What an item of a loop counts, with nothing done to it."""

STEP = 40
"""What a step counts: a call, a printed value, a tag of a template that is not compiled."""

_PART = 10
_MOST_WORK = 10_000_000
MOST_ITEMS = _MOST_WORK // ITEM
"""Items of all loops of one rendering together, with nothing done to them."""

_SCALARS = (int, float, type(None), Undefined)
_SEQUENCES: Any = (list, tuple, set, frozenset, MappingView)


class Refused(Exception):
    """A template does what it may not do: too much, or something with what is no data."""


class Work:
    """What one rendering has done so far."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST_WORK

    def spend(self, count: int) -> None:
        """Counts work.

        Raises:
            Refused: It is too much.
        """
        self._left -= count
        if self._left < 0:
            raise Refused(
                f"the template does too much: more than {MOST_ITEMS} items of loops, or as much "
                "work with them, or with its texts and lists"
            )

    def measure(self, value: Any, *, data: bool = True) -> None:
        """Counts the size of data, with all that is in it.

        Args:
            value: The data.
            data: Refuse what is none.

        Raises:
            Refused: It is too large, or no data.
        """
        if isinstance(value, str):
            self.spend(1 + len(value))
            return
        left = [value]
        while left:
            one = left.pop()
            self.spend(_PART)
            if isinstance(one, str):
                self.spend(len(one))
            elif isinstance(one, _SEQUENCES):
                self.spend(len(one))
                left.extend(one)
            elif isinstance(one, Mapping):
                self.spend(len(one))
                left.extend(one.keys())
                left.extend(one.values())
            elif isinstance(one, range):
                self.spend(_PART * len(one))
            elif isinstance(one, int):
                self.spend(one.bit_length() >> 3)
            elif data and not isinstance(one, (*_SCALARS, Iterator)):
                raise Refused(f"a {type(one).__name__} is no data")

    def count_items(self, items: Iterable[Any], each: int = ITEM) -> Iterator[Any]:
        """The items, each of which counts.

        Args:
            items: The items.
            each: What one counts.

        Raises:
            Refused: There are too many.
        """
        for item in items:
            self.spend(each)
            yield item
