"""A worker: takes submitted turns from queues and runs them, beside any number of others."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Self

from orchestrator.agent.durable.database import (
    APPLICATION,
    VERSION,
    build_database_error,
    check_url,
    import_dbos,
)
from orchestrator.agent.durable.liveness import Liveness
from orchestrator.agent.durable.outage_log import is_of_outage
from orchestrator.agent.durable.partitions import PartitionKeys
from orchestrator.agent.durable.runs import QUEUE, DurableRuns
from orchestrator.agent.durable.workflow import (
    count_running,
    name_agent,
    register_workflows,
    set_agents,
)
from orchestrator.errors import OrchestratorError, ValidationError
from orchestrator.sessions.outages import allow_waiting, stop_waiting

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.agent.durable.flows import DurableFlow

_POLLING = 0.2  # seconds


class Worker:
    """Runs submitted turns, until it is closed; a context manager.

    A process has at most one, because DBOS is one a process.
    """

    def __init__(
        self,
        url: str,
        agents: Sequence[Agent] = (),
        *,
        flows: Sequence[DurableFlow] = (),
        queues: Sequence[str] = (QUEUE,),
        concurrency: int = 8,
        most: int | None = None,
        rate: tuple[int, float] | None = None,
        lease: float = 30.0,
    ) -> None:
        """Starts it.

        Args:
            url: The database that turns are submitted to.
            agents: Whose turns it runs.
            flows: Whose runs it runs.
            queues: Which queues it takes turns from, each with the limits that follow. Give each
                model a queue of its own to limit what it is asked.
            concurrency: How many turns of a queue it runs at the same time.
            most: How many all workers together run at the same time; any number when `None`.
            rate: How many turns all workers together begin within so many seconds.
            lease: After how many seconds without a sign of life the others take over its turns.

        Raises:
            DependencyFailed: The extra `dbos` is not installed, or the database cannot be used.
            ValidationError: There is a worker in this process, or an agent cannot be worked for.
        """
        check_url(url)
        _check_agents([*agents, *(flow.agent for flow in flows)])
        dbos = import_dbos(url)
        if dbos._dbos._dbos_global_instance is not None:
            raise ValidationError("this process has a worker, or another application of DBOS")
        register_workflows(dbos)
        set_agents(agents, flows)
        allow_waiting()
        self.id = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(8).hex()}"
        self._dbos = dbos.DBOS
        try:
            # First of all: whoever runs a turn without a lease is taken for dead.
            self._liveness = Liveness(url, self.id, lease)
        except Exception as error:
            raise build_database_error(url, error) from error
        try:
            self._launch(url, queues, concurrency, most, rate)
        except Exception as error:
            self._dbos.destroy()
            self._liveness.close()
            if isinstance(error, OrchestratorError):
                raise
            raise build_database_error(url, error) from error
        self._liveness.begin_to_take_over()
        self._keys = PartitionKeys(queues)

    def _launch(
        self,
        url: str,
        queues: Sequence[str],
        concurrency: int,
        most: int | None,
        rate: tuple[int, float] | None,
    ) -> None:
        from dbos._serialization import DBOSPortableJSON

        # First: DBOS looks for new queues once a second.
        with DurableRuns(url) as runs:
            for queue in queues:
                runs.client.register_queue(
                    queue,
                    worker_concurrency=concurrency,
                    global_concurrency=most,
                    partition_concurrency=1,  # a session's turns run one after the other
                    limiter=rate and {"limit": rate[0], "period": rate[1]},
                    polling_interval_sec=_POLLING,
                    on_conflict="always_update",
                )
        self._dbos(
            config={
                "name": APPLICATION,
                "system_database_url": url,
                "serializer": DBOSPortableJSON,
                "application_version": VERSION,
                "executor_id": self.id,
                "log_level": "WARNING",
                # Who closes the worker waits for the next look.
                "notification_listener_polling_interval_sec": _POLLING,
            }
        )
        _hide_failed_turns()
        self._dbos.listen_queues(list(queues))
        self._dbos.launch()

    def __enter__(self) -> Self:
        """The worker itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def close(self, seconds: float = 30.0) -> bool:
        """Takes no more turns, and waits for those that run; whether all of them have ended.

        After the seconds, what still runs is left to other workers, as if the process were killed:
        end the process then.
        """
        # DBOS waits a second at least, also for nothing.
        running = count_running()
        self._keys.close()
        self._dbos.destroy(workflow_completion_timeout_sec=ceil(seconds) if running else 0)
        stop_waiting()  # else threads that wait for a database would keep the process
        self._liveness.close()
        set_agents(())
        return not count_running()


# A turn that fails, or is cancelled, is a result like another one; DBOS would log its traceback. Of
# a database that is away `Liveness` says once what DBOS would say with each of its tries.
def _hide_failed_turns() -> None:
    log = logging.getLogger("dbos")
    if _is_worth_a_line not in log.filters:
        log.addFilter(_is_worth_a_line)


_CANCELLED = ("DBOSAwaitedWorkflowCancelledError", "DBOSWorkflowCancelledError")


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    failed = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    cancelled = type(failed).__name__ in _CANCELLED
    return not (cancelled or isinstance(failed, OrchestratorError) or is_of_outage(record))


def _check_agents(agents: Sequence[Agent]) -> None:
    names = [name_agent(agent) for agent in agents]
    for agent, name in zip(agents, names, strict=True):
        if not agent.sessions.durable:
            raise ValidationError(
                f"the sessions of {agent.name!r} are in this process's memory, where no other "
                "worker finds them; give sessions= a database"
            )
        if names.count(name) > 1:
            raise ValidationError(
                f"{agent.name!r} is there twice ({name}); give an agent another agent_id, and a "
                "flow another name"
            )
