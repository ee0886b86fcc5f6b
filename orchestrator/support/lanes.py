"""A blocking store's work for an event loop: done at once, or in threads."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread, local
from typing import Any, Literal, TypeVar

from orchestrator.support.forks import begin_anew_in_child
from orchestrator.support.shared_appends import (
    PAUSES,
    AppendTogether,
    Outcome,
    Reservation,
    Reserve,
    SharedAppends,
    SharedCall,
)

T = TypeVar("T")

_FAIR = 32  # calls that are done at once, after which other tasks have their turn


class _Row(local):
    """How many calls this thread's event loop has done at once since one of them had to wait."""

    length = 0


class Lanes:
    """Threads that each do their work in order; the calls for one key share a thread."""

    # All calls for a session are in one lane, so that its records are never written by two threads
    # at the same time.

    def __init__(
        self,
        count: int,
        reserve: Reserve | None = None,
        append_together: AppendTogether | None = None,
    ) -> None:
        self._count = count
        self._reserve = reserve
        self._append_together = append_together
        self.begin_anew()
        begin_anew_in_child(self)

    def begin_anew(self) -> None:
        """Forgets all threads, and what was for them to do: a forked process has none of them."""
        self._lanes: list[SimpleQueue[_Work | None] | None] = [None] * self._count
        self._shared: SharedAppends | None = None
        if self._reserve is not None and self._append_together is not None:
            self._shared = SharedAppends(self._reserve, self._append_together)
        self._waiting: Counter[str] = Counter()  # how many calls are in their lanes, by key
        self._refused = 0  # how many of them have the store wait for the disk
        self._lock = Lock()
        self._row = _Row()

    async def do_soon(
        self,
        key: str,
        work: Callable[[], T],
        is_small: Callable[[], bool],
        is_quick: Callable[[], bool] | None = None,
    ) -> T:
        """Runs a call that may block: in this thread if that waits for nothing, else as `do` does.

        Other tasks have their turn now and then; a task that is cancelled then has made the call
        all the same, unless it has an `is_quick`.

        `is_small` says whether the call writes little, and `is_quick`, which is asked with the
        store reserved and may do a part of the call, whether it does nothing else that takes long.
        """
        reserved: Reservation | Literal[False] | None = None
        # A change of threads costs several times what most calls do (measured: 60 to 90 µs).
        if self._reserve is not None and key not in self._waiting and is_small():
            if not self._refused:
                reserved = self._reserve()
            if reserved is None:
                made = work if is_quick is None else None
                reserved = await self._reserve_soon(self._reserve, key, made)
            if reserved:
                with reserved:
                    if is_now := is_quick is None or is_quick():
                        result = work()
                if is_now:
                    row = self._row
                    row.length += 1
                    # A turn whose model and actions answer at once would keep the loop to itself.
                    if row.length >= _FAIR and _is_in_loop():
                        row.length = 0
                        await asyncio.sleep(0)
                    return result
        self._row.length = 0
        return await (self._do_refused(key, work) if reserved is False else self.do(key, work))

    async def _do_refused(self, key: str, work: Callable[[], T]) -> T:
        # It waits for the disk: the others need not ask meanwhile.
        self._refused += 1
        try:
            return await self.do(key, work)
        finally:
            self._refused -= 1

    @property
    def can_share(self) -> bool:
        """Whether `do_together` is worth it now."""
        return self._shared is not None and not self._refused and self._shared.is_worth_it()

    async def do_together(
        self,
        key: str,
        call: SharedCall[T],
        is_small: Callable[[], bool],
        is_quick: Callable[[], bool] | None = None,
    ) -> T:
        """`do_soon` of a call whose append is made with those of other tasks, if it is small."""
        if self._shared is not None and key not in self._waiting and is_small():
            outcome = await self._join(self._shared, key, call, is_owed=is_quick is None)
            if outcome.is_made:
                return outcome.read()
            if outcome.is_refused:
                return await self.do(key, call.make)
        return await self.do_soon(key, call.make, is_small, is_quick)

    async def _join(
        self, shared: SharedAppends, key: str, call: SharedCall[T], *, is_owed: bool
    ) -> Outcome[T]:
        # What is owed is made though nobody waits for it any more.
        self._row.length = 0
        outcome = shared.join(call)
        try:
            await outcome.waiter
        except BaseException as stopped:
            outcome.is_left = True
            if is_owed and not outcome.is_made:
                await self._make_all_the_same(key, call.make, stopped)
            raise
        return outcome

    async def _reserve_soon(
        self, reserve: Reserve, key: str, made: Callable[[], Any] | None
    ) -> Reservation | Literal[False] | None:
        # `made` is the call that is to be made though nobody waits for it any more.
        # A thread would wait for the interpreter's lock amid its transaction, and all others for
        # the thread: in two processes with 32 sessions each, a turn took 0.4 seconds (measured).
        for pause in PAUSES:
            try:
                await asyncio.sleep(pause)
            except BaseException as stopped:
                if made is not None:
                    await self._make_all_the_same(key, made, stopped)
                raise
            if key in self._waiting:
                break
            reserved = None if self._refused else reserve()
            if reserved is not None:
                return reserved
        return None

    async def _make_all_the_same(
        self, key: str, made: Callable[[], Any], stopped: BaseException
    ) -> None:
        # For a task that was cancelled: whatever comes of the call, it ends as cancelled.
        if isinstance(stopped, GeneratorExit):  # it cannot wait
            made()
            return
        with suppress(Exception):
            await self.do(key, made)

    async def do(self, key: str, work: Callable[[], T]) -> T:
        """Runs a call that may block, after the earlier ones for the same key.

        A task that is cancelled meanwhile waits for the call all the same, and is cancelled then.
        """
        place = hash(key) % len(self._lanes)
        item = _Work(work)
        lane = self._lanes[place] or self._start_lane(place)
        with self._lock:
            self._waiting[key] += 1
        try:
            lane.put(item)
            await item.wait()
        finally:
            self._leave(key)
        if item.error is not None:
            raise item.error
        result: T = item.result
        return result

    def _leave(self, key: str) -> None:
        with self._lock:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]

    def _start_lane(self, place: int) -> SimpleQueue[_Work | None]:
        with self._lock:
            lane = self._lanes[place]
            if lane is None:
                lane = self._lanes[place] = SimpleQueue()
                Thread(target=_run, args=[lane], name="orchestrator-sessions", daemon=True).start()
                weakref.finalize(self, lane.put, None)
            return lane


def _is_in_loop() -> bool:
    # A stream that outlived its loop is closed without one.
    return asyncio._get_running_loop() is not None


def _run(lane: SimpleQueue[_Work | None]) -> None:
    while (work := lane.get()) is not None:
        work.carry_out()
        del work


class _Work:
    __slots__ = ("_done", "_loop", "_waiter", "_work", "error", "result")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._done = False
        self._loop = asyncio.get_running_loop()
        self._waiter = self._loop.create_future()

    def carry_out(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # handed to whoever waits
            self.error = error
        try:
            self._loop.call_soon_threadsafe(self._notify)
        except RuntimeError:
            return  # the loop was closed: nobody waits any more

    def _notify(self) -> None:
        self._done = True
        if not self._waiter.done():
            self._waiter.set_result(None)

    # A lane cannot be stopped in the middle of a write: a cancelled task waits for the end, too.
    async def wait(self) -> None:
        cancelled: asyncio.CancelledError | None = None
        while not self._done:
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                cancelled = error
                self._waiter = self._loop.create_future()
        if cancelled is not None:
            raise cancelled
