"""Where turns are submitted to: a database whose queues workers take them from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from orchestrator.agent.durable.database import VERSION, open_client
from orchestrator.agent.durable.partitions import build_partition_key
from orchestrator.agent.durable.sealing import open_input, seal_input, seal_schedule
from orchestrator.agent.durable.submission import ENDS, Submission
from orchestrator.agent.durable.workflow import REFUSED, SCHEDULED, TURN, name_agent
from orchestrator.errors import ResourceNotFound, SessionConflict, ValidationError
from orchestrator.sessions import session_label
from orchestrator.support.tracing import get_traceparent

if TYPE_CHECKING:
    from dbos import WorkflowStatus

    from orchestrator.agent.agent import Agent
    from orchestrator.engine.trace.reply import Reply

QUEUE = "turns"
"""The queue that is used where none is named."""


class DurableRuns:
    """A database of submitted turns. Safe for many threads; a context manager that closes it.

    It only writes to the database and reads from it. A `Worker`, or `orchestrator worker`, runs the
    turns.

    Attributes:
        client: DBOS's own client of the database, for what is not here.
    """

    def __init__(self, url: str) -> None:
        """Opens the database, and makes DBOS's tables where they are missing.

        Args:
            url: `postgresql://USER@HOST/NAME`; or `sqlite:///FILE`, to try it on one machine.

        Raises:
            DependencyFailed: The extra `dbos` is not installed, or the database cannot be used.
            ValidationError: The URL is none of these.
        """
        self.url = url
        self.client = open_client(url)

    def __enter__(self) -> Self:
        """The database itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Closes its connections; what was submitted goes on."""
        self.client.destroy()

    def submit(
        self,
        agent: Agent,
        question: str,
        session_id: str | None,
        options: Mapping[str, Any],
        *,
        queue: str = QUEUE,
        retries: int = 0,
        delay: float = 0.0,
    ) -> Submission:
        """See `Agent.submit`."""
        given = dict(options)
        request_id = given.pop("request_id", "")
        id = _build_id(agent, request_id)
        turn = build_turn(agent, question, session_id, given, retries)
        trace = get_traceparent()
        sealed = seal_input({**turn, "trace": trace} if trace else turn, id)
        known = self.client.list_workflows(workflow_ids=[id]) if request_id else ()
        if known:
            _check_same(known[0], turn, request_id)
            return Submission(self.client, id, agent)
        row: Any = {
            "workflow_name": TURN,
            "queue_name": queue,
            "workflow_id": id,
            "app_version": VERSION,
            "queue_partition_key": build_partition_key(_label(agent, session_id, id)),
            "authenticated_user": agent.plan.owner,
        }
        if delay:
            row["delay_seconds"] = delay
        self.client.enqueue(row, sealed)
        return Submission(self.client, id, agent)

    def find(self, agent: Agent, id: str) -> Submission:
        """See `Agent.find_submission`."""
        found = self.client.list_workflows(
            workflow_ids=[str(id)], user=agent.plan.owner, load_input=False, load_output=False
        )
        if not found:
            raise ResourceNotFound(f"the agent has no submitted turn {str(id)[:60]!r}")
        return Submission(self.client, str(id), agent)

    def schedule(
        self,
        agent: Agent,
        name: str,
        cron: str,
        question: str,
        session_id: str | None = None,
        *,
        queue: str = QUEUE,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Has a worker ask a question again and again; each time is one turn, on one worker.

        Args:
            agent: Whom to ask.
            name: Names the schedule among those of the agent and its tenant.
            cron: When, as cron writes it, in UTC: `0 7 * * 1-5` is at seven on weekdays.
            question: The question.
            session_id: The session; another one each time when `None`.
            queue: The queue that workers take the turns from.
            options: As for `Agent.submit`.

        Raises:
            ValidationError: An argument is wrong, or the agent has a schedule of this name.
        """
        full_name = _name_schedule(agent, name)
        turn = seal_schedule(build_turn(agent, question, session_id, options or {}), full_name)
        try:
            self.client.create_schedule(
                schedule_name=full_name,
                workflow_name=SCHEDULED,
                schedule=cron,
                context=turn,
                queue_name=queue,
            )
        except Exception as error:
            raise ValidationError(
                f"the schedule {name[:60]!r} ({cron[:60]!r}) was not made: its times are not those "
                "of cron, or the agent has one of this name, which `unschedule` removes"
            ) from error

    def unschedule(self, agent: Agent, name: str) -> None:
        """Removes a schedule of the agent; no error when there is none."""
        self.client.delete_schedule(_name_schedule(agent, name))

    def find_outcomes(
        self, submissions: Sequence[Submission]
    ) -> list[tuple[str, Reply | None, Exception | None, float]]:
        """Of those that have ended: id, reply or error, and how many seconds it took."""
        by_id = {submission.id: submission for submission in submissions}
        found = self.client.list_workflows(
            workflow_ids=list(by_id), status=list(ENDS), load_input=False
        )
        return [(it.workflow_id, *by_id[it.workflow_id].read(it)) for it in found]


def _label(agent: Agent, session_id: str | None, id: str) -> str:
    return session_label(agent.plan.owner, session_id or id)


def _name_schedule(agent: Agent, name: str) -> str:
    return f"{agent.plan.owner}/{name}"


# With an id that the caller chose, the same submission is the same workflow; the owner is in it, so
# that nobody meets another's. An id that nobody chose cannot be guessed.
def _build_id(agent: Agent, request_id: object) -> str:
    if not request_id:
        return str(uuid4())
    try:
        given = UUID(str(request_id))
    except ValueError:
        raise ValidationError(f"request_id {str(request_id)[:60]!r} is no UUID") from None
    return str(uuid5(NAMESPACE_URL, f"orchestrator:{agent.plan.owner}:{given}"))


def build_turn(
    agent: Agent,
    question: str,
    session_id: str | None,
    options: Mapping[str, Any],
    retries: int = 0,
) -> dict[str, Any]:
    """The input of a turn's workflow.

    Raises:
        ValidationError: The agent's sessions end with this process, or an option is wrong or cannot
            be sent to another process.
    """
    if not agent.sessions.durable:
        raise ValidationError(
            f"the sessions of {agent.name!r} are in this process's memory, where no worker sees "
            "them; give sessions= a database"
        )
    if refused := sorted(REFUSED.intersection(options)):
        raise ValidationError(f"a submitted turn has no {refused[0]}=; `invoke` takes it")
    turn: dict[str, Any] = {
        "agent": name_agent(agent),
        "question": question,
        "options": {name: value for name, value in options.items() if value is not None},
    }
    # What is wrong with the call is told to who makes it, and not to a worker.
    agent.check_input(question, session_id or "checked", options)
    if session_id is not None:
        turn["session_id"] = session_id
    if agent.plan.tenant:
        turn["tenant"] = agent.plan.tenant
    if retries:
        turn["retries"] = retries
    try:
        return dict(json.loads(json.dumps(turn, allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"the options of a submitted turn are JSON values: {error}") from None


def _check_same(known: WorkflowStatus, turn: dict[str, Any], request_id: str) -> None:
    stored: Any = known.input
    args = [] if stored is None else list(stored["args"])
    given = [open_input(it, known.workflow_id) for it in args]
    if [{name: it[name] for name in it if name != "trace"} for it in given] != [turn]:
        raise SessionConflict(
            f"request_id {request_id!r} was submitted with other arguments; they stand"
        )
