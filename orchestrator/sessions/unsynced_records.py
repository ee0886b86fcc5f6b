"""Records that a crash of the database may take back, of a store that does not sync every append.

What is acted upon is synced: see `needs_sync`. The process that wrote the others writes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from orchestrator.errors import SessionConflict
from orchestrator.sessions.journal import Record, SessionStore, needs_sync
from orchestrator.sessions.journal_reading import is_same
from orchestrator.sessions.session import Session


def append_synced(
    append: Callable[..., int | None],
    store: SessionStore,
    session: Session,
    records: Sequence[Record],
    at: int,
) -> int | None:
    """Appends records, synced where they must be, after those that a crash has lost.

    `append` makes an append of the session, and this returns what that does.

    Raises:
        SessionConflict: Another process wrote to the session; nothing was written.
        DependencyFailed: The store failed; nothing was written.
    """
    sync, since = needs_sync(records), session.written_at if session.unsynced else 0
    try:
        length = append(session, session.count, records, at, sync=sync, since=since)
    except SessionConflict:
        lost = _find_lost(store, session)
        if not lost:
            raise
        sync = True
        length = append(session, session.count - len(lost), [*lost, *records], at)
    session.unsynced = 0 if sync else session.unsynced + len(records)
    return length


def _find_lost(store: SessionStore, session: Session) -> Sequence[Record]:
    # The last records, if the database has crashed and lost them, and nobody wrote meanwhile.
    log, most = session.open, session.unsynced
    if log is None or most > len(log):
        return ()  # the turn is lost, or deleted, and nothing was carried out in it
    known = log[-most - 1 :]  # with one that is there, or from the turn's beginning
    left = store.load(session.key, session.count - len(known))
    is_start = left and all(map(is_same, left, known))
    return known[len(left) :] if is_start else ()


def sync_open_turn(store: Any, session: Session, read: Callable[[Session], None]) -> None:
    """Syncs what was read of an open turn, and reads on: no crash may take it back from here on."""
    known: Record | None = None
    while (last := session.last) is not known and last is not None and not needs_sync([last]):
        known = last
        store.sync()
        read(session)
