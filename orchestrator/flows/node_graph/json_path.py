"""Expressions of inputs: the subset of JSONPath that Bedrock's flows have.

An expression begins with `$.data`, which is the whole input. After it come, in any number,
`.name`, `[2]`, `[0, 3]`, `[1:4]`, `.*` and `[*]` (AWS: "Use expressions to define inputs").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

_ROOT = "$.data"
# Bedrock: FlowNodeInputExpression.
_LONGEST = 64
_STEP = re.compile(
    r"""
    \.(?P<name>[^\s.\[\]*'"()?@$,:]+)
    | (?P<any>\.\* | \[\s*\*\s*\])
    | \[\s*(?P<start>-?\d+)?\s*:\s*(?P<end>-?\d+)?\s*\]
    | \[\s*(?P<places>-?\d+(?:\s*,\s*-?\d+)*)\s*\]
    """,
    re.VERBOSE | re.ASCII,
)
# A wildcard gives each member once, but `[0,0,0]` one several times, and one after the other many
# times. This bounds how many they are, not how large they are together: see `FlowRun`.
_MOST_VALUES = 100_000

_Select = Callable[[Any], Iterable[Any]]


class PathSyntaxError(ValueError):
    """An expression is not one; its text says what is wrong."""


class JsonPath(NamedTuple):
    """An expression that was read."""

    text: str
    is_whole: bool  # whether it is `$.data` itself
    is_definite: bool  # whether it leads to one value, not to a list of them
    selects: tuple[_Select, ...]

    def evaluate(self, whole: Any) -> Any:
        """The part of a whole input that the expression means.

        Raises:
            LookupError: The input has no such part, or far too many.
        """
        values = [whole]
        for select in self.selects:
            values = list(islice(_select_all(values, select), _MOST_VALUES + 1))
            if len(values) > _MOST_VALUES:
                raise LookupError(f"it gives more than {_MOST_VALUES:,} values")
        if not self.is_definite:
            return values
        if not values:
            raise LookupError("the input has no such part")
        return values[0]


def _select_all(values: Iterable[Any], select: _Select) -> Iterator[Any]:
    for value in values:
        yield from select(value)


@lru_cache(maxsize=1024)
def parse_path(text: str) -> JsonPath:
    """Reads an expression.

    Raises:
        PathSyntaxError: It is none.
    """
    if len(text) > _LONGEST:
        raise PathSyntaxError(f"it has {len(text):,} characters; the most are {_LONGEST}")
    if not text.startswith(_ROOT):
        raise PathSyntaxError(f"it does not begin with {_ROOT}, which is the whole input")
    selects, place, definite = [], len(_ROOT), True
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None:
            raise PathSyntaxError(
                f"what follows {text[:place]!r} is no .name, [number], [from:to], [a, b] or *"
            )
        select, single = _read_step(step)
        selects.append(select)
        definite = definite and single
        place = step.end()
    return JsonPath(text, not selects, definite, tuple(selects))


def _read_step(step: re.Match[str]) -> tuple[_Select, bool]:
    """What a step selects of a value, and whether that is at most one part of it."""
    if step["name"] is not None:
        return _by_name(step["name"]), True
    if step["any"] is not None:
        return _all_parts, False
    if step["places"] is not None:
        places = [int(one) for one in step["places"].split(",")]
        return _by_places(places), len(places) == 1
    start, end = (None if it is None else int(it) for it in step.group("start", "end"))
    return _by_slice(slice(start, end)), False


def _by_name(name: str) -> _Select:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else ()


def _by_places(places: list[int]) -> _Select:
    def select(value: Any) -> Iterable[Any]:
        size = len(value) if isinstance(value, list) else 0
        return [value[place] for place in places if -size <= place < size]

    return select


def _by_slice(part: slice) -> _Select:
    return lambda value: value[part] if isinstance(value, list) else ()


def _all_parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
