"""Turns that a process has left, and what became of them when another one went on with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.engine.plan import Plan
from orchestrator.engine.trace.reply import Reply
from orchestrator.errors import (
    ActionOutcomeUnknown,
    OrchestratorError,
    SessionConflict,
    ValidationError,
)
from orchestrator.sessions import Sessions
from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.sessions")


@dataclass(slots=True)
class RecoveredTurn:
    """A turn that was gone on with."""

    session_id: str  # the session that it is of
    reply: Reply | None = None  # what it came to; `None` when it failed
    error: OrchestratorError | None = None  # why it failed

    @property
    def outcome(self) -> str:
        """`answer`, `return_control` (it waits for its caller), `unknown` or `failure`."""
        if isinstance(self.error, ActionOutcomeUnknown):
            return "unknown"
        if self.reply is None:
            return "failure"
        return "answer" if self.reply.return_control is None else "return_control"

    @classmethod
    @contextmanager
    def observe(cls, session_id: str, recovered: list[RecoveredTurn]) -> Iterator[RecoveredTurn]:
        """Adds what becomes of a turn in the block; one that another process took is left out."""
        turn = cls(session_id)
        try:
            yield turn
        except SessionConflict as error:
            # Another process was faster, or the turn is of another version of the agent.
            _log.info("a turn of session %r was not gone on with: %s", session_id, error.message)
            return
        except ValidationError as error:
            if turn.reply is None and error.reply is None:  # it has ended meanwhile
                return
            turn.error = error
        except OrchestratorError as error:
            turn.error = error
        recovered.append(turn)


def list_left_sessions(plan: Plan, sessions: Sessions) -> Iterator[str]:
    """The sessions of an agent and tenant whose turn a process has left."""
    prefix = f"{plan.owner}/"
    for label in sessions.find_left_turns(prefix):
        # The labels of an owner's tenants begin with the same letters.
        if "/" not in (session_id := label[len(prefix) :]):
            yield session_id
