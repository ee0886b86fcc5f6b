"""The beginning and the end of an invocation, whichever way it is driven between them."""

from __future__ import annotations

from orchestrator.effects import Failure
from orchestrator.opening import Input, open_turn
from orchestrator.replies import reply_again, reply_of
from orchestrator.reply import Reply
from orchestrator.run import Run, restore_history
from orchestrator.sessions import Session, Sessions
from orchestrator.stages import Plan

__all__ = ["begun", "ended"]


def begun(plan: Plan, sessions: Sessions, session: Session, given: Input) -> Run | Reply:
    """A run to be driven, or the reply of a turn that had ended already.

    Args:
        plan: The agent.
        sessions: Where the session lives.
        session: The session, acquired. The run releases it; so does a failure.
        given: What the caller gave, checked.

    Raises:
        OrchestratorError: The turn cannot begin.
    """
    try:
        if session.unread:
            restore_history(plan, session)
        finished = open_turn(plan, sessions, session, given)
        if finished is None:
            if session.unread:  # a turn was given up
                restore_history(plan, session)
            run = Run(plan, sessions, session, given.session_id)
            run.guard_interval = given.guard_interval
            return run
        reply = reply_again(plan, session, finished, given.session_id)
    except BaseException:
        sessions.release(session)
        raise
    sessions.release(session)
    return reply


def ended(run: Run) -> Reply:
    """The reply of a run that was driven to its end.

    Raises:
        OrchestratorError: The turn failed; `error.reply` holds what it had done.
    """
    reply = reply_of(run)
    if isinstance(run.result, Failure):
        error = run.result.error
        error.reply = reply
        raise error
    return reply
