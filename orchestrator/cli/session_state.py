"""Stored sessions and their turns: their state, open questions, calls without an outcome."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.return_control import list_waiting_calls
from orchestrator.cli.steps import Step, format_call
from orchestrator.cli.terminal import Terminal, assemble, clean, style_text
from orchestrator.cli.trace import TraceView
from orchestrator.errors import (
    OrchestratorError,
    ResourceNotFound,
    SessionConflict,
    ValidationError,
)

if TYPE_CHECKING:
    from orchestrator.actions.base import Call
    from orchestrator.agent.agent import Agent
    from orchestrator.sessions import Session, SessionInfo, Sessions, TurnLog


@dataclass(frozen=True, slots=True)
class UnfinishedCall:
    """A call of an action that had begun when its process stopped; nobody knows its outcome."""

    id: str  # names it in its turn
    key: str  # its idempotency key
    text: str  # the call on one line; its name alone without an agent to find its parameters


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
    # The journal has an intent before each action: a process that stops between them leaves it.
    unfinished: dict[str, dict[str, Any]] = {}
    for record in log.records:
        if record["kind"] == "intent":
            unfinished |= {call["id"]: call for call in record["calls"]}
        elif record["kind"] == "action":
            unfinished.pop(record["id"], None)
    texts = dict(_describe_calls(log, agent)) if unfinished and agent is not None else {}
    return [
        UnfinishedCall(id, call["key"], texts.get(id, call["name"]))
        for id, call in unfinished.items()
    ]


def _describe_calls(log: TurnLog, agent: Agent) -> Iterator[tuple[str, str]]:
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
    from orchestrator.engine.calls import invocation_input
    from orchestrator.engine.effects import WaitingCall

    inputs = invocation_input(WaitingCall(call, ""), agent.plan.agent_id)
    return format_call(next(iter(inputs.values())))


_UNKNOWN = "whether it took effect is not known"
_ENDINGS = {"cancelled": "stopped by the user", "end_turn": ""}
_STATES = {
    "running": "running in another process",
    "interrupted": "its process stopped",
    "waiting": "waits for you",
}


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn and its state, of its records."""

    turn: StoredTurn  # the turn
    state: str  # `ended`, `waiting`, `running` or `interrupted`
    begun: list[UnfinishedCall]  # its calls that were begun and have no outcome
    inputs: list[dict[str, Any]]  # the calls that it waits for, in Bedrock's shape

    def as_dict(self, *, trace: bool) -> dict[str, Any]:
        """The turn as JSON members."""
        members = {
            **self.turn.as_dict(trace=trace),
            "time": iso_time(self.turn.at),
            "state": self.state,
            "begun": [{"call": call.text, "key": call.key} for call in self.begun],
            "waits_for": self.inputs,
        }
        if self.state == "running":
            members["stop_reason"] = "running"
        return members


def show_turn(terminal: Terminal, shown: TurnView, session: str, folder: str) -> None:
    """Writes a turn, and how to go on with it when it has not ended."""
    turn = shown.turn
    if turn.new:
        terminal.print(style_text("the session began anew", "quiet"))
    terminal.print(assemble(("you ", "you"), (local_time(turn.at), "quiet")))
    terminal.block(clean(turn.question), 2)
    if turn.note:
        terminal.block(style_text(turn.note, "warning"), 2)
    _show_steps(terminal, shown)
    ending = _STATES.get(shown.state) or _ENDINGS.get(turn.stop_reason, turn.stop_reason)
    terminal.print(assemble(("agent", "agent"), (f" {ending}" if ending else "", "quiet")))
    terminal.block(clean(turn.text), 2)
    for line in _suggest_next_steps(shown, session, folder):
        terminal.block(line, 2)
    terminal.print()


def _show_steps(terminal: Terminal, shown: TurnView) -> None:
    calls = [(call.text, f"began; {_UNKNOWN}; key {call.key}") for call in shown.begun]
    if shown.state == "running":
        calls = [(text, "runs") for text, _ in calls]
    if shown.turn.trace:
        view = TraceView(terminal)
        for part in shown.turn.trace:
            view.show(view.feed(part))
        view.flush()
        view.show(Step("calls", text, doing) for text, doing in calls)
        view.finish()
    else:
        for text, doing in calls:
            terminal.block(f"{clean(text)} {doing}", 2)


def _suggest_next_steps(shown: TurnView, session: str, folder: str) -> list[str]:
    again = f"orchestrator invoke {shlex.quote(folder)} --session {shlex.quote(session)}"
    if shown.state == "waiting":
        waits = [f"{clean(call.text)} ({call.wants})" for call in list_waiting_calls(shown.inputs)]
        return [*waits, f"Go on with `{again} --results FILE`; another question gives it up."]
    if shown.state == "interrupted" and shown.begun:
        return [
            "Look at the system behind it, by the key, before you ask again. "
            f"`{again}` ends the turn and does not run it again, unless it is idempotent."
        ]
    if shown.state == "interrupted":
        return [f"Go on with `{again}`; another question gives it up."]
    return []


def local_time(at: int) -> str:
    """A time in nanoseconds since 1970, for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1e9))


def iso_time(at: int) -> str:
    """The same for programs: ISO 8601, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at / 1e9, UTC).isoformat(timespec="milliseconds")


@dataclass(slots=True)
class StoredTurn:
    """One turn of a stored session, as the command line shows it."""

    question: str  # the user's input
    text: str  # the answer
    stop_reason: str  # how it ended; `return_control` when it waits, `interrupted` when it was left
    at: int  # when it began, in nanoseconds since 1970
    new: bool = False  # whether the session began anew with it
    # Its trace parts; they need the agent.
    trace: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""  # what to know of the trace, or why there is none
    # The journal's own records, when there can be no trace.
    records: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self, *, trace: bool) -> dict[str, Any]:
        """The turn as JSON members."""
        members: dict[str, Any] = {
            "question": self.question,
            "text": self.text,
            "stop_reason": self.stop_reason,
            "at": self.at,
        }
        if self.note:
            members["note"] = self.note
        if self.records:
            members["records"] = self.records
        return {**members, "trace": self.trace} if trace else members


def open_sessions(file: Path) -> Sessions:
    """The sessions in a file.

    Raises:
        ResourceNotFound: There is no such file.
    """
    from orchestrator.sessions import Sessions

    if not file.is_file():
        raise ResourceNotFound(
            f"no sessions are kept in {str(file)!r}; `orchestrator invoke --session ID` keeps one"
        )
    return Sessions.of(file)


def find_session(sessions: Sessions, name: str) -> SessionInfo:
    """The stored session that is called `name`: its id, or `agent/alias/id`.

    Raises:
        ResourceNotFound: There is none.
        ValidationError: Several agents have a session of that id.
    """
    found = [
        info
        for info in sessions.store.list()
        if name in (info.label, info.label.rsplit("/", 1)[-1])
    ]
    if not found:
        raise ResourceNotFound(
            f"there is no session {name!r}; `orchestrator sessions list` lists them"
        )
    if len(found) > 1:
        labels = ", ".join(repr(info.label) for info in found)
        raise ValidationError(f"several agents have a session {name!r}: give one of {labels}")
    return found[0]


def read_turns(sessions: Sessions, info: SessionInfo, agent: Agent | None) -> Iterator[StoredTurn]:
    """The turns of a session, oldest first; with its agent, with their traces."""
    from orchestrator.engine.trace.past_turns import load_past_turns

    for turn in load_past_turns(sessions, info.label, agent.plan if agent else None):
        stored = StoredTurn(turn.question, turn.text, turn.stop_reason, turn.at, turn.new)
        try:
            stored.trace = turn.trace
            if turn.has_changed:
                stored.note = (
                    "the agent was changed since: what was said and done is shown as it was, the "
                    "prompts and settings as they are now"
                )
        except SessionConflict:
            stored.records = turn.records
            stored.note = (
                "the agent was changed since, so that its trace cannot be shown any more; "
                "--json has the journal's own records"
            )
        yield stored
