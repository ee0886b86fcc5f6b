"""Threads that do a blocking store's work for an event loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")


class Lanes:
    """Threads, each with work of its own in the order in which it was given.

    All work of one session is in one lane, so that its records are written in order and by nobody
    else at the same time.
    """

    def __init__(self, count: int) -> None:
        """Makes the lanes; each thread begins with its first work.

        Args:
            count: How many there are.
        """
        self._lanes: list[SimpleQueue[_Work | None] | None] = [None] * count
        self._lock = Lock()

    async def do(self, key: str, work: Callable[[], T]) -> T:
        """Has work done, after what was given before for the same session.

        What was given is done: a task that is cancelled meanwhile waits for it, too.

        Args:
            key: The session's.
            work: May block.
        """
        place = hash(key) % len(self._lanes)
        given = _Work(work)
        (self._lanes[place] or self._start_lane(place)).put(given)
        await given.wait()
        if given.error is not None:
            raise given.error
        result: T = given.result
        return result

    def _start_lane(self, place: int) -> SimpleQueue[_Work | None]:
        with self._lock:
            lane = self._lanes[place]
            if lane is None:
                lane = self._lanes[place] = SimpleQueue()
                Thread(target=_run, args=[lane], name="orchestrator-sessions", daemon=True).start()
                weakref.finalize(self, lane.put, None)
            return lane


def _run(lane: SimpleQueue[_Work | None]) -> None:
    while (work := lane.get()) is not None:
        work.carry_out()
        del work


class _Work:
    """Work of a lane, and how it ended."""

    __slots__ = ("_done", "_loop", "_waiter", "_work", "error", "result")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._done = False
        self._loop = asyncio.get_running_loop()
        self._waiter = self._loop.create_future()

    def carry_out(self) -> None:
        """Does the work, in the lane's thread."""
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

    async def wait(self) -> None:
        """Waits for the work's end, in the loop.

        Raises:
            CancelledError: The task was cancelled meanwhile.
        """
        cancelled: asyncio.CancelledError | None = None
        while not self._done:
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                cancelled = error
                self._waiter = self._loop.create_future()
        if cancelled is not None:
            raise cancelled
