"""What kept sessions and their turns are doing: state, open questions, calls without an outcome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import OrchestratorError, SessionConflict

if TYPE_CHECKING:
    from orchestrator.actions.base import Call
    from orchestrator.agent.agent import Agent
    from orchestrator.sessions import Session, SessionInfo, Sessions, TurnLog


@dataclass(frozen=True, slots=True)
class UnfinishedCall:
    """A call of an action that had begun when its process stopped; nobody knows its outcome.

    Attributes:
        id: Names it in its turn.
        key: Its idempotency key.
        text: The call on one line; its name alone when no agent was there to tell its parameters.
    """

    id: str
    key: str
    text: str


def turn_logs(sessions: Sessions, info: SessionInfo) -> tuple[Session, list[TurnLog]]:
    """A session and the records of its turns, oldest first."""
    from orchestrator.sessions import Session

    session, logs = Session(info.key, info.label), []
    for record in sessions.records(info.label):
        session.apply([record])
        if record["kind"] == "turn" and session.open is not None:
            logs.append(session.open)
    return session, logs


def turn_state(sessions: Sessions, log: TurnLog) -> str:
    """`ended`, `waiting` for its caller, `running`, or `interrupted`: its process stopped."""
    if log.end is not None:
        return "ended"
    if log.suspend_record is not None:
        return "waiting"
    return "running" if sessions.is_running(log) else "interrupted"


def agent_name(folder: Path, info: SessionInfo) -> str | None:
    """The name of the agent that a session is of, if it is the one in `folder`."""
    from orchestrator.agent.compile import derive_agent_id
    from orchestrator.definition import load_definition

    try:
        definition = load_definition(folder)
    except OrchestratorError:
        return None
    own = definition.agent_id or derive_agent_id(definition.agent_name)
    return definition.agent_name if info.label.startswith(f"{own}/") else None


def session_state(sessions: Sessions, info: SessionInfo) -> str:
    """`running`, `waiting`, `interrupted`, `failed` when its last turn did, or `idle`."""
    session, logs = turn_logs(sessions, info)
    if session.open is not None:
        return turn_state(sessions, session.open)
    end = (logs[-1].end if logs else None) or {}
    return "failed" if end.get("result") == "failure" else "idle"


def find_unfinished_calls(log: TurnLog, agent: Agent | None) -> list[UnfinishedCall]:
    """The calls of a turn that were begun and have no outcome."""
    begun: dict[str, dict[str, Any]] = {}
    for record in log.records:
        if record["kind"] == "intent":
            begun |= {call["id"]: call for call in record["calls"]}
        elif record["kind"] == "action":
            begun.pop(record["id"], None)
    texts = dict(_describe_calls(log, agent)) if begun and agent is not None else {}
    return [
        UnfinishedCall(id, call["key"], texts.get(id, call["name"])) for id, call in begun.items()
    ]


def _describe_calls(log: TurnLog, agent: Agent) -> Iterator[tuple[str, str]]:
    """The calls that the turn stopped at, by their ids, as lines with their parameters."""
    from orchestrator.engine.effects import Dispatch
    from orchestrator.engine.run.replay import Replay
    from orchestrator.sessions import Past

    try:
        reached = Replay(agent.plan, log, Past([], [], {})).send(None)
    except SessionConflict:  # the agent was changed since
        return
    if isinstance(reached, Dispatch):
        for call in reached.calls:
            yield call.id, _describe_call(agent, call)


def _describe_call(agent: Agent, call: Call) -> str:
    from orchestrator.cli.steps import format_call
    from orchestrator.engine.calls import invocation_input
    from orchestrator.engine.effects import WaitingCall

    told = invocation_input(WaitingCall(call, ""), agent.plan.agent_id)
    return format_call(next(iter(told.values())))
