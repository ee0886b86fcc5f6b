"""Queues are partitioned by session: of each session's turns one is dequeued at a time.

So turns that would only wait for their session take no place of their queue. DBOS never dequeues a
row of a partitioned queue that has no partition; those that schedules, DBOS's console and other
programs write have none, and a worker makes each one a partition of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from orchestrator.agent.durable.database import APPLICATION
from orchestrator.agent.durable.outage_log import OutageLog

_INTERVAL = 0.5  # seconds


def build_partition_key(label: str) -> str:
    """The partition of a session's turns, which does not show the session's id.

    Args:
        label: See `orchestrator.sessions.session_label`.
    """
    return str(uuid5(NAMESPACE_URL, f"orchestrator:{label}"))


class PartitionKeys:
    """A thread that gives a partition to each row of some queues that has none."""

    def __init__(self, queues: Sequence[str]) -> None:
        """Starts it; DBOS has been launched."""
        self._queues = list(queues)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orchestrator-queues", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it, before DBOS is."""
        self._stopped.set()
        self._thread.join(timeout=10.0)

    def _run(self) -> None:
        log = OutageLog("queues were not looked through", "queues are looked through again")
        while not self._stopped.is_set():
            log.watch(partial(set_missing_keys, self._queues))
            self._stopped.wait(_INTERVAL)


def set_missing_keys(queues: Sequence[str]) -> None:
    """Gives each row of the queues that waits without a partition one of its own."""
    import sqlalchemy as sa
    from dbos._dbos import _get_dbos_instance

    database: Any = _get_dbos_instance()._sys_db
    rows = database.tables.workflow_status
    missing = sa.and_(
        rows.c.queue_name.in_(queues),
        rows.c.status == "ENQUEUED",
        rows.c.queue_partition_key.is_(None),
        sa.or_(rows.c.application_name == APPLICATION, rows.c.application_name.is_(None)),
    )
    with database.engine.begin() as connection:
        # Asked first: an UPDATE takes SQLite's one lock, even if it finds nothing.
        if connection.execute(sa.select(rows.c.workflow_uuid).where(missing).limit(1)).first():
            keyed = sa.update(rows).where(missing)
            connection.execute(keyed.values(queue_partition_key=rows.c.workflow_uuid))
