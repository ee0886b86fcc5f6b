"""An event loop in which the turns of agents let all other requests go first."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, TypeVarTuple

Arguments = TypeVarTuple("Arguments")

_HOLD_SECONDS = 0.05
_PAUSE_SECONDS = 0.01
_SLICE_SECONDS = 0.005
_ACCEPTED = 4  # connections a round

_goes_last: ContextVar[bool] = ContextVar("goes_last", default=False)

if TYPE_CHECKING:
    _Loop = asyncio.SelectorEventLoop
else:
    _Loop = asyncio.ProactorEventLoop if sys.platform == "win32" else asyncio.SelectorEventLoop


async def go_last() -> None:
    """Has the calling task, and those it starts, run after all that others have ready.

    What others do within `hold_back_last` has it wait longer.
    In an event loop of another kind it changes nothing.
    """
    _goes_last.set(True)
    loop = asyncio.get_running_loop()
    # Alone there is nobody to wait for, and the loop's way round is a thirtieth of a short turn.
    if not isinstance(loop, FairEventLoop) or not loop.is_idle():
        await asyncio.sleep(0)


def go_first() -> None:
    """Has what the calling task does from now on run before the tasks that called `go_last`.

    A task begins with what its connection did before.
    """
    _goes_last.set(False)


@contextmanager
def hold_back_last() -> Iterator[None]:
    """Slows tasks that called `go_last` down, until its end and for 50 ms at most.

    In an event loop of another kind it changes nothing.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, FairEventLoop):
        yield
        return
    token = loop.hold_back()
    try:
        yield
    finally:
        loop.let_go(token)


class _RetriedOnce:
    """A listening socket that takes nothing more of a round once the system has refused.

    Without a free descriptor asyncio tries again a second later: as often as it might have
    accepted in that round, and each of those tries as often again. A server that reaches its limit
    of open files would do nothing but fail, and log that.
    """

    def __init__(self, listening: Any) -> None:
        self.has_failed = False
        self._listening = listening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)

    def accept(self) -> Any:
        """Takes a connection, or says that none waits."""
        if self.has_failed:
            raise BlockingIOError
        try:
            return self._listening.accept()
        except OSError:
            self.has_failed = True
            raise


class FairEventLoop(_Loop):
    """Runs what called `go_last` one step at a time, between all other steps.

    An event loop runs what is ready in the order in which it became so. With many turns at once,
    each of which computes for some milliseconds, a request that needs no computing at all would
    wait for all of them several times: to be read, to be answered, to be sent.

    While a `hold_back_last` is open, the steps of the last get 5 ms after every 10 ms without, so
    that many short requests that follow each other cannot stop the turns.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: deque[asyncio.Handle] = deque()
        self._due: asyncio.Handle | None = None  # the coming call of `_run_last`
        self._holding: dict[object, float] = {}  # when each ends; all last equally long
        self._slice_end = 0.0  # until when steps of the last run though they are held back
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

    def _accept_connection(
        self, factory: Any, listening: Any, tls: Any, server: Any, backlog: int, *others: Any
    ) -> None:
        # A few connections a round. Of several processes that share the socket, one would take all
        # that wait, and answer them while the others have nothing to do.
        most = min(backlog, _ACCEPTED)
        once = listening if isinstance(listening, _RetriedOnce) else _RetriedOnce(listening)
        once.has_failed = False
        super()._accept_connection(factory, once, tls, server, most, *others)  # type: ignore[misc]

    def close(self) -> None:
        """Closes the loop, and forgets what was ready, as other loops do."""
        super().close()
        self._last.clear()

    def is_idle(self) -> bool:
        """Whether the step that runs is the only one that is ready, and nobody is held back."""
        return not (self._ready or self._last or self._is_held())  # type: ignore[attr-defined]

    def hold_back(self) -> object:
        """Slows the last down for 50 ms; what it returns is for `let_go`."""
        token = object()
        self._holding[token] = self.time() + _HOLD_SECONDS
        return token

    def let_go(self, token: object) -> None:
        """Ends what `hold_back` began."""
        self._holding.pop(token, None)
        if isinstance(self._due, asyncio.TimerHandle) and not self._is_held():
            self._due.cancel()
            self._due = None
            self._see_to_last()

    def _is_held(self) -> bool:
        while self._holding:
            token, end = next(iter(self._holding.items()))
            if end > self.time():
                return True
            del self._holding[token]
        return False

    def _see_to_last(self) -> None:
        if not self._last or self._due is not None:
            return
        if self._is_held() and self.time() >= self._slice_end:
            self._due = super().call_later(_PAUSE_SECONDS, self._run_slice, context=self._neutral)
        else:
            self._due = super().call_soon(self._run_last, context=self._neutral)

    def _run_slice(self) -> None:
        self._slice_end = self.time() + _SLICE_SECONDS
        self._run_last()

    def _run_last(self) -> None:
        handle = self._last.popleft()
        self._due = None
        self._see_to_last()  # before the step, which may end the program
        if not handle.cancelled():
            handle._run()
