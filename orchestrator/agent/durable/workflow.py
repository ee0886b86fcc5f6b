"""The workflows that DBOS runs: a turn, and a turn of a schedule.

A workflow's id is the turn's id in the journal. So a workflow that is run again, because its
process was killed, finds its turn there: it goes on with it, or has its answer, and never asks
twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from uuid import NAMESPACE_URL, UUID, uuid5

from orchestrator.agent.durable.sealing import open_input, seal_error, seal_result
from orchestrator.agent.durable.steps import (
    LeftTurnCancelled,
    carry_out,
    carry_out_effect,
    carry_out_left_effect,
    read_status,
)
from orchestrator.engine.results import UNDECIDED
from orchestrator.engine.trace.reply import Reply
from orchestrator.errors import (
    ActionOutcomeUnknown,
    DependencyFailed,
    OrchestratorError,
    SessionBusy,
    ThrottlingError,
    TurnLeft,
    ValidationError,
)
from orchestrator.sessions import TurnLog, session_label
from orchestrator.sessions.between_turns import cancel_left_turn
from orchestrator.sessions.outages import outlast
from orchestrator.support.tracing import continue_trace

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.agent.durable.flows import DurableFlow

TURN = "orchestrator.turn"
SCHEDULED = "orchestrator.scheduled_turn"

_MOST_RETRIES = 10
_LONGEST_WAIT = 30.0  # seconds between two tries
_LIVING = ("DELAYED", "ENQUEUED", "PENDING")  # what DBOS calls workflows that have not ended

# Of the worker in this process: DBOS calls functions by their names, with data alone.
_agents: dict[str, Agent] = {}
_flows: dict[str, DurableFlow] = {}


def name_agent(agent: Agent) -> str:
    """The name by which a worker finds an agent, for every tenant."""
    return f"{agent.plan.agent_id}/{agent.plan.alias_id}"


def set_agents(agents: Sequence[Agent], flows: Sequence[DurableFlow] = ()) -> None:
    """Says which agents and flows this process works for."""
    _agents.clear()
    _flows.clear()
    _agents.update({name_agent(agent): agent for agent in agents})
    _agents.update({name_agent(flow.agent): flow.agent for flow in flows})
    _flows.update({name_agent(flow.agent): flow for flow in flows})


_running: set[str] = set()


def count_running() -> int:
    """How many turns run in this process."""
    return len(_running)


def register_workflows(dbos: Any) -> None:
    """Makes the workflows known to DBOS, once a process."""
    known = dbos._dbos._get_or_create_dbos_registry().workflow_info_map
    if TURN not in known:
        dbos.DBOS.workflow(name=TURN)(run_turn)
        dbos.DBOS.workflow(name=SCHEDULED)(run_scheduled_turn)


def run_scheduled_turn(at: datetime, turn: dict[str, Any]) -> dict[str, Any]:
    """Runs a turn of a schedule."""
    return run_turn(turn)


def run_turn(turn: dict[str, Any]) -> dict[str, Any]:
    """Runs a turn that was submitted; its result as JSON."""
    from dbos import DBOS

    if not isinstance(turn, dict):
        raise _build_input_error()
    workflow_id = str(DBOS.workflow_id)
    turn = open_input(turn, workflow_id)
    agent, asked = _find_agent(turn), _read_turn(turn, workflow_id)
    _running.add(workflow_id)
    try:
        with continue_trace(asked.trace):
            result = _run(agent, asked)
    except TurnLeft as left:
        raise (left.__cause__ or left) from None
    except OrchestratorError as error:
        if _waits_for_decision(error, asked):
            return seal_result(build_undecided_result(error), workflow_id)
        if not hasattr(error, "code"):  # DBOS's record of an error has a member for it
            vars(error)["code"] = getattr(error, "limit", "")
        sealed = seal_error(error, workflow_id)
        if sealed is error:
            raise
        vars(sealed).setdefault("code", "")
        raise sealed from None
    finally:
        _running.discard(workflow_id)
    return seal_result(result, workflow_id)


def _run(agent: Agent, turn: _Turn) -> dict[str, Any]:
    flow = _flows.get(name_agent(agent))
    if flow is None:
        return build_result(_run_with_retries(agent, turn))
    run = flow.open_run(turn.session_id)
    turn.before = run.reset
    with run.open_agent() as own:
        reply = _run_with_retries(own, turn)
        return {**build_result(reply), "run": run.describe(reply)}


def _waits_for_decision(error: OrchestratorError, turn: _Turn) -> bool:
    """Whether it is this workflow's turn that is suspended, and not an earlier one of its session.

    The workflow ends then, as one does that returns control: whoever decides submits that.
    """
    undecided = getattr(error, "undecided", None)
    if undecided is None:
        return False
    own: bool = undecided.turn_id == turn.options["request_id"]
    return own or "results" in turn.options


def _find_agent(turn: dict[str, Any]) -> Agent:
    name, tenant = turn.get("agent"), turn.get("tenant", "")
    agent = _agents.get(name) if isinstance(name, str) else None
    if agent is None or not isinstance(tenant, str):
        raise ValidationError(
            f"this worker has no agent or script {str(name)[:60]!r}; start one with its folder or "
            "file, on a queue of its own"
        )
    return agent.for_tenant(tenant) if tenant else agent


# Options with paths of files, which are the submitter's, and those that the workflow sets.
REFUSED = frozenset(
    (
        *("files", "session_state", "inline_session_state", "request_id"),
        *("sessionState", "inlineSessionState", "requestId"),
    )
)
_MEMBERS = frozenset(
    ("agent", "tenant", "question", "session_id", "options", "retries", "trace"),
)


class _Turn:
    """What was submitted."""

    def __init__(
        self,
        workflow: str,
        question: str,
        session_id: str,
        options: dict[str, Any],
        retries: int,
        trace: str,
    ) -> None:
        self.workflow = workflow  # its id
        self.question = question
        self.session_id = session_id
        self.options = options
        self.retries = retries
        self.trace = trace  # the header `traceparent` of whoever has submitted it
        self.before: Callable[[], None] = _do_nothing  # called when no other turn is left to run


def _do_nothing() -> None:
    pass


def _read_turn(turn: dict[str, Any], workflow_id: str) -> _Turn:
    # What stands in the database may have been written by anybody who can write to it.
    question, options = turn.get("question", ""), turn.get("options", {})
    retries, id = turn.get("retries", 0), turn_id_of(workflow_id)
    trace = turn.get("trace", "")
    session = find_session(turn, workflow_id)
    if (
        not turn.keys() <= _MEMBERS
        or not isinstance(question, str)
        or not isinstance(session, str)
        or not isinstance(options, dict)
        or not REFUSED.isdisjoint(options)
        or not isinstance(retries, int)
        or not 0 <= retries <= _MOST_RETRIES
        or not isinstance(trace, str)
    ):
        raise _build_input_error()
    return _Turn(workflow_id, question, session, {**options, "request_id": id}, retries, trace)


def _build_input_error() -> ValidationError:
    return ValidationError("the workflow's input is not what `Agent.submit` writes")


def find_session(turn: dict[str, Any], workflow_id: str) -> Any:
    """The id of the session that a turn is of; its own where the caller gave none."""
    return turn.get("session_id") or turn_id_of(workflow_id)


def turn_id_of(workflow_id: str) -> str:
    """The UUID of a workflow's turn: its own id, or one that is made of it, for a schedule's."""
    try:
        return str(UUID(workflow_id))
    except ValueError:
        return str(uuid5(NAMESPACE_URL, f"orchestrator:{workflow_id}"))


def _run_with_retries(agent: Agent, turn: _Turn) -> Reply:
    tries = 0
    while True:
        try:
            return _run_when_free(agent, turn)
        except (DependencyFailed, ThrottlingError) as error:
            if tries >= turn.retries or not _may_ask_again(agent, turn, error):
                raise
            agent.undo_turn(turn.session_id)
        _wait("wait to try again", min(2.0**tries, _LONGEST_WAIT))
        tries += 1


def _may_ask_again(agent: Agent, turn: _Turn, error: OrchestratorError) -> bool:
    """Whether the failed turn is the session's last one, and has done nothing to anybody."""
    if isinstance(error, ActionOutcomeUnknown) or "results" in turn.options:
        return False
    past = agent.turns(turn.session_id)
    return (
        bool(past)
        and past[-1].id == turn.options["request_id"]
        and not _has_acted(past[-1].records)
    )


def _has_acted(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an action was begun, a remote agent asked, or code of a custom orchestration run."""
    seen_inside = {record.get("branch", "") for record in records}
    return any(
        record["kind"] in ("intent", "orchestrated")
        # What a remote agent does is in no journal here but for its end.
        or (record["kind"] == "branch" and record["id"] not in seen_inside)
        for record in records
    )


def _run_when_free(agent: Agent, turn: _Turn) -> Reply:
    """Runs the turn, when no other one of its session runs."""
    waited = 0.0
    while True:
        try:
            return outlast(partial(_run_or_go_on, agent, turn))
        except SessionBusy:
            if waited > _longest_turn(agent):
                raise
        seconds = min(0.1 + waited / 4, 5.0)
        _wait("wait for the session", seconds)
        waited += seconds


def _run_or_go_on(agent: Agent, turn: _Turn) -> Reply:
    """Runs the turn, or goes on with what the journal has of it."""
    _finish_left_turn(agent, turn)
    turn.before()
    return agent.invoke_in_steps(
        carry_out_effect,
        turn.question,
        turn.session_id,
        workflow=turn.workflow,
        **turn.options,
    )


def _finish_left_turn(agent: Agent, turn: _Turn) -> None:
    """Goes on with a turn that another, stopped process has left; else this one would cancel it.

    Raises:
        SessionBusy: Somebody else runs it, or will.
        TurnLeft: As for `carry_out_left_effect`.
    """
    left = _find_left_turn(agent, turn)
    if left is None:
        return
    workflow, id = left.workflow, left.start["id"]
    if workflow and read_status(workflow) == "CANCELLED":
        cancel_left_turn(agent.sessions, _label(agent, turn), workflow)
        return
    try:
        # By its id: one that has ended meanwhile is not asked again, nor is any other.
        agent.invoke_in_steps(
            partial(carry_out_left_effect, workflow),
            "",
            turn.session_id,
            workflow=workflow,
            request_id=id,
        )
    except SessionBusy:
        raise
    except LeftTurnCancelled:
        return
    except OrchestratorError as error:
        _refuse_to_give_up(agent, turn, id, error)


def _find_left_turn(agent: Agent, turn: _Turn) -> TurnLog | None:
    """The session's open turn, if it is neither this one nor waits for its caller.

    Raises:
        SessionBusy: This process runs a turn of the session.
    """
    log = agent.sessions.open_turns.find(_label(agent, turn))
    own = turn.options["request_id"]
    if log is None or log.suspend_record or own == log.start["id"] or turn.workflow == log.workflow:
        return None
    return log if turn.options.get("results") is None else None


# What failed is the other turn. Its journal says so, and its own workflow reports it; unless it
# could not even be tried, such as by another version of the agent: then it stays that workflow's.
def _refuse_to_give_up(agent: Agent, turn: _Turn, id: str, error: OrchestratorError) -> None:
    left = _find_left_turn(agent, turn)
    if left is None or left.start["id"] != id:
        return
    if read_status(left.workflow) in _LIVING:
        raise SessionBusy(error.message) from error


def _label(agent: Agent, turn: _Turn) -> str:
    return session_label(agent.plan.owner, turn.session_id)


def _longest_turn(agent: Agent) -> float:
    return (agent.plan.limits.seconds or 3600.0) + 120.0


def _wait(name: str, seconds: float) -> None:
    wait: Callable[[], None] = partial(time.sleep, seconds)
    carry_out(name, wait, lambda _: {"seconds": round(seconds, 3)})


def build_result(reply: Reply) -> dict[str, Any]:
    """A reply as JSON members. Its trace is in the journal."""
    control = reply.return_control
    return {
        "text": reply.text,
        "stop_reason": reply.stop_reason,
        "session_id": reply.session_id,
        "turn_id": reply.turn_id,  # with results, it is that of the turn that waited for them
        "citations": reply.citations,
        "return_control": control
        and {
            "invocationId": control.invocation_id,
            "invocationInputs": control.invocation_inputs,
        },
        "usage": list(reply.usage),
        "notes": reply.notes,
    }


def build_undecided_result(error: OrchestratorError) -> dict[str, Any]:
    """The error of a turn that waits for a decision as JSON members; others have no `undecided`."""
    waits = cast("ActionOutcomeUnknown", error).undecided
    reply = error.reply or Reply("", UNDECIDED, waits.session_id)
    members = {"message": error.message, "undecided": waits.as_dict(), "turn_id": waits.turn_id}
    return {**build_result(reply), **members}
