"""Turns that a process has left, and what became of them when another one went on with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.engine.plan import Plan
from orchestrator.engine.results import UNDECIDED
from orchestrator.engine.trace.reply import Reply
from orchestrator.errors import (
    ActionOutcomeUnknown,
    OrchestratorError,
    SessionConflict,
    ValidationError,
)
from orchestrator.sessions import Sessions
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    from orchestrator.engine.undecided_calls import Undecided

_log = get_logger("orchestrator.sessions")


@dataclass(slots=True)
class RecoveredTurn:
    """A turn that was gone on with."""

    session_id: str  # the session that it is of
    reply: Reply | None = None  # what it came to; `None` when it failed
    error: OrchestratorError | None = None  # why it failed

    @property
    def outcome(self) -> str:
        """`answer`, `return_control`, `undecided`, `unknown` or `failure`.

        With `return_control` it waits for its caller, and an `undecided` one for somebody's
        decision about an action whose outcome nobody knows; an `unknown` one has ended with such an
        action.
        """
        if isinstance(self.error, ActionOutcomeUnknown):
            return "unknown" if self.open_decision is None else UNDECIDED
        if self.reply is None:
            return "failure"
        return "answer" if self.reply.return_control is None else "return_control"

    @property
    def open_decision(self) -> Undecided | None:
        """What somebody has to decide before the turn goes on; see `Agent.decide`."""
        return getattr(self.error, "undecided", None)

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


def list_undecided(
    plan: Plan, sessions: Sessions, session_id: str | None = None
) -> list[Undecided]:
    """The turns of an agent and tenant that wait for a decision, the last suspended first."""
    from orchestrator.engine.undecided_calls import find_undecided

    prefix = f"{plan.owner}/"
    if session_id is not None:
        logs = [(session_id, sessions.peek(prefix + session_id).open)]
    else:
        found = sessions.open_turns.find_undecided(prefix)
        logs = [(label[len(prefix) :], log) for label, log in found]
    # The labels of an owner's tenants begin with the same letters.
    undecided = [find_undecided(log, id) for id, log in logs if "/" not in id]
    return sorted((it for it in undecided if it is not None), key=lambda it: -it.at)


def find_decision_results(
    plan: Plan, sessions: Sessions, session_id: str, decisions: Mapping[str, Any]
) -> dict[str, Any]:
    """The results that say what was decided of a session's turn; raises as `Agent.decide` does."""
    undecided = list_undecided(plan, sessions, session_id)
    if not undecided:
        raise ValidationError(
            f"session {session_id!r} waits for no decision; `agent.find_undecided()` lists those"
        )
    return undecided[0].answer(**decisions)


def list_left_sessions(plan: Plan, sessions: Sessions) -> Iterator[str]:
    """The sessions of an agent and tenant whose turn a process has left."""
    prefix = f"{plan.owner}/"
    for label in sessions.open_turns.find_left(prefix):
        # The labels of an owner's tenants begin with the same letters.
        if "/" not in (session_id := label[len(prefix) :]):
            yield session_id
