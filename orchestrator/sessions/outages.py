"""Waiting for a store that is away: a durable turn outlasts its database's outage."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from orchestrator.errors import DependencyFailed
from orchestrator.support.logs import get_logger

T = TypeVar("T")

MOST_SECONDS = 3600.0
"""For so long a turn waits for a store. What is still wrong then is no outage."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds between two tries
_LOGGED_AGAIN = 60.0  # seconds
_log = get_logger("orchestrator.sessions")
_stopped = Event()


def outlast(work: Callable[[], T], clock: Callable[[], float] = time.monotonic) -> T:
    """Does work again as long as its store is away; blocks meanwhile.

    Raises:
        DependencyFailed: The store is away for `MOST_SECONDS`, or `stop_waiting` was called.
        OrchestratorError: The work failed for any other reason.
    """
    pause, began, logged = _FIRST_PAUSE, clock(), -_LOGGED_AGAIN
    while True:
        try:
            done = work()
        except DependencyFailed as error:
            away = clock() - began
            if not error.is_outage or away > MOST_SECONDS or _stopped.is_set():
                raise
            if away - logged >= _LOGGED_AGAIN:
                logged = away
                _log.warning("a durable turn waits, for %.0f seconds by now: %s", away, error)
        else:
            if pause != _FIRST_PAUSE:
                _log.warning("the database is back, and a durable turn goes on")
            return done
        _stopped.wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def stop_waiting() -> None:
    """Has whatever waits for a store fail, now and until `allow_waiting`."""
    _stopped.set()


def allow_waiting() -> None:
    """Undoes `stop_waiting`."""
    _stopped.clear()
