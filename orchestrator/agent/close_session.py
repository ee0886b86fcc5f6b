"""Ending the sessions that belong to a memory: each is summarised first, by a model."""

from __future__ import annotations

from contextlib import suppress

from orchestrator.agent.invoke import begin_run, finish_run
from orchestrator.engine.plan import Plan
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.open_turn import Input
from orchestrator.engine.run.threads import run_turn
from orchestrator.errors import OrchestratorError, SessionConflict
from orchestrator.sessions import NEVER, Sessions


def close_session(plan: Plan, sessions: Sessions, session_id: str) -> bool:
    """Ends a session by a turn without a question, which only summarises it.

    Returns:
        Whether there was anything to summarise.

    Raises:
        SessionConflict: A turn of the session is running.
        OrchestratorError: The session could not be summarised; it has not ended then.
    """
    session = sessions.acquire(_label(plan, session_id), NEVER)
    if not session.talk or not session.memory_id:
        sessions.release(session)
        memory = plan.features.memory
        if memory is not None:
            memory.store.settle(plan.owner, session_id)
        return False
    given = Input("", session_id, end_session=True, closing=True, more=True)
    run = begin_run(plan, sessions, session, given)
    if isinstance(run, Run):
        run_turn(run)
        finish_run(run)
    return True


def close_idle(plan: Plan, sessions: Sessions, memory_id: str | None = None) -> list[str]:
    """Ends the sessions that have been idle for longer than their time-out.

    Args:
        plan: The agent.
        sessions: Where its sessions live.
        memory_id: One memory; all of the agent's when `None`.

    Returns:
        The sessions that were summarised.

    Raises:
        OrchestratorError: Some could not be summarised, and wait for the next time; the others
            were.
    """
    memory = plan.features.memory
    if memory is None:
        return []
    before = sessions.clock() - plan.idle_ttl
    closed: list[str] = []
    failed: OrchestratorError | None = None
    for session_id in memory.store.find_unsummarised(plan.owner, before, memory_id):
        try:
            if close_session(plan, sessions, session_id):
                closed.append(session_id)
        except SessionConflict:
            continue  # it is not idle
        except OrchestratorError as error:  # which must not keep the others from theirs
            failed = failed or error
    if failed is not None:
        raise failed
    return closed


def close_before(plan: Plan, sessions: Sessions, given: Input) -> None:
    """Ends the sessions that should have ended before an invocation.

    One that cannot be summarised now does not keep the user from the next one.

    Args:
        plan: The agent.
        sessions: Where its sessions live.
        given: The invocation.
    """
    memory = plan.features.memory
    if memory is None:
        return
    if given.memory_id:
        with suppress(OrchestratorError):
            close_idle(plan, sessions, given.memory_id)
    # Nor is one lost that goes on too late, and in whose name nobody asks for its memory.
    before = sessions.clock() - plan.idle_ttl
    with suppress(OrchestratorError):
        idle = memory.store.find_unsummarised(plan.owner, before)
        if given.session_id in idle or _is_ended_by(plan, sessions, given):
            close_session(plan, sessions, given.session_id)


def _is_ended_by(plan: Plan, sessions: Sessions, given: Input) -> bool:
    # A question that gives up a turn with which the session was to end.
    session = sessions.acquire(_label(plan, given.session_id), NEVER)
    try:
        log = session.open if given.results is None else None
        return log is not None and log.suspend_record is not None and log.ends_session
    finally:
        sessions.release(session)


def _label(plan: Plan, session_id: str) -> str:
    return f"{plan.owner}/{session_id}"
