"""A time limit of several waits."""

from __future__ import annotations

import asyncio
import math
import threading
from contextvars import Context
from types import TracebackType


class _Timer:
    """One timer of an event loop for all its limits, set to where the first of them ends.

    Limits mostly end long before their time. With a timer for each, 200 turns at once took three
    hundredths more (measured: instructions).
    """

    __slots__ = ("_at", "_context", "_handle", "_limits", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._limits: dict[TimeLimit, float] = {}
        self._at = math.inf
        self._handle: asyncio.TimerHandle | None = None
        self._context = Context()  # that of a request would be kept long after its end

    def add(self, limit: TimeLimit, when: float) -> None:
        self._limits[limit] = when
        if when < self._at:
            self._set(when)

    def remove(self, limit: TimeLimit) -> None:
        # The timer stays as it is: it may find nothing to do, once.
        self._limits.pop(limit, None)

    def _set(self, when: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._at = when
        self._handle = self.loop.call_at(when, self._go_off, context=self._context)

    def _go_off(self) -> None:
        now = max(self._at, self.loop.time())
        self._at, self._handle = math.inf, None
        try:
            for limit, when in list(self._limits.items()):
                if when <= now and self._limits.pop(limit, None) is not None:
                    limit.expire()
        finally:
            if self._limits:
                self._set(min(self._limits.values()))


_here = threading.local()


def _find_timer() -> _Timer:
    loop = asyncio.get_running_loop()
    timer: _Timer | None = getattr(_here, "timer", None)
    if timer is None or timer.loop is not loop:
        timer = _here.timer = _Timer(loop)
    return timer


class TimeLimit:
    """Cuts off what a task does within a `with` block, when the time is over.

    `asyncio.timeout` is for one block, which is entered once: a stream would need a timer for each
    of its events. This one is entered as often as it is needed, by one task at a time. The time
    also runs between its blocks; a block that is entered later is cut off where it waits first.

    Attributes:
        expired: Whether it has cut something off.
    """

    __slots__ = ("_cancelling", "_next", "_over", "_task", "_timer", "expired")

    def __init__(self, when: float) -> None:
        """Begins; `when` is a time of the running event loop, in which it is used."""
        self.expired = False
        self._over = False
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._next: asyncio.Handle | None = None  # of a block that was entered too late
        self._timer = _find_timer()
        self._timer.add(self, when)

    def reschedule(self, when: float) -> None:
        """Sets another time."""
        self.end()
        self._over = False
        self._timer.add(self, when)

    def check(self) -> None:
        """Cuts off, between its blocks, what never waits in one.

        Raises:
            TimeoutError: The time is over, and the event loop has noticed.
        """
        if self._over:
            self.expired = True
            raise TimeoutError

    def end(self) -> None:
        """Ends the limit: nothing is cut off any more."""
        self._timer.remove(self)
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def expire(self) -> None:
        """Its time is over."""
        self._next = None
        self._over = True
        if self._task is not None:
            self.expired = True
            self._task.cancel()

    def __enter__(self) -> None:
        loop = self._timer.loop
        self._task = task = asyncio.current_task(loop)
        assert task is not None
        self._cancelling = task.cancelling()
        if self._over and self._next is None:
            self._next = loop.call_soon(self.expire)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if not self.expired or task is None:
            return
        # As in `asyncio.timeout`: another cancellation than the limit's own goes on.
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
