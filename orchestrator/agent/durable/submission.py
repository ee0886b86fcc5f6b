"""A turn that was submitted: where it is, what came of it, and how to cancel it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from orchestrator.agent.durable.sealing import open_input, open_message, open_result
from orchestrator.agent.durable.workflow import find_session
from orchestrator.engine.results import ControlReturn
from orchestrator.engine.trace.reply import Details, Reply
from orchestrator.engine.undecided_calls import Undecided
from orchestrator.errors import (
    ActionOutcomeUnknown,
    OrchestratorError,
    ResourceNotFound,
    rebuild_error,
)
from orchestrator.models.base import Usage
from orchestrator.sessions import session_label
from orchestrator.sessions.between_turns import cancel_left_turn
from orchestrator.support.threads import as_awaitable, in_thread

if TYPE_CHECKING:
    from dbos import DBOSClient, WorkflowStatus

    from orchestrator.agent.agent import Agent
    from orchestrator.engine.trace.past_turns import PastTurn

T = TypeVar("T")
State: TypeAlias = Literal["queued", "running", "ended", "failed", "cancelled"]

_STATES: dict[str, State] = {
    "DELAYED": "queued",
    "ENQUEUED": "queued",
    "PENDING": "running",
    "SUCCESS": "ended",
    "CANCELLED": "cancelled",
}
ENDS = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
"""What DBOS calls a workflow that has ended."""

_SHORTEST, _LONGEST = 0.02, 1.0  # seconds between two looks


class Handle:
    """What was submitted, in the database: where it is, and how to cancel it."""

    def __init__(self, client: DBOSClient, id: str, agent: Agent) -> None:
        self.id = id
        self._client = client
        self._agent = agent

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def status(self) -> State:
        """`queued`, `running`, `ended`, `failed` or `cancelled`."""
        return read_state(self._load(output=False))

    async def astatus(self) -> State:
        """`status`, for an event loop."""
        return await self._do_in_thread(self.status)

    def cancel(self) -> None:
        """Cancels the turn: before it begins, or after the effect that is being carried out.

        A turn that has ended stays as it is. One whose worker was killed ends here, in its journal
        too: nobody goes on with it.

        Raises:
            DependencyFailed: Its session's journal cannot be read or written. The turn is
                cancelled all the same.
        """
        self._client.cancel_workflow(self.id)
        found = self._load(input=True, output=False)
        if found.status == "CANCELLED" and found.input is not None:
            turn = open_input(found.input["args"][-1], self.id)
            session_id = find_session(turn, self.id)
            label = session_label(self._agent.plan.owner, session_id)
            cancel_left_turn(self._agent.sessions, label, self.id)

    async def acancel(self) -> None:
        """`cancel`, for an event loop."""
        await self._do_in_thread(self.cancel)

    async def _do_in_thread(self, function: Callable[[], T]) -> T:
        return await as_awaitable(in_thread(function, at_once=False))

    def _wait(self, timeout: float | None) -> WorkflowStatus:
        until = None if timeout is None else time.monotonic() + timeout
        pause = _SHORTEST
        while (state := self.status()) in ("queued", "running"):
            left = pause if until is None else until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"the turn {self.id} is {state} after {timeout} seconds")
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST)
        return self._load()

    def _load(self, *, input: bool = False, output: bool = True) -> WorkflowStatus:
        found = self._client.list_workflows(
            workflow_ids=[self.id], load_input=input, load_output=output
        )
        if not found:
            raise ResourceNotFound(f"there is no turn {self.id!r} in the database any more")
        return found[0]


class Submission(Handle):
    """A turn that was submitted.

    Any process may have one, and as many as there are: the database has the turn.

    Attributes:
        id: Names it; `Agent.find_submission` finds it by this id.
    """

    def result(self, timeout: float | None = None) -> Reply:
        """Waits for the turn's end; its reply.

        A turn that was cancelled has one whose `stop_reason` is `cancelled`. Where control was
        returned, `Agent.submit(results=...)` goes on, from any process, as long as the session
        lives. So it does with the `undecided.answer(...)` of an `ActionOutcomeUnknown` that waits
        for a decision.

        Args:
            timeout: For how many seconds to wait; for ever when `None`.

        Raises:
            OrchestratorError: The turn failed.
            TimeoutError: It has not ended yet.
        """
        return read_reply(self._wait(timeout), self._agent)

    async def aresult(self, timeout: float | None = None) -> Reply:
        """`result`, for an event loop."""
        return await self._do_in_thread(partial(self.result, timeout))

    def read(self, status: WorkflowStatus) -> tuple[Reply | None, Exception | None, float]:
        """Of a workflow that has ended: the reply or the error, and the seconds that it took."""
        began = status.dequeued_at or status.created_at or 0
        seconds = max((status.completed_at or began) - began, 0) / 1000
        try:
            return read_reply(status, self._agent), None, seconds
        except OrchestratorError as error:
            return None, error, seconds


def read_state(status: WorkflowStatus) -> State:
    """Where a workflow is, in the words of a submission."""
    return _STATES.get(status.status, "failed")


def read_reply(status: WorkflowStatus, agent: Agent) -> Reply:
    """The reply of a workflow that has ended.

    Raises:
        OrchestratorError: The turn failed.
        ActionOutcomeUnknown: Or it waits for a decision, which its `undecided` says.
    """
    if status.error is not None or status.status not in ("SUCCESS", "CANCELLED"):
        raise _read_error(status)
    if status.status == "CANCELLED":
        return Reply("", "cancelled", "")
    output = open_output(status)
    control = output["return_control"]
    reply = Reply(
        output["text"],
        output["stop_reason"],
        output["session_id"],
        citations=output["citations"],
        return_control=control
        and ControlReturn(control["invocationId"], control["invocationInputs"]),
        details=_StoredDetails(output, agent),
    )
    if output.get("undecided"):
        raise _build_undecided_error(output, reply)
    return reply


def open_output(status: WorkflowStatus) -> dict[str, Any]:
    """The result of a workflow that has ended, as its worker has described it."""
    return open_result(dict(status.output or {}), status.workflow_id)


def _build_undecided_error(output: dict[str, Any], reply: Reply) -> ActionOutcomeUnknown:
    undecided = Undecided.from_dict(output["undecided"])
    error = ActionOutcomeUnknown(output["message"], resource=undecided.calls[0].name)
    error.undecided, error.reply = undecided, reply
    return error


def _read_error(status: WorkflowStatus) -> OrchestratorError:
    error: Any = status.error
    if error is None:
        return rebuild_error("DependencyFailed", f"the turn ended as {status.status}", "")
    name, code = getattr(error, "name", ""), getattr(error, "code", "")
    message = open_message(str(getattr(error, "message", error)), status.workflow_id)
    return rebuild_error(str(name), message, str(code or ""))


class _StoredDetails(Details):
    """What a worker has said of a turn; its trace is made of the journal."""

    __slots__ = ("_agent", "_output")

    def __init__(self, output: dict[str, Any], agent: Agent) -> None:
        self._output, self._agent = output, agent

    def turn_id(self) -> str:
        return str(self._output["turn_id"])

    def trace(self) -> list[dict[str, Any]]:
        turn = self._find_turn()
        return turn.trace if turn is not None else []

    def files(self) -> list[dict[str, Any]]:
        turn = self._find_turn()
        return turn.files if turn is not None else []

    def _find_turn(self) -> PastTurn | None:
        turns = self._agent.turns(self._output["session_id"])
        return next((turn for turn in turns if turn.id == self.turn_id()), None)

    def usage(self) -> Usage:
        return Usage._make(self._output["usage"])

    def notes(self) -> list[str]:
        return list(self._output["notes"])
