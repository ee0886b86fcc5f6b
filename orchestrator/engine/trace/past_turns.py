"""A session's earlier turns: questions, answers and traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from orchestrator.engine.plan import Plan
from orchestrator.engine.results import UNDECIDED
from orchestrator.engine.run.restore import rebuild_replay, restore_history
from orchestrator.engine.trace.bedrock import TraceParts
from orchestrator.engine.trace.reply import files_of
from orchestrator.errors import SessionConflict, ValidationError
from orchestrator.sessions import Record, Session, Sessions, TurnLog

if TYPE_CHECKING:
    from orchestrator.engine.run.replay import Replay
    from orchestrator.engine.trace.past_steps import PastStep


def change_results(records: Sequence[Record], results: Mapping[int, str]) -> list[Record]:
    """Records of a turn with other results of actions, by the numbers of these, from 1.

    Raises:
        ValidationError: There is no such action among them.
    """
    changed, actions = [], 0
    for record in records:
        if record["kind"] == "action":
            actions += 1
            if actions in results:
                record = {**record, "text": results[actions], "state": ""}
        changed.append(record)
    if unknown := sorted(set(results) - set(range(1, actions + 1))):
        raise ValidationError(
            f"there is no result {unknown[0]} before that call: {actions} actions had ended"
        )
    return changed


class PastTurn:
    """One turn of a kept session.

    Attributes:
        question: The user's input.
        text: The answer, or the message of the error that ended the turn.
        stop_reason: As in `Reply`; `return_control` when the turn waits, `undecided` when it
            waits for a decision, `interrupted` when its process stopped, `cancelled` when its
            caller did.
        at: When it began, in nanoseconds since 1970.
        new: Whether the session had ended before, and began anew with it.
        current: Whether the session has not ended since, so that the model still knows of it.
        id: Names the turn.
    """

    __slots__ = (
        "_log",
        "_plan",
        "_replay",
        "_restore_plan",
        "_session",
        "_then",
        "_trace",
        "at",
        "current",
        "id",
        "new",
        "question",
        "stop_reason",
        "text",
    )

    def __init__(
        self,
        log: TurnLog,
        session: Session,
        plan: Plan | None,
        restore_plan: Callable[[str], Plan | None],
        *,
        new: bool,
    ) -> None:
        last = log.end or log.suspend_record or {}
        self.question: str = log.start["question"]
        self.text: str = last.get("text") or last.get("message", "")
        self.stop_reason: str = last.get("stop_reason") or (
            UNDECIDED if log.decision_request else ("return_control" if last else "interrupted")
        )
        self.id: str = log.start["id"]
        self.at: int = log.start["at"]
        self.new = new
        self.current = True
        self._log = log
        self._session = session
        self._plan = plan
        self._restore_plan = restore_plan
        self._then: Plan | None = None
        self._replay: Replay | None = None
        self._trace: list[dict[str, Any]] | None = None

    @property
    def has_changed(self) -> bool:
        """Whether the agent's prompts, models or tools were others then than they are now."""
        then = self._log.start.get("plan")
        return self._plan is not None and then is not None and then != self._plan.digest

    @property
    def has_todays_prompts(self) -> bool:
        """Whether prompts are shown as they are now, although the agent `has_changed`.

        The store has not kept those of then; what was said and done is as it was all the same.
        """
        return self.has_changed and self._plan_of_then is self._plan

    @property
    def is_open(self) -> bool:
        """Whether the turn has not ended: it runs, waits for its caller, or was interrupted."""
        return self._log.end is None

    @property
    def has_failed(self) -> bool:
        """Whether the turn ended with an error, whose message is its text."""
        return self._log.end is not None and self._log.end["result"] == "failure"

    @property
    def end_at(self) -> int:
        """When the turn ended, in nanoseconds since 1970; 0 while it is open."""
        return int((self._log.end or {}).get("at", 0))

    @property
    def fork_origin(self) -> dict[str, Any] | None:
        """The `session`, `turn` and `step` that the turn goes on from, if it is a fork's."""
        return self._log.start.get("forked")

    @property
    def _plan_of_then(self) -> Plan | None:
        if self._then is None and self._plan is not None:
            self._then = self._plan
            if self.has_changed:
                self._then = self._restore_plan(str(self._log.start["plan"])) or self._plan
        return self._then

    def steps(self) -> list[PastStep]:
        """What the turn did, in the journal's order: model calls, actions, searches, branches.

        A step is small; its prompt is made when it is asked for. Without an agent, or where the
        agent was changed so that the turn cannot be followed any more, steps have no prompts.
        """
        from orchestrator.engine.trace.past_steps import list_steps

        try:
            replay = self._run_again() if self._plan is not None else None
        except SessionConflict:
            replay = None
        return list_steps(self._log, replay)

    @property
    def records(self) -> list[Record]:
        """The journal's own records of the turn, whatever became of the agent."""
        return self._log.records

    @property
    def files(self) -> list[dict[str, Any]]:
        """Files that came with the answer, as in `Reply`."""
        return files_of(self._log.records)

    def steps_as(self, plan: Plan, results: Mapping[int, str] | None = None) -> list[PastStep]:
        """The steps with the prompts that another version of the agent would have been sent.

        Args:
            plan: Its plan, such as that of `Agent.with_changes`.
            results: Other results of actions, by their numbers in the turn, from 1.

        Raises:
            SessionConflict: It would have done something else than what the journal has.
        """
        from orchestrator.engine.trace.past_steps import list_steps

        restore_history(plan, self._session)
        log = self._log
        if results:
            log = TurnLog(self._log.start, self._log.spoken)
            log += change_results(self._log.records[1:], results)
            log.before = self._log.before
        return list_steps(log, rebuild_replay(plan, self._session, log))

    @property
    def trace(self) -> list[dict[str, Any]]:
        """The trace parts, made from the journal when first read; none without an agent.

        Raises:
            SessionConflict: The agent was changed since, so its trace cannot be made any more.
        """
        if self._trace is None:
            self._trace = [] if self._plan is None else self._parts(self._run_again())
        return self._trace

    def step_traces(self) -> list[list[dict[str, Any]]]:
        """The trace parts of each of `steps()`, in their order.

        Together they are `trace`, but for a turn that failed before its first step.

        Raises:
            SessionConflict: The agent was changed since, so its trace cannot be made any more.
        """
        from orchestrator.engine.trace.step_parts import OwnedParts

        records = [step.record for step in self.steps()]
        if self._plan is None:
            return [[] for _ in records]
        replay = self._run_again()
        session_id = self._session.label.rsplit("/", 1)[-1]
        trace = OwnedParts(replay.turn.plan, session_id, self.at, replay)
        return trace.group(records, self._log.end)

    def _parts(self, replay: Replay) -> list[dict[str, Any]]:
        session_id = self._session.label.rsplit("/", 1)[-1]
        return TraceParts(replay.turn.plan, session_id, self.at, replay).whole(self._log.end)

    def _run_again(self) -> Replay:
        if self._replay is None:
            plan = self._plan_of_then
            if plan is None:
                raise AssertionError("a turn without its agent has no replay")
            restore_history(plan, self._session)
            self._replay = rebuild_replay(plan, self._session, self._log)
        return self._replay

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

    @cache  # many turns have the same one, and its templates are compiled
    def restore(digest: str) -> Plan | None:
        from orchestrator.engine.plan_snapshot import restore_plan

        kept = sessions.find_plan(digest)
        return restore_plan(plan, kept) if plan is not None and kept is not None else None

    turns = [PastTurn(log, of, plan, restore, new=new) for log, of, new in found]
    for turn, (_, of, _) in zip(turns, found, strict=True):
        turn.current = of is session
    return turns
