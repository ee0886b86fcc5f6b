"""Threads for calls that may block for ever, and how many of them a process may have."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")

MOST_THREADS = 256
"""How many of these threads a process has at most, at each level of nesting.

A thread that waits for other threads, such as a collaborator's for its actions, only waits for ones
a level below it. Those have places of their own, so nested work cannot wait for itself.
"""

# That a thread waits for more to do: to start one takes longer than most calls.
_IDLE_SECONDS = 5.0

_level: ContextVar[int] = ContextVar("level", default=0)


def in_thread(function: Callable[[], T], *, at_once: bool = True) -> Future[T]:
    """Runs a blocking function in its own thread, with this thread's context variables.

    When the process has `MOST_THREADS` already, the function waits until one of them ends;
    cancelling the future then keeps it from running. Once it runs, nothing stops it.

    Otherwise it runs when this returns, so that functions begin in the order in which they are
    given here. An event loop may not have the time to wait for that: without `at_once` the function
    begins soon.
    """
    from concurrent.futures import Future  # it brings `logging`

    future: Future[T] = Future()
    begun = threading.Event()
    level = _level.get()
    context = copy_context()
    context.run(_level.set, level + 1)
    places = _places.get(level) or _places.setdefault(level, _Places())
    is_placed = places.start(lambda: _run(function, future, context, begun))
    if at_once and is_placed:
        begun.wait()
    return future


def as_awaitable(future: Future[T]) -> Awaitable[T]:
    """The result of a thread, for an event loop to wait for."""
    import asyncio

    return asyncio.wrap_future(future)


# The loop that waits for a thread, for what that thread waits for.
_loop_of_caller: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("loop", default=None)


async def in_thread_of_loop(function: Callable[[], T]) -> T:
    """Runs a blocking function in its own thread; what it waits for runs in this event loop."""
    import asyncio

    _loop_of_caller.set(asyncio.get_running_loop())
    return await asyncio.wrap_future(in_thread(function, at_once=False))


def wait_for(awaitable: Awaitable[Any]) -> Any:
    """The awaitable's result, from synchronous code."""
    import asyncio

    async def wait() -> Any:
        return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if (loop := _loop_of_caller.get()) is not None and loop.is_running():
            return asyncio.run_coroutine_threadsafe(wait(), loop).result()
        return asyncio.run(wait())
    # This thread runs a loop already, so the function gets one in a thread of its own.
    return in_thread(lambda: asyncio.run(wait())).result()


def _run(
    function: Callable[[], T], future: Future[T], context: Context, begun: threading.Event
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    begun.set()
    try:
        future.set_result(context.run(function))
    except BaseException as error:  # handed to whoever waits
        future.set_exception(error)


class _Places:
    """The threads of one level; one that has nothing to do waits a while for more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._idle: list[SimpleQueue[Callable[[], None]]] = []  # each takes a thread's next work

    def start(self, work: Callable[[], None]) -> bool:
        """Whether it has a thread; otherwise it waits for one."""
        with self._lock:
            if self._taken >= MOST_THREADS:
                self._waiting.append(work)
                return False
            self._taken += 1
            if self._idle:
                self._idle.pop().put(work)
                return True
        # The first work comes in the inbox too: a thread keeps its arguments until it ends.
        inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        inbox.put(work)
        # No pool of the standard library: its threads would keep the interpreter, or the event
        # loop, from ending while a call never returns.
        thread = threading.Thread(
            target=self._work_off, args=[inbox], name="orchestrator-action", daemon=True
        )
        try:
            thread.start()
        except BaseException:
            with self._lock:
                self._taken -= 1
            raise
        return True

    def _work_off(self, inbox: SimpleQueue[Callable[[], None]]) -> None:
        work: Callable[[], None] | None = inbox.get()
        while work is not None:
            work()
            work = _nothing  # while it waits, it keeps nothing of what it has done
            work = self._take_next(inbox)

    def _take_next(self, inbox: SimpleQueue[Callable[[], None]]) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._taken -= 1
            self._idle.append(inbox)
        try:
            return inbox.get(timeout=_IDLE_SECONDS)
        except Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    return None
            return inbox.get()  # it came just now


def _nothing() -> None:
    pass


_places: dict[int, _Places] = {}
if hasattr(os, "register_at_fork"):  # a forked process has none of these threads
    os.register_at_fork(after_in_child=lambda: _places.clear())
