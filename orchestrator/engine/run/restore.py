"""Restores histories: the messages of earlier turns, replayed from their journals.

A collaborator's turn goes into its own history when it has ended. One that a supervisor's router
chose answers the user itself, so its history has what the user read: it is added at the
supervisor's end, whose guardrail may have masked or blocked the answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.engine.attachments import mention_files
from orchestrator.engine.effects import Branch, Branches, Dispatch
from orchestrator.engine.payloads import readable
from orchestrator.engine.plan import Plan
from orchestrator.engine.results import Answer, ControlReturn, Failure, Refusal, Result
from orchestrator.engine.run.replay import Replay
from orchestrator.errors import OrchestratorError, SessionConflict
from orchestrator.message import Message
from orchestrator.sessions import Past, Record, Session, TurnLog

STOPPED = Failure(OrchestratorError("the turn was stopped"), "cancelled")
"""How a turn ended that was stopped, or that nobody went on with."""


def add_routed_turns(replay: Replay, log: TurnLog, verdict: Result) -> None:
    """Adds the turn of a routed collaborator, and of those below it, to their histories."""
    for effect, _ in replay.steps:
        if not isinstance(effect, Branches) or not effect.routed:
            continue
        for branch in effect.branches:
            if branch.collaborator.agent is None or branch.id in log.taken:
                continue
            known = branch.id in replay.branches
            below = replay.below(branch)
            if not known:  # another process has run it
                below.send(None)
            _add_turn(log, branch, below, _rebuild_transcript(below, verdict))
            add_routed_turns(below, log, verdict)


def restore_team(plan: Plan, log: TurnLog, past: Past) -> None:
    """Adds collaborators' turns to their histories, in the order in which they ended.

    Those that had not ended when the whole turn was stopped come last.
    """
    if not any("branch" in record for record in log.records):
        return
    order = {one["id"]: place for place, one in enumerate(log.records) if one["kind"] == "branch"}
    replay = Replay(plan, log, past)
    try:
        works = list(_iterate_branches(replay, log.end))
    except SessionConflict:
        return  # the agent was changed since; its collaborators begin anew
    ends: dict[str, Result | None] = {"": _read_result(replay, log.end)}
    for above, branch, below in reversed(works):  # supervisors first
        known = branch.id in order or log.end is not None
        own = ends[above] if branch.is_routed else _to_final_result(below.result)
        ends[branch.id] = own if known else None
    works.sort(key=lambda it: order.get(it[1].id, len(log.records)))
    for _, branch, below in works:
        end = ends[branch.id]
        if end is not None and branch.id not in log.taken:
            rebuild = _rebuild_transcript if branch.is_routed else Replay.transcript
            _add_turn(log, branch, below, rebuild(below, end))


def _iterate_branches(replay: Replay, end: Record | None) -> Iterator[tuple[str, Branch, Replay]]:
    # The path of who asked for it, the work, and its turn; supervisors after those below them.
    reached = replay.send(None)
    steps = [effect for effect, _ in replay.steps]
    for effect in (*steps, reached):
        if not isinstance(effect, Branches):
            continue
        for branch in effect.branches:
            if branch.collaborator.agent is not None:
                below = replay.below(branch)
                yield from _iterate_branches(below, end)
                if not below.iterates:  # one of those is no turn of an agent
                    yield replay.path, branch, below
    if end is not None and isinstance(reached, (Dispatch, Branches)):
        replay.give_up(reached, end["at"])


def _read_result(replay: Replay, end: Record | None) -> Result | None:
    if end is None:
        return None
    return STOPPED if end["result"] in ("failure", "cancelled") else _to_final_result(replay.result)


def _to_final_result(result: Result | None) -> Result:
    return STOPPED if result is None or isinstance(result, ControlReturn) else result


def _rebuild_transcript(below: Replay, verdict: Result) -> list[Message]:
    """A routed collaborator's turn, as the user knows it."""
    own = below.result
    if isinstance(own, Answer) and isinstance(verdict, Answer):
        if readable(own.text) == verdict.text:
            return below.transcript(own)
    below.turn.forget_reply()
    return below.transcript(verdict)


def _add_turn(log: TurnLog, branch: Branch, below: Replay, messages: list[Message]) -> None:
    below.past.history += messages
    log.taken |= {branch.id}


def restore_history(plan: Plan, session: Session) -> None:
    """Adds the turns that were read from the store to the session's history."""
    for log in session.list_unread():
        if log.transcript is not None:
            messages = log.transcript()
        else:
            messages = _transcript(plan, log, session)
            restore_team(plan, log, session)
        if "with" in log.start and "attachments" in log.start["with"]:
            messages = mention_files(messages, log.start["with"]["attachments"])
        log.before = len(session.history)
        session.add_history(messages)
        log.transcript = log.previous = None
    session.last_unread = None


def rebuild_replay(plan: Plan, past: Past, log: TurnLog) -> Replay:
    """Replays a turn that ended or was suspended, from its journal alone.

    Raises:
        SessionConflict: The journal was written by another version of the agent.
    """
    replay = Replay(plan, log, past, before=log.before)
    replay.run_to_end(log.end)
    return replay


def _transcript(plan: Plan, log: TurnLog, past: Past) -> list[Message]:
    replay = Replay(plan, log, past)
    end = log.records[-1]
    try:
        reached = replay.send(None)
        if isinstance(reached, (Dispatch, Branches)):
            replay.give_up(reached, end["at"])
    except SessionConflict:
        return _plain_transcript(plan, log.start, end)
    if end["result"] in ("failure", "cancelled"):
        return replay.turn.transcript(STOPPED)
    if isinstance(reached, (Answer, Refusal)):
        return replay.turn.transcript(reached)
    return _plain_transcript(plan, log.start, end)


def _plain_transcript(plan: Plan, start: Record, end: Record) -> list[Message]:
    # The agent was changed since: the question and the answer still hold, its steps may not.
    if not end["text"]:
        return []
    question = end.get("question") or start["question"]  # as the guardrail let it be read
    return [
        Message("user", [{"text": question}]),
        plan.orchestration.to_history_message(end["text"]),
    ]
