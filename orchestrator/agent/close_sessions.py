"""Closing sessions that belong to a memory: each is summarised before it ends."""

from __future__ import annotations

from contextlib import suppress

from orchestrator.agent.invoke import begin_run, finish_run
from orchestrator.engine.plan import Plan
from orchestrator.engine.run.input import Input
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.threads import run_turn
from orchestrator.errors import OrchestratorError, SessionConflict
from orchestrator.sessions import NEVER, Sessions, session_label


def close_session(plan: Plan, sessions: Sessions, session_id: str, *, idle: bool = False) -> bool:
    """Summarises and ends a session, unless that fails; whether there was anything to summarise.

    One that waits for a decision is not `idle`, and only ends when its user says so.
    """
    session = sessions.acquire(session_label(plan.owner, session_id), NEVER)
    if idle and session.open is not None and session.open.decision_request:
        sessions.release(session)
        return False
    if not session.talk or not session.memory_id:
        sessions.release(session)
        memory = plan.features.memory
        if memory is not None:
            memory.store.settle(plan.owner, session_id)
        return False
    # Its summary is a turn without a question, so that the journal has it too.
    request = Input("", session_id, end_session=True, closing=True, more=True)
    run = begin_run(plan, sessions, session, request)
    if isinstance(run, Run):
        run_turn(run)
        finish_run(run)
    return True


def close_idle(plan: Plan, sessions: Sessions, memory_id: str | None = None) -> list[str]:
    """Ends the sessions that were idle for their time-out; those that were summarised.

    Raises the first error when it is done; sessions that failed wait for the next time.
    """
    memory = plan.features.memory
    if memory is None:
        return []
    before = sessions.clock() - plan.idle_ttl
    closed: list[str] = []
    failed: OrchestratorError | None = None
    for session_id in memory.store.find_unsummarised(plan.owner, before, memory_id):
        try:
            if close_session(plan, sessions, session_id, idle=True):
                closed.append(session_id)
        except SessionConflict:
            continue  # it is not idle
        except OrchestratorError as error:  # which must not keep the others from theirs
            failed = failed or error
    if failed is not None:
        raise failed
    return closed


def close_before(plan: Plan, sessions: Sessions, request: Input) -> None:
    """Ends the sessions that should have ended before an invocation.

    One that cannot be summarised now does not keep the user from the next one.
    """
    memory = plan.features.memory
    if memory is None:
        return
    if request.memory_id:
        with suppress(OrchestratorError):
            close_idle(plan, sessions, request.memory_id)
    # Nor is one lost that goes on too late, and in whose name nobody asks for its memory.
    before = sessions.clock() - plan.idle_ttl
    with suppress(OrchestratorError):
        idle = memory.store.find_unsummarised(plan.owner, before)
        if request.session_id in idle or _is_ended_by(plan, sessions, request):
            close_session(plan, sessions, request.session_id, idle=True)


def _is_ended_by(plan: Plan, sessions: Sessions, request: Input) -> bool:
    # A question that abandons a turn with which the session was to end.
    session = sessions.acquire(session_label(plan.owner, request.session_id), NEVER)
    try:
        log = session.open if request.results is None else None
        return log is not None and log.suspend_record is not None and log.ends_session
    finally:
        sessions.release(session)
