"""A cache of the values that were used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class LruCache(Generic[V]):
    """Values by key: the last ones that were used. Safe for many threads at once."""

    def __init__(self, most: int) -> None:
        """Keeps at most `most` values; the one that was not used for longest goes first."""
        self._most = most
        self._kept: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value under a key, made when it is not kept.

        Two that ask for it at the same time may both make it; both get the same one.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            value = self._kept.setdefault(key, made)
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._kept)
