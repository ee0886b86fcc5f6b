"""What is written to a session between its turns: its end, a turn undone, a turn cancelled."""

from __future__ import annotations

from orchestrator.errors import SessionBusy, ValidationError
from orchestrator.sessions.journal import (
    build_cancelled_record,
    build_closed_record,
    build_undone_record,
)
from orchestrator.sessions.sessions import Sessions
from orchestrator.sessions.store_use import NEVER


def end_session(sessions: Sessions, label: str) -> None:
    """Ends a session: its next turn begins with no attributes and no conversation.

    Raises:
        SessionConflict: A turn of it is running.
        DependencyFailed: The store, or the session's journal in it, cannot be read.
    """
    session = sessions.acquire(label, NEVER)
    try:
        sessions.refuse_running(session)
        if session.count:
            sessions.write(session, [build_closed_record("ended", sessions.clock())])
    finally:
        sessions.release(session)


def cancel_left_turn(sessions: Sessions, label: str, workflow: str) -> None:
    """Ends the open turn of a cancelled workflow, if no process runs it.

    Raises:
        DependencyFailed: The store, or the session's journal in it, cannot be read or written.
    """
    try:
        session = sessions.acquire(label, NEVER)
    except SessionBusy:
        return  # whoever runs it finds the workflow cancelled
    try:
        log = session.open
        is_left = log is not None and log.workflow == workflow and not log.suspend_record
        if log is not None and is_left and not sessions.is_running(log):
            sessions.write(session, [build_cancelled_record(sessions.clock())])
    except SessionBusy:
        return
    finally:
        sessions.abandon(session)


def undo_last_turn(sessions: Sessions, label: str, ttl: int) -> None:
    """Undoes the last turn of a session, whether or not it has ended.

    Its records stay in the journal, and no reader sees them any more. `ttl` is as for
    `Sessions.acquire`.

    Raises:
        SessionConflict: A turn of it is running.
        ValidationError: It has no turn since it began.
        DependencyFailed: The store, or the session's journal in it, cannot be read.
    """
    session = sessions.acquire(label, ttl)
    try:
        sessions.refuse_running(session)
        turn = _find_last_turn(sessions, label)
        if turn is None:
            raise ValidationError(
                f"session {label.rsplit('/', 1)[-1]!r} has no turn that can be undone: nothing "
                "was asked in it since it began"
            )
        sessions.write(session, [build_undone_record(turn, sessions.clock())])
        sessions.forget(session)  # what it has of the turn cannot be taken out
    finally:
        sessions.release(session)


def _find_last_turn(sessions: Sessions, label: str) -> str | None:
    last = None
    for record in sessions.records(label):
        if record["kind"] == "turn":
            last = record
        elif record["kind"] == "closed":
            last = None
    return None if last is None else str(last["id"])
