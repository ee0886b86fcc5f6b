"""A PostgreSQL database of this program: tables checked or made, statements over one pool.

The driver (psycopg 3 and its pool) is the extra `postgres`, imported when a database is opened.
"""

from __future__ import annotations

import atexit
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.support.content_root import content_root
from orchestrator.support.forks import ForkSafeLock
from orchestrator.support.lazy_imports import describe_missing_extra
from orchestrator.support.redaction import redact
from orchestrator.support.store_urls import PostgresUrl

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

    Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

_PATIENCE = 10.0  # seconds that a statement waits for a database that restarts, or a connection
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between the tries
_DEAD_PEER = 30_000  # milliseconds after which a server that acknowledges nothing is given up
_MIGRATION_LOCK = 0x6F726368  # "orch": any number that other programs are unlikely to lock
_HINT = "check that the database runs and accepts the name and the password of its URL"
# JIT is off too: a scan that is off has so high a cost that the server would compile every plan.
_SETTINGS = b"SELECT " + b", ".join(
    b"set_config('%s', 'off', false)" % name
    for name in (b"enable_seqscan", b"enable_hashjoin", b"enable_mergejoin", b"jit")
)
# What a server says that is about to end, or has just begun (PostgreSQL: "Error Codes").
_RESTARTING = frozenset({"57P01", "57P02", "57P03"})


class ConnectionLost(DependencyFailed):
    """The connection broke: nobody knows whether the statement took effect."""


class PostgresDatabase:
    """A database, as one kind of store uses it. Safe for many threads.

    All stores of a process that name the same database share its connections.
    """

    def __init__(self, url: PostgresUrl, component: str, what: str) -> None:
        """Connects, and makes the tables or brings them up to date.

        `component` names the folder of `memory/postgres/` with the statements of each version of
        the tables (`1.sql`, `2.sql`, ...); messages call the store `what`.

        Raises:
            ValidationError: The extra `postgres` is missing, or the URL is wrong.
            DependencyFailed: The database cannot be reached, refuses the name or the password, or
                was written by a newer version of this program.
        """
        self.url = url
        self._what = f"{what} {url.display_name!r}"
        _import_driver()
        self._migrate(component)
        self._pool: _SharedPool | None = _share_pool(url)

    def share(self) -> PostgresDatabase:
        """The same database for another user, who closes it."""
        other = copy(self)
        other._pool = _share_pool(self.url)
        return other

    def close(self) -> None:
        """Closes the connections, if no other store of this process uses them."""
        pool, self._pool = self._pool, None
        if pool is not None:
            _leave_pool(pool)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a statement finds that may be carried out twice.

        It is repeated when the connection breaks, as it does when the database restarts.

        Raises:
            DependencyFailed: The database failed, or did not come back in ten seconds.
        """

        def find(db: Connection) -> list[tuple[Any, ...]]:
            return db.execute(statement.encode(), values).fetchall()

        return self.repeat(lambda: self.run(find))

    def repeat(self, work: Callable[[], T]) -> T:
        """Does a work again while its connection breaks, for ten seconds at most."""
        until, pause = time.monotonic() + _PATIENCE, _FIRST_PAUSE
        while True:
            try:
                return work()
            except ConnectionLost:
                if time.monotonic() > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def run(self, work: Callable[[Connection], T]) -> T:
        """What `work` does with a connection, on which each statement is a transaction.

        Raises:
            ConnectionLost: The connection broke meanwhile.
            DependencyFailed: The database failed.
        """
        with self._borrow() as db:
            return work(db)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection, in a transaction that any error in the `with` block undoes.

        Raises:
            ConnectionLost: The connection broke; nobody knows whether all was written, or nothing.
            DependencyFailed: The database failed; nothing was written.
        """
        with self._borrow() as db, db.transaction():
            yield db

    @contextmanager
    def _borrow(self) -> Iterator[Connection]:
        import psycopg

        shared = self._pool
        if shared is None:
            raise self.failure("is closed; open it again")
        pool = shared.get()
        with self._translate_errors():
            db = pool.getconn()
            try:
                yield db
            except psycopg.Error as error:
                if is_lost(db, error):
                    db.close()
                    raise ConnectionLost(
                        f"the connection to {self._what} broke; {_HINT}",
                        resource=self.url.display_name,
                        is_outage=True,
                    ) from None
                raise
            finally:
                pool.putconn(db)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            # Not as the cause: libpq repeats a wrong URL with all that it has.
            raise self.translate(error) from None

    def translate(self, error: Exception) -> DependencyFailed:
        """An error of the driver as one of this program."""
        text = " ".join(redact(error, self.url.secrets).split())
        return self.failure(f"failed: {text}; {_HINT}", is_outage=_is_outage(error))

    def failure(self, text: str, *, is_outage: bool = False) -> DependencyFailed:
        """The error that says `text` of this store."""
        message = f"{self._what} {text}"
        return DependencyFailed(message, resource=self.url.display_name, is_outage=is_outage)

    def damage(self, text: str, way_out: str) -> DependencyFailed:
        """The error that says that the tables do not hold what was written to them."""
        return self.failure(f"is damaged: {text}; {way_out}")

    def _migrate(self, component: str) -> None:
        steps = _read_steps(component)
        with self._translate_errors(), _connect(self.url) as db:
            version = self._find_version(db, component)
            if version is None or version < len(steps):
                self._upgrade(db, component, steps)
            elif version > len(steps):
                raise self._build_newer_error(version, len(steps))

    def _build_newer_error(self, version: int, known: int) -> DependencyFailed:
        return self.failure(
            f"has tables of version {version}, newer than this program's {known}: update the "
            "program"
        )

    def _find_version(self, db: Connection, component: str) -> int | None:
        (found,) = db.execute("SELECT to_regclass('orchestrator_schema')").fetchone() or (None,)
        if found is None:
            return None
        row = db.execute(
            "SELECT version FROM orchestrator_schema WHERE component = %s", (component,)
        ).fetchone()
        return int(row[0]) if row is not None else None

    def _upgrade(self, db: Connection, component: str, steps: Sequence[str]) -> None:
        # Many processes may begin at the same time: the others wait, and find all done.
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            db.execute(
                "CREATE TABLE IF NOT EXISTS orchestrator_schema "
                "(component text PRIMARY KEY, version integer NOT NULL)"
            )
            version = self._find_version(db, component) or 0
            if version > len(steps):
                raise self._build_newer_error(version, len(steps))
            for step in steps[version:]:
                db.execute(step.encode())
            db.execute(
                "INSERT INTO orchestrator_schema VALUES (%s, %s) "
                "ON CONFLICT (component) DO UPDATE SET version = excluded.version",
                (component, len(steps)),
            )


def is_lost(db: Connection, error: psycopg.Error) -> bool:
    """Whether a statement failed because its connection broke, or is about to."""
    return db.closed or error.sqlstate in _RESTARTING


def _is_outage(error: Exception) -> bool:
    # No connection, no room, too many clients, a server that ends (PostgreSQL: "Error Codes",
    # classes 08, 53 and 57P). Of other statements the same would be wrong each time.
    import psycopg
    from psycopg_pool import PoolClosed

    if not isinstance(error, psycopg.OperationalError) or isinstance(error, PoolClosed):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "53", "57P"))


def _read_steps(component: str) -> list[str]:
    folder: Path = content_root() / "memory" / "postgres" / component
    files = sorted(folder.glob("*.sql"), key=lambda it: int(it.stem))
    return [file.read_text(encoding="utf-8") for file in files]


def _import_driver() -> None:
    try:
        for library in ("psycopg", "psycopg_pool"):
            import_module(library)
    except ImportError as error:
        needs = "stores in PostgreSQL need"
        raise ValidationError(describe_missing_extra(needs, "postgres", error.name)) from None


# What a URL says for itself wins.
def _options(url: PostgresUrl) -> dict[str, Any]:
    from psycopg import ProgrammingError, conninfo

    defaults = {
        "connect_timeout": 10,
        "tcp_user_timeout": _DEAD_PEER,
        "application_name": "bedrock-orchestrator",
    }
    try:
        return {**defaults, **conninfo.conninfo_to_dict(url.conninfo)}
    except ProgrammingError as error:
        text = " ".join(redact(error, url.secrets).split())
        raise ValidationError(
            f"the store {url.display_name!r} is no URL that libpq reads: {text} (PostgreSQL: "
            '"Connection Strings" has its parameters)'
        ) from None


def _connect(url: PostgresUrl) -> Connection:
    import psycopg

    return psycopg.connect(autocommit=True, **_options(url))


class _SharedPool:
    """The connections to one database, made again in a child process."""

    def __init__(self, url: PostgresUrl) -> None:
        self.url = url
        self.users = 0
        self._pid = 0
        self._pool: ConnectionPool[Connection] | None = None
        self._lock = ForkSafeLock()

    def get(self) -> ConnectionPool[Connection]:
        pool = self._pool
        if pool is None or self._pid != os.getpid():
            with self._lock:
                if self._pool is None or self._pid != os.getpid():
                    if self._pool is not None:
                        _inherited.append(self._pool)  # its connections are the parent's
                    self._pool, self._pid = _open_pool(self.url), os.getpid()
                pool = self._pool
        return pool

    def close(self) -> None:
        if self._pool is not None and self._pid == os.getpid():
            self._pool.close()


# Connections that are left open when the process ends are closed, as the server prefers.
def _close_pools() -> None:
    for pool in list(_pools.values()):
        pool.close()


_pools: dict[PostgresUrl, _SharedPool] = {}
_pools_lock = ForkSafeLock()
_inherited: list[Any] = []


def _share_pool(url: PostgresUrl) -> _SharedPool:
    with _pools_lock:
        pool = _pools.get(url)
        if pool is None:
            if not _pools:
                atexit.unregister(_close_pools)
                atexit.register(_close_pools)
            pool = _pools[url] = _SharedPool(url)
        pool.users += 1
        return pool


def _leave_pool(pool: _SharedPool) -> None:
    with _pools_lock:
        pool.users -= 1
        if pool.users:
            return
        del _pools[pool.url]
    pool.close()


def _open_pool(url: PostgresUrl) -> ConnectionPool[Connection]:
    from psycopg_pool import ConnectionPool

    return ConnectionPool(
        kwargs={"autocommit": True, **_options(url)},
        min_size=1,
        max_size=url.pool_size,
        num_workers=1,
        timeout=_PATIENCE,
        # The pool tries less and less often. With an end to that, the next call has it try anew:
        # else a database that was away for minutes would be away for as long again.
        reconnect_timeout=_PATIENCE,
        configure=_set_up,
        check=_refuse_closed,
        name="orchestrator",
        open=True,
    )


def _set_up(db: Connection) -> None:
    (pid,) = db.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    if pid != db.info.backend_pid:
        # Something between, such as PgBouncer, gives each transaction another one of its own
        # connections, which others use too: what is prepared or set there is not this connection's.
        db.prepare_threshold = None
        return
    # The driver prepares statements, and the server keeps the plan that it has made when a table
    # had a few rows: to read all of it, for each statement, also when it has a million. Of
    # this program's statements only lists read whole tables, and they can do nothing else.
    db.execute(_SETTINGS)


def _refuse_closed(db: Connection) -> None:
    # A server that has ended said so: there is something to read, although nothing was asked. To
    # ask each time whether it lives would cost as much as most statements.
    from psycopg import OperationalError

    try:
        has_ended = bool(select.select([db.fileno()], [], [], 0)[0])
    except ValueError:  # more open files than `select` can look at
        db.execute("")
        return
    if has_ended:
        db.close()
        raise OperationalError("the server has closed the connection")
