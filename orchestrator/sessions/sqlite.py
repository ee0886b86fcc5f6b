"""Sessions in a SQLite file: one row a record, write-ahead log, conditional append."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
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
        self._lock = Lock()
        try:
            self._db = sqlite3.connect(
                self.path, timeout=30.0, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._migrate()
        except sqlite3.Error as error:
            raise DependencyFailed(
                f"the session store {str(path)!r} cannot be opened: {error}; check that its folder "
                "exists, is writable, and that it is a file of this program",
                resource=str(path),
            ) from error

    def _migrate(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise DependencyFailed(
                f"the session store {str(self.path)!r} has layout {version}, newer than this "
                f"program's {_VERSION}: update the program",
                resource=str(self.path),
            )
        self._db.executescript(_SCHEMA)
        self._db.execute(f"PRAGMA user_version = {_VERSION:d}")

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones."""
        with self._lock:
            rows = self._db.execute(
                "SELECT record FROM journal WHERE key = ? AND place >= ? ORDER BY place",
                (key, after),
            ).fetchall()
        return [json.loads(row[0]) for row in rows]

    def append(
        self, key: str, expected: int, records: Sequence[Record], *, label: str = "", at: int = 0
    ) -> None:
        """Appends in one transaction, if the journal has exactly `expected` records.

        Raises:
            SessionConflict: It has another number of records; nothing was written.
        """
        rows = [
            (key, expected + offset, json.dumps(record)) for offset, record in enumerate(records)
        ]
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                (count,) = self._db.execute(
                    "SELECT coalesce(max(place) + 1, 0) FROM journal WHERE key = ?", (key,)
                ).fetchone()
                if count != expected:
                    raise SessionConflict(
                        "the session was changed by another invocation; try again"
                    )
                self._db.executemany("INSERT INTO journal VALUES (?, ?, ?)", rows)
                self._db.execute(
                    "INSERT INTO session VALUES (?, ?, ?) "
                    "ON CONFLICT (key) DO UPDATE SET updated = excluded.updated",
                    (key, label, at),
                )
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    def delete(self, key: str) -> None:
        """Forgets a session."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM journal WHERE key = ?", (key,))
            self._db.execute("DELETE FROM session WHERE key = ?", (key,))
            self._db.execute("COMMIT")

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT key, label, (SELECT count(*) FROM journal WHERE journal.key = session.key),"
                " updated FROM session ORDER BY updated DESC"
            ).fetchall()
        return iter([SessionInfo(*row) for row in rows])
