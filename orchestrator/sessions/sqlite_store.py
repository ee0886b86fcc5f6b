"""Sessions in a SQLite file: one row a record, write-ahead log, conditional append."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.errors import SessionConflict
from orchestrator.sessions.journal import Record, SessionInfo
from orchestrator.support.process_locks import ProcessLocks, share_locks
from orchestrator.support.sqlite import Layout, SqliteFile

# The primary key is the conditional append: two writers of one place collide.
_LAYOUT = Layout(
    0x42415345,  # "BASE"
    1,
    """
CREATE TABLE session (
    key TEXT PRIMARY KEY, label TEXT NOT NULL, updated INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE journal (
    key TEXT NOT NULL, place INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (key, place)
) WITHOUT ROWID;
""",
)


class SQLiteStore:
    """A `SessionStore` in a file, shared by the processes of one machine.

    Every append is one transaction. A killed process loses nothing; a power cut may lose the last
    appends, never the file.

    Calls block: mostly for less than a millisecond, but for up to 30 seconds while another process
    has the file locked. `Agent.ainvoke` and `Agent.astream` make them in a thread. Every method
    raises `DependencyFailed` when the file fails; nothing was written then.
    """

    durable = True
    threads = 1  # one connection, one writer

    def __init__(self, path: str | Path) -> None:
        """Opens the file, and makes it when it is not there; its folder must exist.

        Raises:
            DependencyFailed: The file cannot be opened, is another program's, or was written by a
                newer version.
        """
        self.path = Path(path)
        if str(path) == ":memory:":
            self.identity: str | int = id(self)
            self.processes = ProcessLocks(None)
        else:
            whole = self.path.resolve()
            self.identity = str(whole)
            self.processes = share_locks(whole.with_name(f"{whole.name}-processes"))
        self._file = SqliteFile(path, "the session store", _LAYOUT)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones, if all of them are JSON."""
        # One row of all: a thread has to wait for the interpreter's lock after every row.
        ((records,),) = self._file.rows(
            "SELECT '[' || coalesce(group_concat(record), '') || ']' FROM (SELECT record "
            "FROM journal WHERE key = ? AND place >= ? ORDER BY place)",
            (key, after),
        )
        try:
            found: list[Record] = json.loads(records)
            return found
        except (ValueError, TypeError, RecursionError) as error:
            raise self._file.failure(
                "has a record that is not JSON; delete its session (key "
                f"{key[:12]}...), or use another session id"
            ) from error

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
        with self._file.transaction() as db:
            # The transaction is immediate: no other process writes between this and the insert.
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
        """Forgets a session."""
        with self._file.transaction() as db:
            db.execute("DELETE FROM journal WHERE key = ?", (key,))
            db.execute("DELETE FROM session WHERE key = ?", (key,))

    def labels(self, prefix: str, after: str, most: int) -> Sequence[str]:
        """The next labels, sorted, that begin with `prefix`, after one of them; it ends in `/`."""
        end = prefix[:-1] + "0"  # the character after "/"
        rows = self._file.rows(
            "SELECT label FROM session WHERE label > ? AND label < ? ORDER BY label LIMIT ?",
            (max(prefix, after), end, most),
        )
        return [label for (label,) in rows]

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first."""
        rows = self._file.rows(
            "SELECT key, label, (SELECT count(*) FROM journal WHERE journal.key = session.key),"
            " updated FROM session ORDER BY updated DESC"
        )
        return iter([SessionInfo(*row) for row in rows])
