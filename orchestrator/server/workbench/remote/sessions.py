"""What a workbench has seen of sessions of remote agents: kept in memory, and so much at most."""

from __future__ import annotations

import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from orchestrator.server.workbench.remote.trace_steps import TraceStep, list_trace_steps

_MOST_SESSIONS = 200  # of all agents together; the ones that were seen last
_MOST_TURNS = 500  # of a session
_MOST_TRACE = 50_000_000  # characters of a turn's trace parts
_MOST_KEPT = 400_000_000  # of all of them


@dataclass(slots=True, eq=False)
class RemoteTurn:
    """One turn, as its events told it.

    Attributes:
        waits: `invocationInputs` of calls that the server waits for, with their `invocation_id`.
        error: Why it ended early; empty otherwise.
        lost: Trace parts that were too much to keep.
        trace_size: Characters of the trace parts.
        size: Characters of all of it, as of the last `measure`.
    """

    question: str
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    at: int = field(default_factory=time.time_ns)
    text: str = ""
    stop_reason: str = "interrupted"
    parts: list[dict[str, Any]] = field(default_factory=list)
    waits: list[dict[str, Any]] = field(default_factory=list)
    invocation_id: str = ""
    citations: list[Any] = field(default_factory=list)
    error: str = ""
    lost: int = 0
    trace_size: int = 0
    size: int = 0

    def add_part(self, part: dict[str, Any]) -> None:
        """Keeps a trace part, if there is room."""
        size = len(json.dumps(part))
        if self.trace_size + size > _MOST_TRACE:
            self.lost += 1
            return
        self.trace_size += size
        self.parts.append(part)

    def measure(self) -> None:
        """Takes its size anew, of all that is kept of it."""
        texts = self.question, self.text, self.error, json.dumps([self.citations, self.waits])
        self.size = self.trace_size + sum(map(len, texts))

    def steps(self) -> list[TraceStep]:
        """Its steps."""
        return list_trace_steps(self.parts)


@dataclass(slots=True)
class RemoteSession:
    """A session of a remote agent."""

    id: str
    turns: list[RemoteTurn] = field(default_factory=list)
    updated: int = 0
    is_busy: bool = False

    def find(self, id: str) -> RemoteTurn | None:
        """The turn with an id."""
        return next((one for one in self.turns if one.id == id), None)


class RemoteSessions:
    """The sessions by agent and id. Safe for many threads."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], RemoteSession] = OrderedDict()
        self._lock = Lock()

    def list(self, agent: str) -> Sequence[RemoteSession]:
        """The sessions of an agent, the last changed first."""
        with self._lock:
            found = [one for (key, _), one in self._sessions.items() if key == agent and one.turns]
        return sorted(found, key=lambda one: one.updated, reverse=True)

    def peek(self, agent: str, session_id: str) -> RemoteSession:
        """A session, to look at; an empty one where nothing is known of it."""
        with self._lock:
            return self._sessions.get((agent, session_id)) or RemoteSession(session_id)

    def open(self, agent: str, session_id: str) -> RemoteSession:
        """A session, for a turn: the same one for everybody."""
        with self._lock:
            return self._sessions.setdefault((agent, session_id), RemoteSession(session_id))

    def keep(self, agent: str, session: RemoteSession, turn: RemoteTurn) -> None:
        """Adds a turn, or says that it has changed; what was seen first is forgotten for it."""
        session.updated = time.time_ns()
        turn.measure()
        with self._lock:
            if turn not in session.turns:
                session.turns = [*session.turns, turn][-_MOST_TURNS:]
            key = agent, session.id
            self._sessions[key] = session
            self._sessions.move_to_end(key)
            while len(self._sessions) > 1 and self._is_full():
                self._sessions.popitem(last=False)

    def _is_full(self) -> bool:
        kept = sum(turn.size for one in self._sessions.values() for turn in one.turns)
        return len(self._sessions) > _MOST_SESSIONS or kept > _MOST_KEPT

    def forget(self, agent: str, session_id: str) -> None:
        """Forgets a session here; the server's own is not touched."""
        with self._lock:
            self._sessions.pop((agent, session_id), None)


def read_calls(steps: Sequence[TraceStep], is_open: bool) -> Iterator[Mapping[str, Any]]:
    """The calls of a turn, for its chat."""
    for step in steps:
        if step.kind not in ("action", "search", "agent", "return_control"):
            continue
        outcome = ""
        if step.kind == "return_control":
            waits = "waits for you" if is_open else "not answered"
            outcome = waits if step.awaits else "carried out by you"
        yield {
            "name": step.name,
            "arguments": step.arguments,
            "state": step.state,
            "index": step.index,
            "outcome": outcome,
        }
