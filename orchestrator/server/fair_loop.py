"""An event loop in which the turns of agents let all other requests go first."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, TypeVarTuple

Arguments = TypeVarTuple("Arguments")

_goes_last: ContextVar[bool] = ContextVar("goes_last", default=False)

if TYPE_CHECKING:
    _Loop = asyncio.SelectorEventLoop
else:
    _Loop = asyncio.ProactorEventLoop if sys.platform == "win32" else asyncio.SelectorEventLoop


async def go_last() -> None:
    """Has the calling task, and those it starts, run after all that others have ready.

    In an event loop of another kind it changes nothing.
    """
    _goes_last.set(True)
    await asyncio.sleep(0)


def go_first() -> None:
    """Has what the calling task does from now on run before the tasks that called `go_last`.

    A task begins with what its connection did before.
    """
    _goes_last.set(False)


class FairEventLoop(_Loop):
    """Runs what called `go_last` one step at a time, between all other steps.

    An event loop runs what is ready in the order in which it became so. With many turns at once,
    each of which computes for some milliseconds, a request that needs no computing at all would
    wait for all of them several times: to be read, to be answered, to be sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: deque[asyncio.Handle] = deque()
        self._is_due = False  # whether `_run_last` is going to be called
        # Its own: a context that the loop of another thread is in at the moment cannot be entered.
        self._neutral = Context()

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Has a callback called soon: as one of the last, if its context says so."""
        if not (_goes_last.get() if context is None else context.get(_goes_last)):
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        self._last.append(handle)
        self._see_to_last()
        return handle

    def _see_to_last(self) -> None:
        if self._last and not self._is_due:
            self._is_due = True
            super().call_soon(self._run_last, context=self._neutral)

    def _run_last(self) -> None:
        handle = self._last.popleft()
        self._is_due = False
        self._see_to_last()  # before the step, which may end the program
        if not handle.cancelled():
            handle._run()
