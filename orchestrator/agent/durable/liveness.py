"""Which workers live: each says so again and again, and takes over the turns of those that do not.

DBOS leaves it to its console, or to a process that comes back under the same name, to find out that
a worker has died. Here each worker has a lease in a table beside DBOS's, by the database's clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrator.agent.durable.database import APPLICATION, open_engine
from orchestrator.agent.durable.outage_log import OutageLog
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    from sqlalchemy import Connection

_LOG = get_logger("orchestrator.durable")

_TABLE = "orchestrator_workers"
_CLOCKS = {
    "postgresql": "extract(epoch from clock_timestamp())",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}


class Patience:
    """When a worker may take others for dead: not before they had a chance to renew their leases.

    If its own lease had ended when it was renewed, the database was away, or stood still, and the
    leases of all workers have ended in the same time.
    """

    def __init__(self, lease: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease, self._clock = lease, clock
        self._until = self._renewed = clock()

    def note_renewal(self) -> None:
        """Notes that this worker's lease was renewed."""
        now = self._clock()
        if now - self._renewed > self._lease:
            self._until = now + self._lease
        self._renewed = now

    @property
    def is_over(self) -> bool:
        """Whether who has no lease now has ended."""
        return self._clock() >= self._until


class Liveness:
    """The lease of this process's worker, which a thread renews."""

    def __init__(self, url: str, worker: str, lease: float) -> None:
        """Takes the lease.

        Args:
            url: The database.
            worker: Names the worker; no other ever has the name.
            lease: For how many seconds it counts as alive after each sign of life.
        """
        self._engine = open_engine(url)
        self._clock = _CLOCKS[self._engine.dialect.name]
        self._worker, self._lease = worker, lease
        self._patience = Patience(lease)
        self._log = OutageLog(
            "the worker's lease was not renewed, and its turns wait for the database",
            "the database of the turns is back: the worker's lease is renewed",
        )
        self._search_log = OutageLog(
            "turns of workers that have ended were not looked for",
            "turns of workers that have ended are looked for again",
        )
        self._stopped, self._takes_over = threading.Event(), threading.Event()
        try:
            self._create_table()
            self._renew()
        except BaseException:
            self._engine.dispose()
            raise
        self._thread = threading.Thread(target=self._run, name="orchestrator-worker", daemon=True)
        self._thread.start()

    def begin_to_take_over(self) -> None:
        """Looks for turns of dead workers from now on: DBOS has been launched."""
        self._takes_over.set()

    def close(self) -> None:
        """Gives the lease back: what the worker has not ended is taken over at once."""
        self._stopped.set()
        self._thread.join(timeout=10.0)
        try:
            with self._engine.begin() as connection:
                _execute(connection, f"DELETE FROM {_TABLE} WHERE id = :id", id=self._worker)
        except Exception as error:
            _LOG.warning("the worker's lease was not given back: %s", type(error).__name__)
        finally:
            self._engine.dispose()

    def _create_table(self) -> None:
        columns = "id TEXT PRIMARY KEY, until_seconds DOUBLE PRECISION NOT NULL"
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":
                # Two that create a table at the same time, even IF NOT EXISTS, are an error.
                _execute(connection, "SELECT pg_advisory_xact_lock(7261838)")
            _execute(connection, f"CREATE TABLE IF NOT EXISTS {_TABLE} ({columns})")

    def _run(self) -> None:
        while not self._stopped.wait(self._lease / 4):
            if self._log.watch(self._renew):
                self._patience.note_renewal()
                if self._takes_over.is_set() and self._patience.is_over:
                    self._search_log.watch(self._take_over)

    def _renew(self) -> None:
        with self._engine.begin() as connection:
            _execute(
                connection,
                f"INSERT INTO {_TABLE} (id, until_seconds) VALUES (:id, {self._clock} + :lease) "
                "ON CONFLICT (id) DO UPDATE SET until_seconds = excluded.until_seconds",
                id=self._worker,
                lease=self._lease,
            )
            _execute(connection, f"DELETE FROM {_TABLE} WHERE until_seconds < {self._clock}")

    def _take_over(self) -> None:
        """Puts the turns of dead workers back into their queues."""
        from dbos import DBOS

        # The living are read after the running: a worker that begins a turn in between has a lease.
        running = DBOS.list_workflows(
            status="PENDING",
            application_name=APPLICATION,
            load_input=False,
            load_output=False,
        )
        with self._engine.connect() as connection:
            rows = _execute(connection, f"SELECT id FROM {_TABLE}")
        living = {row[0] for row in rows}
        dead = {it.executor_id for it in running if it.executor_id} - living
        if dead and not self._stopped.is_set():
            _LOG.warning("taking over the turns of %d workers that have ended", len(dead))
            # Of several that do this at once, one finds each turn still to be the dead worker's.
            DBOS._recover_pending_workflows(sorted(dead))


def _execute(connection: Connection, statement: str, **values: object) -> list[tuple[object, ...]]:
    from sqlalchemy import text

    result = connection.execute(text(statement), values)
    return [tuple(row) for row in result] if result.returns_rows else []
