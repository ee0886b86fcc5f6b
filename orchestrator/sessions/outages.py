"""Waiting for a store that is away: a durable turn outlasts its database's outage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from orchestrator.errors import DependencyFailed, SessionBusy
from orchestrator.sessions.journal import Record
from orchestrator.sessions.journal_reading import is_same
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    from orchestrator.sessions.rows import Encoded
    from orchestrator.sessions.session import Session
    from orchestrator.sessions.sessions import Sessions

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


def write_when_back(
    sessions: Sessions,
    session: Session,
    records: Sequence[Record],
    encoded: Sequence[Encoded] = (),
) -> int:
    """`Sessions.write`, which waits for a store that is away.

    Returns:
        For how many nanoseconds it has waited.

    Raises:
        SessionBusy: Another process wrote to the session; nothing was written.
        DependencyFailed: The store failed for another reason, or does not come back.
    """
    began = time.monotonic_ns()
    try:
        sessions.write(session, records, encoded)
    except DependencyFailed as error:
        if not error.is_outage:
            raise
    else:
        return 0
    outlast(partial(_write_or_find, sessions, session, records, encoded))
    return time.monotonic_ns() - began


def _write_or_find(
    sessions: Sessions, session: Session, records: Sequence[Record], encoded: Sequence[Encoded]
) -> None:
    try:
        sessions.write(session, records, encoded)
    except SessionBusy:
        # An append that an outage has cut off may have been made all the same.
        found = sessions.store.load(session.key, session.count)
        if len(found) != len(records) or not all(map(is_same, found, records)):
            raise
        session.unsynced = 0
        sessions.take_records(session, records, sessions.clock(), None)


def stop_waiting() -> None:
    """Has whatever waits for a store fail, now and until `allow_waiting`."""
    _stopped.set()


def allow_waiting() -> None:
    """Undoes `stop_waiting`."""
    _stopped.clear()
