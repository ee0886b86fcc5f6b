"""The session's open turn, which an invocation begins or goes on with.

Everything here happens before anything is spent.
"""

from __future__ import annotations

from orchestrator.engine.plan import Plan
from orchestrator.engine.run.input import Input
from orchestrator.engine.run.taken_results import take_results
from orchestrator.engine.run.turn_search import find_past_turn
from orchestrator.engine.run.turn_start import begin_turn, claim_turn, give_up_turn
from orchestrator.errors import SessionConflict, ValidationError
from orchestrator.message import clean
from orchestrator.sessions import Session, Sessions, TurnLog


def open_turn(plan: Plan, sessions: Sessions, session: Session, given: Input) -> TurnLog | None:
    """Opens the turn that an invocation runs, in the session's journal.

    A new question opens a new turn, and gives up one that waits for the caller or was left by a
    stopped process; the same question again, or none, goes on with such a turn. The same results
    or request id again get the same reply: then the log of the turn that has ended is returned,
    else `None`.

    Raises:
        ActionOutcomeUnknown: The session waits for a decision about calls of its open turn.
        ValidationError: There is nothing to do, or the results fit no hand-over.
        SessionConflict: Another process runs a turn of this session, or other results, which are
            no confirmations, were given for the same hand-over before.
    """
    if session.open is not None:
        sessions.refuse_running(session)
    if given.results is not None:
        return take_results(plan, sessions, session, given)
    if (
        given.request_id
        and session.count
        and (known := _find_request(plan, session, given, sessions))
    ):
        if known is not session.open or known.suspend_record:
            return known
        claim_turn(plan, sessions, session, known, given)
        return None
    log = session.open
    if log is not None and log.decision_request and not given.closing:
        from orchestrator.engine.undecided_calls import build_undecided_error

        raise build_undecided_error(log, given.session_id)
    if log is not None and not log.suspend_record:
        # To end a session is no reason to carry out what a stopped process left undone in it.
        goes_on = not given.closing or "closing" in log.start.get("with", {})
        if goes_on and clean(given.question) in ("", log.start["question"]):
            claim_turn(plan, sessions, session, log, given)
            return None
    if not given.question.strip() and not given.closing:
        raise ValidationError(
            "the question is empty; give the user's input, or the results of the calls that "
            "control was returned for"
        )
    if log is not None:
        give_up_turn(plan, sessions, session, log, given)
    begin_turn(plan, sessions, session, given)
    return None


def _find_request(plan: Plan, session: Session, given: Input, sessions: Sessions) -> TurnLog | None:
    """The turn that an earlier invocation with the same request id has opened."""
    log = session.open
    if log is None or log.start["id"] != given.request_id:
        log = find_past_turn(plan, sessions, session, given.request_id)
    if log is not None and clean(given.question) not in ("", log.start["question"]):
        raise SessionConflict(
            f"request_id {given.request_id!r} was used for another question in session "
            f"{given.session_id!r}; a new question has a new id"
        )
    return log
