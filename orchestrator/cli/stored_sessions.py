"""Kept sessions: found by their ids, and told turn by turn with the trace of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ResourceNotFound, SessionConflict, ValidationError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.sessions import SessionInfo, Sessions


@dataclass(slots=True)
class StoredTurn:
    """One turn of a kept session, as the command line shows it.

    Attributes:
        question: The user's input.
        text: The answer.
        stop_reason: How it ended; `return_control` when it waits, `interrupted` when it was left.
        at: When it began, in nanoseconds since 1970.
        new: Whether the session began anew with it.
        trace: Its trace parts, when an agent was there to make them.
        note: What to know of the trace, or why there is none.
        records: The journal's own records, when the trace cannot be told.
    """

    question: str
    text: str
    stop_reason: str
    at: int
    new: bool = False
    trace: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
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


def read_turns(sessions: Sessions, info: SessionInfo, agent: Agent | None) -> Iterator[StoredTurn]:
    """The turns of a session, oldest first.

    Args:
        sessions: Where it is kept.
        info: The session.
        agent: The agent that it is of, for traces; they are read from the journal again.
    """
    from orchestrator.engine.trace import past_turns as kept

    for turn in kept.load_past_turns(sessions, info.label, agent.plan if agent else None):
        told = StoredTurn(turn.question, turn.text, turn.stop_reason, turn.at, turn.new)
        try:
            told.trace = turn.trace
            if turn.has_changed:
                told.note = (
                    "the agent was changed since: what was said and done is told as it was, the "
                    "prompts and settings as they are now"
                )
        except SessionConflict:
            told.records = turn.records
            told.note = (
                "the agent was changed since, so that its trace cannot be told any more; "
                "--json has the journal's own records"
            )
        yield told
