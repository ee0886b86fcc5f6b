"""Waiting for a store that is away: a durable turn outlasts its database's outage."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from orchestrator.errors import DependencyFailed
from orchestrator.support.logs import get_logger

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds between two tries
_log = get_logger("orchestrator.sessions")


def outlast(work: Callable[[], T]) -> T:
    """Does work again as long as its store is away, however long that is; blocks meanwhile.

    Raises:
        OrchestratorError: The work failed for any other reason.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            done = work()
        except DependencyFailed as error:
            if not error.is_outage:
                raise
            if pause == _FIRST_PAUSE:
                _log.warning("a durable turn waits until its sessions are back: %s", error)
        else:
            if pause != _FIRST_PAUSE:
                _log.warning("the sessions are back, and a durable turn goes on")
            return done
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
