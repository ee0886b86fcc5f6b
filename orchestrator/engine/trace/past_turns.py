"""A session's earlier turns: questions, answers and traces."""

from __future__ import annotations

from typing import Any

from orchestrator.engine.plan import Plan
from orchestrator.engine.run.restore import rebuild_replay, restore_history
from orchestrator.engine.trace.bedrock import TraceParts
from orchestrator.engine.trace.reply import files_of
from orchestrator.sessions import Record, Session, Sessions, TurnLog


class PastTurn:
    """One turn of a kept session.

    Attributes:
        question: The user's input.
        text: The answer, or the message of the error that ended the turn.
        stop_reason: As in `Reply`; `return_control` when the turn waits, `interrupted` when its
            process stopped, `cancelled` when its caller did.
        at: When it began, in nanoseconds since 1970.
        new: Whether the session had ended before, and began anew with it.
        current: Whether the session has not ended since, so that the model still knows of it.
        id: Names the turn.
    """

    __slots__ = (
        "_log",
        "_plan",
        "_session",
        "_trace",
        "at",
        "current",
        "id",
        "new",
        "question",
        "stop_reason",
        "text",
    )

    def __init__(self, log: TurnLog, session: Session, plan: Plan | None, *, new: bool) -> None:
        last = log.end or log.suspend_record or {}
        self.question: str = log.start["question"]
        self.text: str = last.get("text") or last.get("message", "")
        self.stop_reason: str = last.get("stop_reason") or (
            "return_control" if last else "interrupted"
        )
        self.id: str = log.start["id"]
        self.at: int = log.start["at"]
        self.new = new
        self.current = True
        self._log = log
        self._session = session
        self._plan = plan
        self._trace: list[dict[str, Any]] | None = None

    @property
    def has_changed(self) -> bool:
        """Whether the agent's prompts, models or tools were others then than they are now.

        The trace then tells what was said and done as it was, but prompts as they are now.
        """
        then = self._log.start.get("plan")
        return self._plan is not None and then is not None and then != self._plan.digest

    @property
    def records(self) -> list[Record]:
        """The journal's own records of the turn, whatever became of the agent."""
        return self._log.records

    @property
    def files(self) -> list[dict[str, Any]]:
        """Files that came with the answer, as in `Reply`."""
        return files_of(self._log.records)

    @property
    def trace(self) -> list[dict[str, Any]]:
        """The trace parts, made from the journal when first read; none without an agent.

        Raises:
            SessionConflict: The agent was changed since, so its trace cannot be made any more.
        """
        if self._trace is None:
            self._trace = self._parts(self._plan) if self._plan is not None else []
        return self._trace

    def _parts(self, plan: Plan) -> list[dict[str, Any]]:
        session, log = self._session, self._log
        restore_history(plan, session)
        replay = rebuild_replay(plan, session, log)
        session_id = session.label.rsplit("/", 1)[-1]
        return TraceParts(plan, session_id, self.at, replay).whole(log.end)

    def __repr__(self) -> str:
        return f"PastTurn({self.question!r}, {self.text!r}, stop_reason={self.stop_reason!r})"


def load_past_turns(sessions: Sessions, label: str, plan: Plan | None = None) -> list[PastTurn]:
    """The turns of a session, oldest first, those before its last end too.

    The session's label is `agent/alias/session id`; the plan is that of its agent, for traces.

    Raises:
        DependencyFailed: The store, or the session's journal in it, cannot be read.
    """
    found: list[tuple[TurnLog, Session, bool]] = []
    session, new = Session("", label), False
    for record in sessions.records(label):
        if record["kind"] == "closed":
            session, new = Session("", label), True
            continue
        session.apply([record])
        if record["kind"] == "turn" and session.open is not None:
            found.append((session.open, session, new))
            new = False
    turns = [PastTurn(log, of, plan, new=new) for log, of, new in found]
    for turn, (_, of, _) in zip(turns, found, strict=True):
        turn.current = of is session
    return turns
