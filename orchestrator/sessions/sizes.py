"""How large records are, so that what is large is neither kept for ever nor written in haste."""

from __future__ import annotations

from collections.abc import Mapping
from sys import getsizeof
from typing import Any

SMALL = 64 * 1024
"""Records of at most so many bytes are written while an event loop waits."""

_MAPPING, _LIST, _ITEM = 232, 56, 8  # as `getsizeof` has them; the keys are few, and shared
_SCALARS = (str, int, float, bool, type(None))


def measure(*values: Any) -> int:
    """About how many bytes of memory JSON values take."""
    # Done for every record: a call for each value took five times as long.
    size = 0
    left = list(values)
    while left:
        value = left.pop()
        if isinstance(value, _SCALARS):
            size += getsizeof(value)
        elif isinstance(value, (dict, Mapping)):
            size += _MAPPING
            left += value.values()
        elif isinstance(value, (list, tuple)):
            size += _LIST + _ITEM * len(value)
            left += value
    return size
