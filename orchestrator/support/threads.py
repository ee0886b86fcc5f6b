"""A thread for a call that may block for ever."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["in_thread"]

T = TypeVar("T")


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Runs a blocking function in a thread of its own, with this thread's context variables.

    A thread a call: a pool would be filled up by calls that never return, and its threads would
    keep the interpreter, or the event loop, from ending.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # whoever stops waiting does not stop the thread
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(function))
        except BaseException as error:  # handed to whoever waits
            future.set_exception(error)

    threading.Thread(target=work, name="orchestrator-action", daemon=True).start()
    return future
