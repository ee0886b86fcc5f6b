"""Results and decisions that a caller gives, taken by the turn that waits for them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.engine.plan import Plan
from orchestrator.engine.run.input import Input
from orchestrator.engine.run.turn_search import find_turn_of_ended_session
from orchestrator.engine.run.turn_start import (
    add_options,
    begin_turn,
    build_lease,
    claim_turn,
    give_up_turn,
)
from orchestrator.errors import SessionConflict, ValidationError
from orchestrator.message import clean
from orchestrator.sessions import Record, Session, Sessions, TurnLog


def take_results(plan: Plan, sessions: Sessions, session: Session, given: Input) -> TurnLog | None:
    """Writes the results into the journal of the turn that waits for them.

    The same results again give the log of the turn that took them, if it has ended; else `None` is
    returned, and the session's open turn is the one to run.

    Raises:
        ValidationError: They fit no hand-over.
        SessionConflict: Other results, which are no confirmations, were given for it before, or
            another version of the agent has handed the calls over.
    """
    id, results = _control_results(given.results)
    results = clean(results)
    digest = _digest(results)
    if id in session.answered:
        known, answered = session.answered[id]
        if known == digest:
            return _find_answered_turn(plan, sessions, session, given, answered)
        first = next(
            it for it in answered.records if it.get("invocation_id") == id and "digest" in it
        )
        if first["kind"] == "decided":
            raise SessionConflict(f"something else was decided for invocation id {id!r}; it stands")
        _begin_second_answer(plan, sessions, session, given, (first, results))
        return None
    log = session.open
    waits = log.suspend_record if log is not None else None
    if log is None or waits is None or waits["invocation_id"] != id:
        if (past := find_turn_of_ended_session(plan, sessions, session, id, digest)) is not None:
            return past
        raise ValidationError(
            f"no call waits for results under invocation id {id!r} in session "
            f"{given.session_id!r}: it was never handed over here, or the session has gone on or "
            "expired"
        )
    record = _read_given_results(plan, sessions, session, given, log, results)
    record |= {
        "invocation_id": id,
        "digest": digest,
        "at": sessions.clock(),
        **build_lease(plan, sessions, given),
    }
    if "waits" in waits:
        record["branch"] = waits["waits"]
    add_options(record, session, given)
    if given.prompt_session_attributes and record["kind"] == "returned":
        record["prompt_attributes"] = clean(dict(given.prompt_session_attributes))
    sessions.write(session, [record])
    return None


def _control_results(given: Any) -> tuple[str, list[dict[str, Any]]]:
    if not isinstance(given, Mapping):
        given = {}
    id, results = given.get("invocationId"), given.get("returnControlInvocationResults")
    if not isinstance(id, str) or not isinstance(results, list) or not results:
        raise ValidationError(
            "results need 'invocationId' and a list 'returnControlInvocationResults'; make them "
            "with `reply.return_control.answer({...})`"
        )
    return id, results


def _digest(results: list[dict[str, Any]]) -> str:
    try:
        text = json.dumps(results, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"the results are not JSON: {error}") from error
    return hashlib.sha256(text.encode()).hexdigest()


def _read_given_results(
    plan: Plan,
    sessions: Sessions,
    session: Session,
    given: Input,
    log: TurnLog,
    results: Sequence[Mapping[str, Any]],
) -> Record:
    from orchestrator.engine.run.given_results import (
        check_results,
        gives_all_up,
        read_turn_decisions,
    )

    if not log.decision_request:
        check_results(plan, session, log, results)
        return {"kind": "returned", "results": results}
    try:
        decisions = read_turn_decisions(plan, session, log, results)
    except SessionConflict:  # of another version of the agent, which can only end it
        if not gives_all_up(log, results):
            raise
        from orchestrator.engine.undecided_calls import build_given_up_error

        error = build_given_up_error(log, given.session_id)
        give_up_turn(plan, sessions, session, log, given)
        raise error from None
    return {"kind": "decided", "decisions": decisions}


def _find_answered_turn(
    plan: Plan, sessions: Sessions, session: Session, given: Input, log: TurnLog
) -> TurnLog | None:
    if log is session.open and not log.suspend_record:
        # The process stopped after it had taken them: go on.
        claim_turn(plan, sessions, session, log, given)
        return None
    return log


# Published code confirms a call and then denies it (facts: bedrock.md §10), and expects an answer.
# What was done stays done, so the second answer is a turn in which the model is told of both.
def _begin_second_answer(
    plan: Plan,
    sessions: Sessions,
    session: Session,
    given: Input,
    answers: tuple[Record, list[dict[str, Any]]],
) -> None:
    first, results = answers
    states = dict.fromkeys(_describe_confirmation(it) for it in results)
    # The names become words of the user: they have to be those of calls that there were.
    known = {_name_call(it) for it in first["results"]}
    is_known = {_name_call(it) for it in results} <= known
    if session.open is not None or not all(states) or not is_known:
        raise SessionConflict(
            f"other results were already given for invocation id {first['invocation_id']!r}; they "
            "stand"
        )
    text = (
        f"About a call that I have answered before: my answer is now {', '.join(states)}. What was "
        "done after the first answer stays done."
    )
    asked = replace(given, question=text, results=None)
    begin_turn(plan, sessions, session, asked)


def _describe_confirmation(result: dict[str, Any]) -> str:
    """Such as `DENY for hr::book`; empty for a result that is no confirmation."""
    member = next(iter(result.values()), None)
    if not isinstance(member, dict) or member.get("confirmationState") not in ("CONFIRM", "DENY"):
        return ""
    return f"{member['confirmationState']} for {_name_call(result)}"


def _name_call(result: dict[str, Any]) -> str:
    """Such as `hr::book`; empty for what is no result."""
    member = next(iter(result.values()), None)
    if not isinstance(member, dict):
        return ""
    name = member.get("function") or f"{member.get('httpMethod')}::{member.get('apiPath')}"
    return f"{member.get('actionGroup')}::{name}"
