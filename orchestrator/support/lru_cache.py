"""A cache of the values that were used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from orchestrator.support.forks import begin_anew_in_child

V = TypeVar("V")


class LruCache(Generic[V]):
    """The `most` values, by key, that were used last. Safe for many threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self.begin_anew()
        begin_anew_in_child(self)

    def begin_anew(self) -> None:
        """Makes its lock free in a forked process: the thread that had it may not be there."""
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of a key, made when it is not there.

        Two threads may both make it at the same time; both get the same one.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        new = make()
        with self._lock:
            value = self._values.setdefault(key, new)
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        return value

    def find(self, key: Hashable) -> V | None:
        """The value of a key, if it is there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: V) -> None:
        """Keeps a value in place of the key's last one."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)
