"""The records with which a turn begins, goes on in another process, and is given up."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Call
from orchestrator.engine.attachments import files_for
from orchestrator.engine.effects import Branch, Branches, Dispatch
from orchestrator.engine.plan import Plan
from orchestrator.engine.run.input import Input
from orchestrator.engine.run.journal_feed import build_version_conflict
from orchestrator.engine.run.replay import Replay
from orchestrator.errors import ValidationError
from orchestrator.message import clean
from orchestrator.prompts.steps import EMPTY
from orchestrator.sessions import Record, Session, Sessions, TurnLog
from orchestrator.sessions.journal import VERSION, build_cancelled_record, build_closed_record

_NO_ATTRIBUTES: dict[str, str] = {}
_AT_ONCE = 256  # ids of one system call, which costs as much as a good part of a turn

# Ids that nobody has seen. Each is handed out once (`pop` is atomic), and a child process makes
# its own.
_unused_ids: list[str] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unused_ids.clear)


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
        self._record = _build_turn_record(self._plan, self._sessions, session, self._given)
        return self._record

    def is_open_in(self, session: Session) -> bool:
        """Whether it is the session's open turn."""
        return session.open is not None and session.open.start is self._record


def begin_turn(plan: Plan, sessions: Sessions, session: Session, given: Input) -> None:
    """Writes a new turn into the session's journal, and keeps the plan that it has."""
    sessions.begin(session, _build_turn_record(plan, sessions, session, given))
    keep_plan(plan, sessions)


def _build_turn_record(plan: Plan, sessions: Sessions, session: Session, given: Input) -> Record:
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
        record |= build_lease(plan, sessions, given)
    if given.more or session.last_agent or session.memory_id or session.pending:
        _add_more(record, plan, sessions, session, given)
    return record


def build_lease(plan: Plan, sessions: Sessions, given: Input) -> Record:
    """Members of a record that say which process runs the turn from there on, and until when."""
    lease = sessions.lease(plan.limits.seconds)
    if given.workflow and lease:
        lease["workflow"] = given.workflow
    return lease


def add_options(record: Record, session: Session, given: Input) -> None:
    """Adds the caller's session attributes to a record, and whether the session is to end."""
    if given.session_attributes:
        record["attributes"] = {**session.attributes, **clean(dict(given.session_attributes))}
    if given.end_session:
        record["end_session"] = True


def _add_more(
    record: Record, plan: Plan, sessions: Sessions, session: Session, given: Input
) -> None:
    add_options(record, session, given)
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


def _collect_knowledge_bases(plan: Plan) -> set[str]:
    # Collaborators search with the same configurations.
    members = [it.agent for it in plan.collaborators.values() if it.agent is not None]
    return set(plan.knowledge_bases).union(*map(_collect_knowledge_bases, members))


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


def claim_turn(
    plan: Plan, sessions: Sessions, session: Session, log: TurnLog, given: Input
) -> None:
    """Has this process go on with a turn that another one has left.

    Raises:
        SessionConflict: Its journal fits another version of the agent, or another process was
            faster.
    """
    _check_version(plan, session, log)
    record: Record = {"kind": "claim", **build_lease(plan, sessions, given)}
    add_options(record, session, given)
    sessions.write(session, [record])


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


def give_up_turn(
    plan: Plan, sessions: Sessions, session: Session, log: TurnLog, given: Input
) -> None:
    """Ends an open turn without an answer, and its session too if that is over.

    It was to end with the turn, or was idle for too long. But a session in which a stopped process
    had begun to call actions goes on, so that the model says what became of them.
    """
    at = sessions.clock()
    records = [build_cancelled_record(at)]
    is_idle = at - session.active > plan.idle_ttl
    if given.closing:  # the turn that comes next ends it
        pass
    elif log.ends_session:
        records.append(build_closed_record("ended", at))
    elif is_idle and not any(it["kind"] == "intent" for it in log.records):
        records.append(build_closed_record("idle", at))
    sessions.write(session, records)


def keep_plan(plan: Plan, sessions: Sessions) -> None:
    """Has what a plan's prompts are made of kept, unless it is."""
    if plan.digest not in sessions.plans:
        sessions.keep_plan(plan.digest, lambda: _take_snapshot(plan))


def _take_snapshot(plan: Plan) -> str:
    from orchestrator.engine.plan_snapshot import take_snapshot  # once in a plan's life

    return take_snapshot(plan)


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
