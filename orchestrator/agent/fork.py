"""A fork: a past turn in a session of its own, to go on from one of its model calls.

What happened before that call is copied, so that it is answered from the journal: no model is
asked, no action runs. The original is not touched. The copy is what a process leaves that stops
there, also within a collaborator's work: what others did at the same time goes on from where it
was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from orchestrator.engine.plan import Plan
from orchestrator.engine.run.input import check_id
from orchestrator.engine.run.turn_start import request_id
from orchestrator.engine.trace.past_turns import change_results
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.sessions import Record, Sessions, session_label

_LEASE = ("owner", "until")
# What is of no use in a copy: who went on with a turn, and that another one was undone.
_LEFT_OUT = ("claim", "undone")


def fork_session(
    plan: Plan,
    sessions: Sessions,
    session_id: str,
    turn: str,
    *,
    call: int | None,
    new_session_id: str,
    results: Mapping[int, str],
) -> None:
    """Writes the fork; the arguments are those of `Agent.fork`."""
    check_id("session_id", session_id)
    check_id("new_session_id", new_session_id)
    label = session_label(plan.owner, session_id)
    new_label = session_label(plan.owner, new_session_id)
    records = list(sessions.records(label))
    first = _find_turn(records, turn, session_id)
    before = _take_session_before(records, first)
    copied = [] if call is None else _cut_turn(records, first, call)
    if call is not None:
        copied = _begin_anew(copied, plan, sessions, {"session": session_id, "turn": turn}, call)
        copied = change_results(copied, results)
    elif results:
        raise ValidationError("results belong to a turn's actions: name the call to go on from")
    if next(iter(sessions.records(new_label)), None) is not None:
        raise ValidationError(
            f"there is a session {new_session_id!r} already; give the fork another id"
        )
    if before or copied:
        if call is not None:
            sessions.keep_plan(plan.digest, lambda: _take_snapshot(plan))
        key, now = sessions.key(new_label), sessions.clock()
        # A fork of an old session is not idle: it begins now.
        news = [*_move_to(before, now), *copied]
        sessions.store.append(key, 0, news, label=new_label, at=now)


def _take_snapshot(plan: Plan) -> str:
    from orchestrator.engine.plan_snapshot import take_snapshot

    return take_snapshot(plan)


def _find_turn(records: Sequence[Record], turn: str, session_id: str) -> int:
    for place, record in enumerate(records):
        if record["kind"] == "turn" and record["id"] == turn:
            return place
    raise ResourceNotFound(f"session {session_id!r} has no turn {turn!r}; `turns` gives their ids")


def _take_session_before(records: Sequence[Record], first: int) -> list[Record]:
    """The records of the earlier turns that the model still knew of."""
    closed = [place for place, one in enumerate(records[:first]) if one["kind"] == "closed"]
    begin = closed[-1] + 1 if closed else 0
    return [_drop_lease(one) for one in records[begin:first] if one["kind"] not in _LEFT_OUT]


def _cut_turn(records: Sequence[Record], first: int, call: int) -> list[Record]:
    """The records of a turn before its model call with this number, whoever made it."""
    calls, cut = 0, list[Record]()
    for record in records[first:]:
        if cut and record["kind"] in ("turn", "closed"):
            break
        if record["kind"] == "model":
            calls += 1
            if calls == call:
                return cut
        if record["kind"] not in _LEFT_OUT:
            cut.append(record)
    raise ValidationError(
        f"the turn has {calls} model calls, and no call {call}; give 1 to {calls}"
        if calls
        else "the turn has no model call to go on from; ask its question again"
    )


def _begin_anew(
    cut: Sequence[Record], plan: Plan, sessions: Sessions, origin: Mapping[str, str], call: int
) -> list[Record]:
    start = {**_drop_lease(cut[0])}
    # A new id: idempotency keys are made of it, and what an action answers must not be what it
    # answered to the original.
    start |= {"id": request_id(), "plan": plan.digest, "forked": {**origin, "step": call}}
    start.pop("end_session", None)
    delta = sessions.clock() - max(map(_find_time, cut))
    copied = [start, *map(_drop_lease, cut[1:])]
    return [_shift(one, delta) for one in copied]


def _shift(record: Record, delta: int) -> Record:
    shifted = dict(record)
    for name in ("at", "began", "ended"):
        if name in record:
            shifted[name] = record[name] + delta
    return shifted


def _find_time(record: Record) -> int:
    at: int = record.get("ended") or record.get("at") or 0
    return at


def _move_to(records: Sequence[Record], now: int) -> list[Record]:
    delta = now - max(map(_find_time, records), default=now)
    return [_shift(one, delta) for one in records]


def _drop_lease(record: Record) -> Record:
    if not any(name in record for name in _LEASE):
        return record
    # As a process leaves a turn: any other may go on with it.
    kept = {name: value for name, value in record.items() if name != "workflow"}
    return {**kept, "owner": "", "until": 0}


def find_free_id(plan: Plan, sessions: Sessions, session_id: str) -> str:
    """An id for a fork: the original's, with `-fork-` and the first number that is free."""
    base = (session_id.rpartition("-fork-")[0] or session_id)[:85]
    numbers = (f"{base}-fork-{number}" for number in count(1))
    labels = ((one, session_label(plan.owner, one)) for one in numbers)
    return next(one for one, label in labels if not sessions.peek(label).count)
