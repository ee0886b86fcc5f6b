"""The search of a journal for a turn of a session that has ended.

A session has only what later turns need of the earlier ones; their logs are in the journal.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.engine.plan import Plan
from orchestrator.engine.run.restore import restore_history
from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.sessions import Session, Sessions, TurnLog


def find_past_turn(plan: Plan, sessions: Sessions, session: Session, id: str) -> TurnLog | None:
    """The turn with a request id, with its end or as it waited when the session was closed.

    The journal is read as a whole the first time, and then only if it has the turn.

    Raises:
        ActionOutcomeUnknown: The session was closed before the turn had its end, and actions had
            begun.
    """
    label = session.label
    if session.turn_ids is None:
        session.turn_ids = {it["id"] for it in sessions.records(label) if it["kind"] == "turn"}
    if id not in session.turn_ids:
        return None
    lost: TurnLog | None = None
    for past, log in _iter_past_turns(sessions, label):
        if log.start["id"] != id:
            continue
        if log.end:
            restore_history(plan, past)
            return log
        lost = log
    return None if lost is None else _check_lost_turn(lost, label)


def find_turn_of_ended_session(
    plan: Plan, sessions: Sessions, session: Session, invocation_id: str, digest: str
) -> TurnLog | None:
    """The turn that took the same results, in a session that has ended since.

    A client that had no answer to the results with which it ended the session sends them again.
    """
    for past, log in _iter_past_turns(sessions, session.label):
        known, answered = past.answered.get(invocation_id, ("", None))
        if answered is log and log.end and known == digest:
            restore_history(plan, past)
            return log
    return None


def _iter_past_turns(sessions: Sessions, label: str) -> Iterator[tuple[Session, TurnLog]]:
    """The turns of a journal that have ended, or were open when the session was closed.

    Each comes with the session as it was then.
    """
    past = Session("", label)
    for record in sessions.records(label):
        log = past.open
        past.apply([record])
        if log is not None and record["kind"] in ("end", "closed"):
            yield past, log


# The session was closed before the turn had its end: a stopped process has left it, or it waited.
def _check_lost_turn(log: TurnLog, label: str) -> TurnLog | None:
    if log.suspend_record and not log.decision_request:
        return log
    begun = [it for record in log.records if record["kind"] == "intent" for it in record["calls"]]
    if not begun:
        return None  # nothing but models was asked
    calls = ", ".join(f"{it['name']!r} (idempotency key {it['key']!r})" for it in begun)
    raise ActionOutcomeUnknown(
        f"the turn {log.start['id']} was left unfinished in session {label.rsplit('/', 1)[-1]!r}, "
        f"which has ended since; it had begun {calls}, and nothing is carried out again: look at "
        "the system that they act on, or ask with another request_id",
        resource=begun[0]["name"],
    )
