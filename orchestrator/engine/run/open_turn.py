"""The beginning of an invocation: checks of what the caller gave, and the session's open turn.

Everything here happens before anything is spent.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.actions.base import Call
from orchestrator.engine.attachments import files_for
from orchestrator.engine.effects import Branch, Branches, Dispatch
from orchestrator.engine.plan import Plan
from orchestrator.engine.run.input import Input
from orchestrator.engine.run.journal_feed import build_version_conflict
from orchestrator.engine.run.replay import Replay
from orchestrator.engine.run.restore import restore_history
from orchestrator.errors import ActionOutcomeUnknown, SessionConflict, ValidationError
from orchestrator.message import clean
from orchestrator.prompts.steps import EMPTY
from orchestrator.sessions import Record, Session, Sessions, TurnLog
from orchestrator.sessions.journal import VERSION, build_cancelled_record, build_closed_record

_AT_ONCE = 256  # ids of one system call, which costs as much as a good part of a turn

# Ids that nobody has seen. Each is handed out once (`pop` is atomic), and a child process makes
# its own.
_unused_ids: list[str] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unused_ids.clear)


def _collect_knowledge_bases(plan: Plan) -> set[str]:
    # Collaborators search with the same configurations.
    members = [it.agent for it in plan.collaborators.values() if it.agent is not None]
    return set(plan.knowledge_bases).union(*map(_collect_knowledge_bases, members))


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
        return _take_results(plan, sessions, session, given)
    if (
        given.request_id
        and session.count
        and (known := _find_request(plan, session, given, sessions))
    ):
        if known is not session.open or known.suspend_record:
            return known
        _claim(plan, sessions, session, known, given)
        return None
    log = session.open
    if log is not None and log.decision_request and not given.closing:
        from orchestrator.engine.undecided_calls import build_undecided_error

        raise build_undecided_error(log, given.session_id)
    if log is not None and not log.suspend_record:
        # To end a session is no reason to carry out what a stopped process left undone in it.
        goes_on = not given.closing or "closing" in log.start.get("with", {})
        if goes_on and clean(given.question) in ("", log.start["question"]):
            _claim(plan, sessions, session, log, given)
            return None
    if not given.question.strip() and not given.closing:
        raise ValidationError(
            "the question is empty; give the user's input, or the results of the calls that "
            "control was returned for"
        )
    if log is not None:
        _give_up(sessions, session, log, given)
    _begin(plan, sessions, session, given)
    return None


class NewTurn:
    """A turn that can begin in a session as it is known, before its journal is read."""

    def __init__(self, plan: Plan, sessions: Sessions, given: Input) -> None:
        self._plan, self._sessions, self._given = plan, sessions, given
        self._record: Record | None = None

    @property
    def is_simple(self) -> bool:
        """Whether nothing has to be known but the session's state, and the plan is kept."""
        given, plan = self._given, self._plan
        return (
            bool(given.question.strip())
            and plan.digest in self._sessions.plans
            and plan.features.memory is None
            and not (given.results or given.request_id or given.conversation_history)
            and not given.closing
        )

    def build(self, session: Session) -> Record:
        """The record with which it begins."""
        self._record = _turn_record(self._plan, self._sessions, session, self._given)
        return self._record

    def is_open_in(self, session: Session) -> bool:
        """Whether it is the session's open turn."""
        return session.open is not None and session.open.start is self._record


def _find_request(plan: Plan, session: Session, given: Input, sessions: Sessions) -> TurnLog | None:
    """The turn that an earlier invocation with the same request id has opened."""
    log = session.open
    if log is None or log.start["id"] != given.request_id:
        log = _find_past_turn(plan, sessions, session, given.request_id)
    if log is not None and clean(given.question) not in ("", log.start["question"]):
        raise SessionConflict(
            f"request_id {given.request_id!r} was used for another question in session "
            f"{given.session_id!r}; a new question has a new id"
        )
    return log


# The session has only what later turns need of the earlier ones: their logs are in the journal,
# which is read as a whole the first time, and then only where it has the turn.
def _find_past_turn(plan: Plan, sessions: Sessions, session: Session, id: str) -> TurnLog | None:
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


def _begin(plan: Plan, sessions: Sessions, session: Session, given: Input) -> None:
    sessions.begin(session, _turn_record(plan, sessions, session, given))
    keep_plan(plan, sessions)


def keep_plan(plan: Plan, sessions: Sessions) -> None:
    """Has what a plan's prompts are made of kept, unless it is."""
    if plan.digest not in sessions.plans:
        sessions.keep_plan(plan.digest, lambda: _take_snapshot(plan))


def _take_snapshot(plan: Plan) -> str:
    from orchestrator.engine.plan_snapshot import take_snapshot  # once in a plan's life

    return take_snapshot(plan)


def _claim(plan: Plan, sessions: Sessions, session: Session, log: TurnLog, given: Input) -> None:
    _check_version(plan, session, log)
    record: Record = {"kind": "claim", **_lease(plan, sessions, given)}
    _add_options(record, session, given)
    sessions.write(session, [record])


def _lease(plan: Plan, sessions: Sessions, given: Input) -> Record:
    lease = sessions.lease(plan.limits.seconds)
    if given.workflow and lease:
        lease["workflow"] = given.workflow
    return lease


def _add_options(record: Record, session: Session, given: Input) -> None:
    if given.session_attributes:
        record["attributes"] = {**session.attributes, **clean(dict(given.session_attributes))}
    if given.end_session:
        record["end_session"] = True


def _turn_record(plan: Plan, sessions: Sessions, session: Session, given: Input) -> Record:
    record: Record = {
        "kind": "turn",
        "v": VERSION,
        "id": given.request_id or request_id(),
        "at": sessions.clock(),
        "question": clean(given.question),
        "attributes": session.attributes,  # records are never changed, so they may share it
        "prompt_attributes": _NO_ATTRIBUTES,
        "plan": plan.digest,
    }
    if sessions.durable:
        record |= _lease(plan, sessions, given)
    if given.more or session.last_agent or session.memory_id or session.pending:
        _add_more(record, plan, sessions, session, given)
    return record


def _add_more(
    record: Record, plan: Plan, sessions: Sessions, session: Session, given: Input
) -> None:
    _add_options(record, session, given)
    if given.prompt_session_attributes:
        record["prompt_attributes"] = clean(dict(given.prompt_session_attributes))
    if given.conversation_history and not session.history:
        record["history"] = _alternate_roles(clean(list(given.conversation_history)))
        if plan.guardrail is not None:
            record["guards_history"] = True
    more = _more(plan, sessions, session, given)
    if given.closing:
        more["closing"] = True
    if more:
        record["with"] = more


def _load_memory(plan: Plan, sessions: Sessions, session: Session, given: Input) -> dict[str, Any]:
    memory, memory_id = plan.features.memory, given.memory_id or session.memory_id
    if memory is None or not memory_id:
        return {}
    if session.memory_id not in ("", memory_id):
        raise ValidationError(
            f"session {given.session_id!r} belongs to another memory: what was said in it would "
            f"be remembered under {memory_id!r}; end it first, or use another session id"
        )
    from orchestrator.memory.summaries import to_prompt_summaries

    most, now = memory.max_recent_sessions, sessions.clock()
    if not given.closing:
        memory.store.touch(plan.owner, memory_id, given.session_id, now)
    found = memory.store.recent(plan.owner, memory_id, now, most)
    summaries = {"summaries": clean(to_prompt_summaries(found))} if found else {}
    return {"memory_id": memory_id, **summaries}


def _more(plan: Plan, sessions: Sessions, session: Session, given: Input) -> dict[str, Any]:
    # What few turns have; written down, because a turn that is run again must find the same.
    more: dict[str, Any] = {}
    if plan.features.memory is not None:
        more.update(_load_memory(plan, sessions, session, given))
    if session.last_agent and plan.routing is not None:
        more["last_agent"] = session.last_agent
    if session.pending:
        more["pending"] = session.pending
    if given.retrieval:
        if unknown := set(given.retrieval) - _collect_knowledge_bases(plan):
            raise ValidationError(
                f"knowledge_bases has {sorted(unknown)}, which the agent does not search; there "
                f"are {', '.join(sorted(_collect_knowledge_bases(plan))) or 'none'}"
            )
        more["retrieval"] = clean(dict(given.retrieval))
    if given.files:
        more.update(files_for(plan, given.files))
    if given.previous_turns is not None:
        more["turns"] = given.previous_turns
    if given.exclude_thinking:
        more["thinking"] = False
    return more


_NO_ATTRIBUTES: dict[str, str] = {}


def _give_up(sessions: Sessions, session: Session, log: TurnLog, given: Input) -> None:
    at = sessions.clock()
    ending = [build_closed_record("ended", at)] if log.ends_session and not given.closing else []
    sessions.write(session, [build_cancelled_record(at), *ending])


def _take_results(plan: Plan, sessions: Sessions, session: Session, given: Input) -> TurnLog | None:
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
        if (past := _find_turn_of_ended_session(plan, sessions, session, id, digest)) is not None:
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
        **_lease(plan, sessions, given),
    }
    if "waits" in waits:
        record["branch"] = waits["waits"]
    _add_options(record, session, given)
    if given.prompt_session_attributes and record["kind"] == "returned":
        record["prompt_attributes"] = clean(dict(given.prompt_session_attributes))
    sessions.write(session, [record])
    return None


# A client that had no answer to the results with which it ended the session sends them again.
def _find_turn_of_ended_session(
    plan: Plan, sessions: Sessions, session: Session, invocation_id: str, digest: str
) -> TurnLog | None:
    for past, log in _iter_past_turns(sessions, session.label):
        known, answered = past.answered.get(invocation_id, ("", None))
        if answered is log and log.end and known == digest:
            restore_history(plan, past)
            return log
    return None


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
        _give_up(sessions, session, log, given)
        raise error from None
    return {"kind": "decided", "decisions": decisions}


def _find_answered_turn(
    plan: Plan, sessions: Sessions, session: Session, given: Input, log: TurnLog
) -> TurnLog | None:
    if log is session.open and not log.suspend_record:
        # The process stopped after it had taken them: go on.
        _claim(plan, sessions, session, log, given)
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
    _begin(plan, sessions, session, asked)


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


def _check_version(plan: Plan, session: Session, log: TurnLog) -> None:
    """Runs an open turn as far as its journal goes.

    Raises:
        SessionConflict: It was begun with another version of the agent; that one can still
            finish it, because nothing was written.
    """
    reached = Replay(plan, log, session).send(None)
    own = [record for record in log.records if not record.get("branch")]
    begun = {call["id"] for one in own if one["kind"] == "intent" for call in one["calls"]}
    begun -= {record["id"] for record in own if record["kind"] in ("action", "branch")}
    if begun:
        calls: Sequence[Call | Branch] = ()
        if isinstance(reached, (Dispatch, Branches)):
            calls = reached.calls if isinstance(reached, Dispatch) else reached.branches
        if not begun <= {call.id for call in calls}:
            raise build_version_conflict("has begun calls that this version does not make")


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


def _alternate_roles(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    # From the user's first message to an assistant's last, as templates and models need it.
    alternating: list[dict[str, Any]] = []
    for message in messages:
        content = [{"text": block["text"]} for block in message["content"] if block["text"].strip()]
        if not content:
            continue
        if alternating and alternating[-1]["role"] == message["role"]:
            alternating[-1]["content"] += content
        else:
            alternating.append({"role": message["role"], "content": content})
    if alternating and alternating[0]["role"] == "assistant":
        alternating.insert(0, {"role": "user", "content": [{"text": EMPTY}]})
    if alternating and alternating[-1]["role"] == "user":
        alternating.append({"role": "assistant", "content": [{"text": EMPTY}]})
    return alternating


def request_id() -> str:
    """A version 4 UUID, as `uuid.uuid4` makes it."""
    while True:
        try:
            return _unused_ids.pop()
        except IndexError:
            digits = os.urandom(16 * _AT_ONCE).hex()
            _unused_ids.extend(_uuid(digits[at : at + 32]) for at in range(0, len(digits), 32))


def _uuid(digits: str) -> str:
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
