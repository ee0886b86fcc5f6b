"""The part of `Agent` that looks after sessions: go on, decide, end, undo, fork, remember."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.engine.plan import Plan
from orchestrator.engine.run.input import check_id
from orchestrator.sessions import Sessions, session_label
from orchestrator.support.threads import as_awaitable, in_thread

if TYPE_CHECKING:
    from orchestrator.agent.recovery import RecoveredTurn
    from orchestrator.engine.trace.past_turns import PastTurn
    from orchestrator.engine.trace.reply import Reply
    from orchestrator.engine.undecided_calls import Undecided

_ALL_SESSIONS = 100_000  # more than anybody begins in the days of storage


class AgentSessions:
    """The sessions of an agent: their open turns, their past ones, their ends, their memories."""

    plan: Plan
    sessions: Sessions
    # Going on with a turn is an invocation, as `Agent` has it
    invoke: Callable[..., Reply]
    ainvoke: Callable[..., Awaitable[Reply]]

    def recover(self) -> list[RecoveredTurn]:
        """Goes on with the turns of this agent, and of its tenant, that a process has left.

        These are the turns whose process has ended, or whose lease has passed. What was carried out
        is not carried out again; an action whose outcome nobody knows suspends its turn until
        `decide` says what became of it, unless it is idempotent or its executor knows (`status`).
        A turn that waits for its caller goes on waiting. A turn that was submitted is left to the
        workers of its database.

        Returns:
            What became of each. Turns that another process took meanwhile are not among them.

        Raises:
            DependencyFailed: The store cannot be read.
        """
        from orchestrator.agent.recovery import RecoveredTurn, list_left_sessions

        recovered: list[RecoveredTurn] = []
        for session_id in list_left_sessions(self.plan, self.sessions):
            with RecoveredTurn.observe(session_id, recovered) as turn:
                turn.reply = self.invoke("", session_id)
        return recovered

    async def arecover(self) -> list[RecoveredTurn]:
        """`recover`, for an event loop."""
        from orchestrator.agent.recovery import RecoveredTurn, list_left_sessions

        recovered: list[RecoveredTurn] = []
        left = in_thread(lambda: list(list_left_sessions(self.plan, self.sessions)))
        for session_id in await as_awaitable(left):
            with RecoveredTurn.observe(session_id, recovered) as turn:
                turn.reply = await self.ainvoke("", session_id)
        return recovered

    def find_undecided(self, session_id: str | None = None) -> list[Undecided]:
        """The turns that wait for somebody to say what became of an action.

        Its process stopped between the action and its record, or a remote agent's answer was lost,
        so that nobody knows whether it took effect. Nothing is carried out again by itself;
        `decide` goes on.

        Args:
            session_id: One session; all of the agent, and of its tenant, when `None`.

        Raises:
            DependencyFailed: The store, or the session's journal in it, cannot be read.
        """
        from orchestrator.agent.recovery import list_undecided

        if session_id is not None:
            check_id("session_id", session_id)
        return list_undecided(self.plan, self.sessions, session_id)

    def decide(
        self,
        session_id: str,
        *,
        happened: Mapping[str, Any] | None = None,
        repeat: Sequence[str] = (),
        give_up: Sequence[str] = (),
    ) -> Reply:
        """Says what became of the actions that a session's turn waits for, and goes on with it.

        Each call is named once, by its idempotency key, or by its name where no other one has it.
        The same decision in the shape of Bedrock's results is
        `invoke(results=undecided.answer(...))`, which may be sent twice.

        Args:
            session_id: The session.
            happened: The calls that took effect, with what each gave: a text, or JSON data.
            repeat: The calls that did not take effect, and are carried out now, with the same key.
                A message to an agent in Bedrock has none there: sent twice, it may act twice.
            give_up: The calls that stay unknown: the turn ends with `ActionOutcomeUnknown`.

        Raises:
            ValidationError: The session waits for no decision, or a call is not decided, or twice.
            SessionConflict: Another process is faster, or the agent was changed since.
            OrchestratorError: The turn failed.
        """
        decisions = {"happened": happened, "repeat": repeat, "give_up": give_up}
        return self.invoke("", session_id, results=self._find_results(session_id, decisions))

    async def adecide(
        self,
        session_id: str,
        *,
        happened: Mapping[str, Any] | None = None,
        repeat: Sequence[str] = (),
        give_up: Sequence[str] = (),
    ) -> Reply:
        """`decide`, for an event loop."""
        decisions = {"happened": happened, "repeat": repeat, "give_up": give_up}
        finding = in_thread(partial(self._find_results, session_id, decisions))
        results = await as_awaitable(finding)
        return await self.ainvoke("", session_id, results=results)

    def _find_results(self, session_id: str, decisions: Mapping[str, Any]) -> dict[str, Any]:
        from orchestrator.agent.recovery import find_decision_results

        check_id("session_id", session_id)
        return find_decision_results(self.plan, self.sessions, session_id, decisions)

    def end_session(self, session_id: str) -> None:
        """Ends a session: its next turn begins with no attributes and no conversation.

        A session that belongs to a memory is summarised first, by a model.

        Raises:
            SessionConflict: A turn of the session is running.
            ValidationError: The id is not valid.
            OrchestratorError: The session could not be summarised; it has not ended then.
        """
        check_id("session_id", session_id)
        label = session_label(self.plan.owner, session_id)
        # Only a session with a memory is worth a model call at its end (Bedrock: SESSION_SUMMARY).
        if self.plan.memory_stage is not None and self.sessions.peek(label).memory_id:
            from orchestrator.agent.close_sessions import close_session

            close_session(self.plan, self.sessions, session_id)
        else:
            from orchestrator.sessions.between_turns import end_session

            end_session(self.sessions, label)

    def undo_turn(self, session_id: str) -> None:
        """Undoes the last turn of a session: its next turn begins as that one did.

        Conversation and session attributes are as they were before it, and the model does not know
        of it any more. What its actions, programs and remote agents did stays done. Its records
        stay in the journal, where only the store itself still shows them.

        Raises:
            SessionConflict: A turn of the session is running.
            ValidationError: The id is not valid, or the session has no turn since it began.
            DependencyFailed: The session's journal cannot be read or written.
        """
        from orchestrator.sessions.between_turns import undo_last_turn

        check_id("session_id", session_id)
        label = session_label(self.plan.owner, session_id)
        undo_last_turn(self.sessions, label, self.plan.idle_ttl)

    def turns(self, session_id: str) -> list[PastTurn]:
        """The turns of a session, oldest first, with those from before it last began anew.

        Each has `id`, `question`, `text`, `stop_reason`, `at` (nanoseconds since 1970), `new`,
        `current` and, made when it is read, `trace`. Turns that were undone are left out.

        Raises:
            ValidationError: The id is not valid.
            DependencyFailed: The session's journal cannot be read.
        """
        from orchestrator.engine.trace.past_turns import load_past_turns

        check_id("session_id", session_id)
        return load_past_turns(self.sessions, session_label(self.plan.owner, session_id), self.plan)

    def fork(
        self,
        session_id: str,
        turn: str,
        call: int | None = None,
        *,
        new_session_id: str | None = None,
        results: Mapping[int, str] | None = None,
    ) -> str:
        """Copies a session up to a point of one of its turns, to go on from there otherwise.

        `invoke("", ID)` of the new session's id runs the turn from there: what was before is taken
        from the journal, nothing of it happens again. What comes after happens anew, actions too.
        Use `with_changes` before to have other prompts or another model from there.

        Args:
            session_id: The session; it stays as it is.
            turn: The `id` of one of its `turns`.
            call: The number of the turn's model call, from 1, to go on from; those of collaborators
                count, too. `None` ends before the turn, for another question in its place.
            new_session_id: The id of the copy, which must be new; made when it is left out.
            results: Other results of actions before the call, by their numbers in the turn, from 1.

        Returns:
            The new session's id.

        Raises:
            ResourceNotFound: There is no such turn.
            ValidationError: There is no such call, or the new session exists.
            DependencyFailed: The session's journal cannot be read, or the new one not written.
        """
        from orchestrator.agent.fork import find_free_id, fork_session

        new = new_session_id or find_free_id(self.plan, self.sessions, session_id)
        fork_session(
            self.plan,
            self.sessions,
            session_id,
            turn,
            call=call,
            new_session_id=new,
            results=results or {},
        )
        return new

    def remember(self, memory_id: str | None = None) -> list[str]:
        """Summarises the sessions that have been idle for longer than their time-out.

        An invocation with a `memory_id` does so first for the sessions of that memory.

        Args:
            memory_id: One memory; all of the agent's when `None`.

        Returns:
            The sessions that were summarised.

        Raises:
            OrchestratorError: Some could not be summarised, and wait for the next time; the
                others were.
        """
        from orchestrator.agent.close_sessions import close_idle

        return close_idle(self.plan, self.sessions, memory_id)

    def memories(self, memory_id: str) -> list[dict[str, Any]]:
        """What is remembered, newest first, as `memoryContents` of Bedrock's GetAgentMemory.

        These are all sessions until their days of storage are over, also those that are too old
        for prompts (`max_recent_sessions`).
        """
        memory = self.plan.features.memory
        if memory is None:
            return []
        from orchestrator.memory.summaries import memory_contents

        check_id("memory_id", memory_id)
        now = self.sessions.clock()
        return memory_contents(memory.store.recent(self.plan.owner, memory_id, now, _ALL_SESSIONS))

    def forget(self, memory_id: str | None = None, session_id: str | None = None) -> None:
        """Forgets a memory, or one session of it, or all (Bedrock: DeleteAgentMemory)."""
        memory = self.plan.features.memory
        if memory is not None:
            memory.store.delete(self.plan.owner, memory_id, session_id)
