"""A time limit of several waits."""

from __future__ import annotations

import asyncio
from types import TracebackType


class TimeLimit:
    """Cuts off what a task does within a `with` block, when the time is over.

    `asyncio.timeout` is for one block, which is entered once: a stream would need a timer for each
    of its events. This one is entered as often as it is needed, by one task at a time, and has one
    timer. The time also runs between its blocks; a block that is entered later is cut off where it
    waits first.

    Attributes:
        expired: Whether it has cut something off.
    """

    def __init__(self, when: float) -> None:
        """Begins; `when` is a time of the running event loop, in which it is used."""
        self.expired = False
        self._over = False
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._timer: asyncio.Handle | None = self._loop.call_at(when, self._expire)

    def reschedule(self, when: float) -> None:
        """Sets another time."""
        self.end()
        self._over = False
        self._timer = self._loop.call_at(when, self._expire)

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        if self._timer is None:  # its time is over
            self._timer = self._loop.call_soon(self._expire)

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

    def _expire(self) -> None:
        self._timer = None
        self._over = True
        if self._task is not None:
            self.expired = True
            self._task.cancel()
