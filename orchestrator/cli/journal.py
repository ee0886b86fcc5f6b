"""Kept sessions: found by their ids, and told turn by turn with the trace of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ResourceNotFound, SessionConflict, ValidationError

if TYPE_CHECKING:
    from orchestrator import Agent
    from orchestrator.sessions import Session, SessionInfo, Sessions, TurnLog

__all__ = ["KeptTurn", "end_session", "find_session", "kept_turns", "open_sessions"]


@dataclass(slots=True)
class KeptTurn:
    """One turn of a kept session.

    Attributes:
        question: The user's input.
        text: The answer.
        stop_reason: How it ended; `return_control` when it waits, `interrupted` when it was left.
        at: When it began, in nanoseconds since 1970.
        new: Whether the session began anew with it.
        trace: Its trace parts, when an agent was there to make them.
        note: Why there is no trace.
    """

    question: str
    text: str
    stop_reason: str
    at: int
    new: bool = False
    trace: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""

    def as_dict(self, *, trace: bool) -> dict[str, Any]:
        """The turn as JSON members."""
        members: dict[str, Any] = {
            "question": self.question,
            "text": self.text,
            "stop_reason": self.stop_reason,
            "at": self.at,
        }
        return {**members, "trace": self.trace} if trace else members


def open_sessions(file: Path) -> Sessions:
    """The sessions that a file keeps.

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
    """The kept session that is called `name`: its id, or `agent/alias/id`.

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


def end_session(sessions: Sessions, info: SessionInfo) -> None:
    """Ends a session: its next turn begins with no attributes and no conversation.

    Raises:
        SessionConflict: A turn of the session is running.
    """
    never = 1 << 62
    session = sessions.acquire(info.label, never)
    try:
        if session.open is not None and sessions.is_running(session.open):
            raise SessionConflict(f"session {info.label!r} is busy in another process")
        closed = {"kind": "closed", "reason": "ended", "at": sessions.clock()}
        sessions.write(session, [closed])
    finally:
        sessions.release(session)


def kept_turns(sessions: Sessions, info: SessionInfo, agent: Agent | None) -> Iterator[KeptTurn]:
    """The turns of a session, oldest first.

    Args:
        sessions: Where it is kept.
        info: The session.
        agent: The agent that it is of, for traces; they are read from the journal again.
    """
    from orchestrator.sessions import Session

    session = Session(info.key, info.label)
    new = False
    for record in sessions.store.load(info.key):
        session.apply(record)
        if record["kind"] == "closed":
            new = True
        for log in list(session.unread):
            yield _told(log, session, agent, new)
            new = False
        _take_into_history(session, agent)
    if session.open is not None:
        yield _told(session.open, session, agent, new)


def _take_into_history(session: Session, agent: Agent | None) -> None:
    if agent is None:
        session.unread.clear()
    elif session.unread:
        from orchestrator.run import restore_history

        restore_history(agent.plan, session)


def _told(log: TurnLog, session: Session, agent: Agent | None, new: bool) -> KeptTurn:
    start, last = log.start, log.end or log.suspended or {}
    reason = last.get("stop_reason") or ("return_control" if last else "interrupted")
    text = last.get("text") or last.get("message", "")
    turn = KeptTurn(start["question"], text, reason, start["at"], new)
    if agent is not None:
        try:
            turn.trace = _trace(agent, log, session)
        except SessionConflict:
            turn.note = "the agent was changed since: its trace cannot be told any more"
    return turn


def _trace(agent: Agent, log: TurnLog, session: Session) -> list[dict[str, Any]]:
    from orchestrator.replay import Replay
    from orchestrator.trace import TraceParts

    replay = Replay(agent.plan, log, session.history)
    replay.send(None)
    name = session.label.rsplit("/", 1)[-1]
    return TraceParts(agent.plan, name, log.start["at"], replay).whole(log.end)
