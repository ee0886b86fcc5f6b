"""The budget of one rendering of a user's template: everything is counted, by its size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MappingView
from typing import Any, NoReturn

from jinja2 import Undefined

from orchestrator.support.work_budget import WorkBudget

# A short template can loop in loops, double a text, nest one list in itself many times, or ask a
# helper for a billion items. So an item of a loop counts as much as the template does with it, and
# the size of every value that is read or made counts too; helpers that can make something large
# count before they do. One unit is at most about the time that one character takes.

# Characters of a rendering, and of any text that it puts together on the way.
MOST_CHARS = 4_000_000
ITEM = 40  # an item of a loop whose body is empty
STEP = 40  # a call, a printed value, or a tag of a template that is not compiled
_PART = 10
MOST_WORK = 10_000_000
# Items of all loops of one rendering together, if their bodies are empty.
MOST_ITEMS = MOST_WORK // ITEM

_SCALARS = (int, float, type(None), Undefined)
_SEQUENCES: Any = (list, tuple, set, frozenset, MappingView)


class Refused(Exception):
    """A template does too much, or uses an object that is no plain data."""


class Work(WorkBudget):
    """What one rendering may do."""

    def __init__(self, most: int = MOST_WORK) -> None:
        self.most = self.left = most
        self._chars = 0

    @property
    def amount(self) -> int:
        """How much was counted."""
        return self.most - self.left

    def refuse(self) -> NoReturn:
        """Raises `Refused`: the template does too much."""
        raise Refused(
            f"the template does too much: more than {MOST_ITEMS} items of loops, or as much "
            "work with them, or with its texts and lists"
        )

    def count_output(self, text: str) -> None:
        """Counts a text of the output."""
        self.spend(len(text))
        self._chars += len(text)
        if self._chars > MOST_CHARS:
            raise Refused(f"the text has more than {MOST_CHARS} characters")

    def measure(self, value: Any, *, data: bool = True, shallow: bool = False) -> None:
        """Counts the size of a value with all that is in it; `data` refuses what is no data.

        A `shallow` measure does not look into texts, lists and maps.
        """
        if shallow and isinstance(value, (str, range, Mapping, *_SEQUENCES)):
            self.spend(_PART)
            return
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
        """The items; `each` is counted before one is given out."""
        for item in items:
            self.spend(each)
            yield item
