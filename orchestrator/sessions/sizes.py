"""How large records are, so that what is large is neither kept for ever nor written in haste."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import getsizeof
from typing import Any

from orchestrator.message import make_json_encoder, to_json

_SMALL = 64 * 1024  # bytes of records that are written while an event loop waits
_OF_CHARACTER, _OF_NUMBER = 12, 32  # the most bytes of one, as it is written
_MAPPING, _LIST, _ITEM, _OTHER = 232, 56, 8, 28  # as `getsizeof` has them; keys are few, and shared
_FEW, _IN_MEMORY = 2048, 6  # so many bytes of few values take so many times as many in memory
_SCALARS = frozenset((int, float, bool, type(None)))
_to_ascii = make_json_encoder(ensure_ascii=True)


def are_small(*values: Any, beside: int = 0) -> bool:
    """Whether JSON values are so small that an event loop may wait for them to be written.

    They are as large as what the store writes: a character that is not ASCII has six bytes or
    twelve. What is no JSON value is not small. `beside` is how many bytes are written with them.
    """
    most = beside
    for value in values:
        if isinstance(value, str) and len(value) > _SMALL:
            return False  # to encode some megabytes takes long, too
        most += _bound_length(value)
    if most <= _SMALL:
        return True
    length = _find_length(values, _to_ascii)
    return length is not None and beside + length <= _SMALL


def _bound_length(value: Any) -> int:
    # How many bytes a text, or an object of texts and times, has at most; too many of any other
    # value. To encode one takes three times as long.
    if type(value) is str:
        return _OF_CHARACTER * len(value)
    if type(value) is not dict:
        return _SMALL + 1
    length = 0
    for name, one in value.items():
        length += _OF_CHARACTER * len(name) + _OF_NUMBER
        if type(one) is str:
            length += _OF_CHARACTER * len(one)
        elif type(one) not in _SCALARS:
            return _SMALL + 1
    return length


def measure(values: Any, length: int | None = None) -> int:
    """About how many bytes of memory JSON values take; `length` is that of their text, if known."""
    # To count the values of each record took a third of all bytecodes of a turn (measured).
    if length is None:
        length = _find_length(values, to_json)
    if length is None or length > _FEW:
        return _count(values)
    return length * _IN_MEMORY


def _find_length(values: Any, encode: Callable[[Any], str]) -> int | None:
    # The fastest way to go through a value; `None` for types of others, and what holds itself.
    try:
        return len(encode(values))
    except (TypeError, ValueError, RecursionError):
        return None


def _count(values: Any) -> int:
    # Without calls of its own, and exact types first: both together make it four times as fast.
    size = 0
    found = [values]
    for value in found:  # which grows meanwhile
        kind = type(value)
        if kind is str:
            size += getsizeof(value)
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
