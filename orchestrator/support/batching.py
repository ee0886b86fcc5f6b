"""Work of several threads, done together by one of those that wait for it.

A statement of a database mostly costs its way there and back, and a durable one the time of a disk:
what sixteen threads want costs hardly more than what one wants. There is no thread for it, and no
time is waited for others to come: who comes while a batch is under way waits for its end, and goes
into the next with all that came meanwhile. (PostgreSQL groups the commits of its connections in the
same way, which saves the disk's time alone.)
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

DoAll = Callable[[Sequence[T]], Sequence[R]]
"""Does the work for items of different keys; gives what came of each."""


class BatchFailed(Exception):
    """A batch of several failed, for the reason that is its cause.

    Whether it was done nobody knows, unless the cause says it: each of those who wait looks.
    """


class Batcher(Generic[T, R]):
    """Gathers what threads want at the same time. Safe for many threads, and after a fork."""

    def __init__(self, do_all: DoAll[T, R], *, most: int = 64, size: int = 1 << 20) -> None:
        """Prepares to gather.

        Args:
            do_all: Does a batch; one at a time.
            most: How many items a batch has at most.
            size: How large they are together at most; one that is larger is a batch of its own.
        """
        self._do_all = do_all
        self._most, self._size = most, size
        self._states: dict[int, _State[T, R]] = {}

    @property
    def waiting(self) -> int:
        """How many items are in no batch yet."""
        return len(self._find_state().waiting)

    def do(self, key: str, item: T, size: int = 0) -> R:
        """What came of an item. Of the items of one key, a batch has one.

        Raises:
            BatchFailed: Its batch failed. One that was alone raises what `do_all` raises.
        """
        state = self._find_state()
        mine: _Item[T, R] = _Item(key, item, size)  # with its types it takes ten times as long
        try:
            if not self._join(state, mine):
                mine.wait()
        except BaseException:
            self._leave(state, mine)
            raise
        if mine.batch is not None:
            self._do_batch(state, mine.batch)
        if mine.failure is not None:
            raise BatchFailed() from mine.failure
        result: R = mine.result
        return result

    def _find_state(self) -> _State[T, R]:
        # Of the parent's state a child has only a copy, whose threads are not there.
        pid = os.getpid()
        return self._states.get(pid) or self._states.setdefault(pid, _State())

    def _join(self, state: _State[T, R], mine: _Item[T, R]) -> bool:
        # Whether its thread is to do a batch now, of which it is the first.
        with state.lock:
            state.waiting.append(mine)
            if state.is_busy:
                return False
            self._begin_batch(state)
            state.is_busy = True
            return True

    def _begin_batch(self, state: _State[T, R]) -> _Item[T, R] | None:
        # Under the lock, and the batch first: whoever is interrupted sees that it counts on him.
        batch: list[_Item[T, R]] = []
        keys: set[str] = set()
        size = 0
        left: deque[_Item[T, R]] = deque()
        for item in state.waiting:
            fits = len(batch) < self._most and (not batch or size + item.size <= self._size)
            if fits and item.key not in keys:
                batch.append(item)
                keys.add(item.key)
                size += item.size
            else:
                left.append(item)
        if not batch:
            return None
        batch[0].batch = batch
        state.waiting = left
        return batch[0]

    def _do_batch(self, state: _State[T, R], batch: Sequence[_Item[T, R]]) -> None:
        try:
            results = self._do_all([it.item for it in batch])
            for it, result in zip(batch, results, strict=True):
                it.result = result
        except BaseException as error:
            for it in batch:
                it.failure = error
            if len(batch) == 1 or not isinstance(error, Exception):
                raise
        finally:
            self._hand_over(state)
            for it in batch[1:]:
                it.wake()

    def _hand_over(self, state: _State[T, R]) -> None:
        # The first of those that came meanwhile does the next batch.
        with state.lock:
            first = self._begin_batch(state)
            state.is_busy = first is not None
        if first is not None:
            first.wake()

    def _leave(self, state: _State[T, R], mine: _Item[T, R]) -> None:
        # Its thread was interrupted while it waited. What is being done is done.
        with state.lock:
            if mine in state.waiting:
                state.waiting.remove(mine)
        if mine.batch is not None:
            self._do_batch(state, mine.batch)


class _State(Generic[T, R]):
    __slots__ = ("is_busy", "lock", "waiting")

    def __init__(self) -> None:
        self.lock = Lock()
        self.waiting: deque[_Item[T, R]] = deque()
        self.is_busy = False


class _Item(Generic[T, R]):
    __slots__ = ("_woken", "batch", "failure", "item", "key", "result", "size")

    def __init__(self, key: str, item: T, size: int) -> None:
        self.key, self.item, self.size = key, item, size
        self.result: Any = None
        self.failure: BaseException | None = None
        self.batch: list[_Item[T, R]] | None = None  # the one that its thread is to do
        # A lock that another thread releases: an event would be made of one, and of more.
        self._woken = Lock()
        self._woken.acquire()

    def wait(self) -> None:
        self._woken.acquire()

    def wake(self) -> None:
        self._woken.release()
