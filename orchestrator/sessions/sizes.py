"""How large records are, so that what is large is neither kept for ever nor written in haste."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from sys import getsizeof
from typing import Any

_SMALL = 64 * 1024  # bytes that are written while an event loop waits
_MAPPING, _LIST, _ITEM, _OTHER = 232, 56, 8, 28  # as `getsizeof` has them; keys are few, and shared
_SCALARS = frozenset((int, float, bool, type(None)))


def are_small(*values: Any) -> bool:
    """Whether JSON values are so small that an event loop may wait for them to be written."""
    return measure(*values, most=_SMALL) <= _SMALL


def measure(*values: Any, most: float = inf) -> int:
    """About how many bytes of memory JSON values take; of more than `most`, some of them."""
    # Done for every record that is written, so without calls of its own, and exact types first:
    # both together make it four times as fast.
    size = 0
    found = [*values]
    for value in found:  # which grows meanwhile
        kind = type(value)
        if kind is str:
            size += getsizeof(value)
        elif size > most:
            break
        elif kind is dict:
            size += _MAPPING
            found += value.values()
        elif kind is list or kind is tuple:
            size += _LIST + _ITEM * len(value)
            found += value
        elif kind in _SCALARS:
            size += _OTHER
        elif isinstance(value, Mapping):
            found.append(dict(value))
        elif isinstance(value, (list, tuple)):
            found.append([*value])
        else:
            size += getsizeof(value)
    return size
