"""Sessions in a SQLite file: one row a record, write-ahead log, conditional append."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from orchestrator.errors import DependencyFailed, SessionConflict
from orchestrator.sessions.journal import Record, SessionInfo

__all__ = ["SQLiteStore"]

_VERSION = 1

# The primary key is the conditional append: two writers of one place collide.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS session (
    key TEXT PRIMARY KEY, label TEXT NOT NULL, updated INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (
    key TEXT NOT NULL, place INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (key, place)
) WITHOUT ROWID;
"""


class SQLiteStore:
    """A `SessionStore` in a file, shared by the processes of one machine.

    Every append is one transaction. The log is write-ahead with `synchronous=NORMAL`: a killed
    process loses nothing; a power cut may lose the last appends, never the file.

    Calls block, also those of `Agent.ainvoke` and `Agent.astream`: mostly for less than a
    millisecond, but for up to 30 seconds while another process has the file locked. An event loop
    that must not wait runs `Agent.invoke` in threads, or has a store of its own.
    """

    durable = True

    def __init__(self, path: str | Path) -> None:
        """Opens the file, and makes it when it is not there.

        Args:
            path: The file; its folder must exist.

        Raises:
            DependencyFailed: The file cannot be opened, or was written by a newer version.
        """
        self.path = Path(path)
        self.identity = str(self.path.resolve()) if str(path) != ":memory:" else id(self)
        self._lock = Lock()
        try:
            self._db = sqlite3.connect(
                self.path, timeout=30.0, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._unopened(error) from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            raise self._unopened(error) from error
        except DependencyFailed:
            self._db.close()
            raise

    def _unopened(self, error: sqlite3.Error) -> DependencyFailed:
        return DependencyFailed(
            f"the session store {str(self.path)!r} cannot be opened: {error}; check that its "
            "folder exists, is writable, and that it is a file of this program",
            resource=str(self.path),
        )

    def _prepare(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise DependencyFailed(
                f"the session store {str(self.path)!r} has layout {version}, newer than this "
                f"program's {_VERSION}: update the program",
                resource=str(self.path),
            )
        self._db.execute("PRAGMA synchronous=NORMAL")
        if version < _VERSION:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(_SCHEMA)
            self._db.execute(f"PRAGMA user_version = {_VERSION:d}")

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                raise DependencyFailed(
                    f"the session store {str(self.path)!r} failed: {error}; check its disk and "
                    "its permissions, and that it is a file of this program",
                    resource=str(self.path),
                ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._used() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # some errors have ended it already
                    db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones.

        Raises:
            DependencyFailed: The file failed, or something in it is not JSON.
        """
        with self._used() as db:
            rows = db.execute(
                "SELECT record FROM journal WHERE key = ? AND place >= ? ORDER BY place",
                (key, after),
            ).fetchall()
        try:
            return [json.loads(row[0]) for row in rows]
        except (ValueError, TypeError, RecursionError) as error:
            raise DependencyFailed(
                f"the session store {str(self.path)!r} has a record that is not JSON; delete its "
                f"session (key {key[:12]}...), or use another session id",
                resource=str(self.path),
            ) from error

    def append(
        self, key: str, expected: int, records: Sequence[Record], *, label: str = "", at: int = 0
    ) -> None:
        """Appends in one transaction, if the journal has exactly `expected` records.

        Raises:
            SessionConflict: It has another number of records; nothing was written.
            DependencyFailed: The file failed; nothing was written.
        """
        rows = [
            (key, expected + offset, json.dumps(record)) for offset, record in enumerate(records)
        ]
        with self._transaction() as db:
            (count,) = db.execute(
                "SELECT coalesce(max(place) + 1, 0) FROM journal WHERE key = ?", (key,)
            ).fetchone()
            if count != expected:
                raise SessionConflict("the session was changed by another invocation; try again")
            db.executemany("INSERT INTO journal VALUES (?, ?, ?)", rows)
            db.execute(
                "INSERT INTO session VALUES (?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET updated = excluded.updated",
                (key, label, at),
            )

    def delete(self, key: str) -> None:
        """Forgets a session.

        Raises:
            DependencyFailed: The file failed.
        """
        with self._transaction() as db:
            db.execute("DELETE FROM journal WHERE key = ?", (key,))
            db.execute("DELETE FROM session WHERE key = ?", (key,))

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first.

        Raises:
            DependencyFailed: The file failed.
        """
        with self._used() as db:
            rows = db.execute(
                "SELECT key, label, (SELECT count(*) FROM journal WHERE journal.key = session.key),"
                " updated FROM session ORDER BY updated DESC"
            ).fetchall()
        return iter([SessionInfo(*row) for row in rows])
