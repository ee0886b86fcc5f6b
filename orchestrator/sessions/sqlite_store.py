"""Sessions in a SQLite file: one row a record, write-ahead log, conditional append."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.errors import DependencyFailed, SessionConflict
from orchestrator.message import make_json_encoder
from orchestrator.sessions.journal import Record, SessionInfo
from orchestrator.support.process_locks import ProcessLocks, share_locks
from orchestrator.support.sqlite import Layout, Reservation, SqliteFile


def _add_checksums(db: sqlite3.Connection) -> None:
    # Version 1 had none.
    db.execute("ALTER TABLE journal ADD COLUMN sum INTEGER NOT NULL DEFAULT 0")
    for column in ("records", "sum"):
        db.execute(f"ALTER TABLE session ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    write_checksums(db)


def write_checksums(db: sqlite3.Connection) -> None:
    """Writes the checksums of what a file holds."""
    for key, label, updated in db.execute("SELECT key, label, updated FROM session").fetchall():
        sums = [
            (_sum(f"{key} {place} {record}"), key, place)
            for place, record in db.execute(
                "SELECT place, record FROM journal WHERE key = ? ORDER BY place", (key,)
            )
        ]
        db.executemany("UPDATE journal SET sum = ? WHERE key = ? AND place = ?", sums)
        total = _sum(f"{key} {label} {updated} {len(sums)}")
        db.execute(_UPDATE, (label, updated, len(sums), total, key))


def _sum(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


# The primary key is the conditional append: two writers of one place collide.
#
# `sum` is a CRC-32: a record's, with its key and place, so that a changed, moved or lost one shows,
# and an entry's, which knows how many records there are. They find what a disk does; an attacker
# who can write the file can write them too.
_LAYOUT = Layout(
    0x42415345,  # "BASE"
    2,
    """
CREATE TABLE session (
    key TEXT PRIMARY KEY, label TEXT NOT NULL, updated INTEGER NOT NULL,
    records INTEGER NOT NULL, sum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE journal (
    key TEXT NOT NULL, place INTEGER NOT NULL, record TEXT NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (key, place)
) WITHOUT ROWID;
""",
    (_add_checksums,),
)
# Beside the layout, for what it holds is no session: a file without it is as good as before.
_MAKE_PLANS = (
    "CREATE TABLE IF NOT EXISTS plan (digest TEXT PRIMARY KEY, snapshot TEXT NOT NULL) "
    "WITHOUT ROWID"
)
_ENTRY = "key, label, updated, records, sum"
# One row of all: a thread has to wait for the interpreter's lock after every row.
_FIND_NEW = (
    "SELECT group_concat(sum || ' ' || record, char(10)) FROM "
    "(SELECT sum, record FROM journal WHERE key = ? AND place >= ? ORDER BY place)"
)
_FIND_ALL = f"SELECT ({_FIND_NEW}), {_ENTRY} FROM (SELECT 1) LEFT JOIN session ON key = ?"
_INSERT = "INSERT OR IGNORE INTO session (label, updated, records, sum, key) VALUES (?, ?, ?, ?, ?)"
_UPDATE = "UPDATE session SET label = ?, updated = ?, records = ?, sum = ? WHERE key = ?"
_UPDATE_EXPECTED = f"{_UPDATE} AND records = ?"

# ASCII: what has half a surrogate pair in it is written, too.
_encode = make_json_encoder(ensure_ascii=True)


class SQLiteStore:
    """A `SessionStore` in a file, shared by the processes of one machine.

    Every append is one transaction. A killed process loses nothing; a power cut may lose the last
    appends, never the file.

    Calls block: mostly for less than a millisecond, but for up to 30 seconds while another process
    has the file locked. `Agent.ainvoke` and `Agent.astream` make them in a thread when they might
    wait. Every method raises `DependencyFailed` when the file fails; nothing was written then.
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

    def reserve(self) -> Reservation | None:
        """Has the file free for the next append, in a `with` block; `None` if it would wait."""
        return self._file.reserve()

    def count(self, key: str) -> int:
        """How many records a session has."""
        rows = self._file.rows("SELECT records FROM session WHERE key = ?", (key,))
        count: int = rows[0][0] if rows else 0
        return count

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones, as they were written."""
        # Who knows some of the records sees by the next append whether the last ones are lost.
        if after:
            ((text,),) = self._file.rows(_FIND_NEW, (key, after))
            return self._decode(key, self._verify(key, after, text))
        ((text, *entry),) = self._file.rows(_FIND_ALL, (key, 0, key))
        records = self._verify(key, 0, text)
        if records or entry[0] is not None:
            if self._read_entry(key, entry).records != len(records):
                raise self._damage(key, "a record is missing")
        return self._decode(key, records)

    def _verify(self, key: str, after: int, text: str | None) -> list[str]:
        records = []
        for place, line in enumerate(text.split("\n") if text else (), after):
            written, _, record = line.partition(" ")
            if written != str(_sum(f"{key} {place} {record}")):
                raise self._damage(key, "a record was changed, or is missing")
            records.append(record)
        return records

    def _decode(self, key: str, records: Sequence[str]) -> list[Record]:
        try:
            found: list[Record] = json.loads(f"[{','.join(records)}]")
        except (ValueError, RecursionError) as error:
            raise self._damage(key, "a record is not JSON") from error
        if len(found) != len(records):
            raise self._damage(key, "a record is not JSON")
        return found

    def _read_entry(self, key: str, row: Sequence[Any]) -> SessionInfo:
        _, label, updated, count, total = row
        if not isinstance(count, int) or _sum(f"{key} {label} {updated} {count}") != total:
            raise self._damage(key, "its entry was changed, or is missing")
        return SessionInfo(key, label, count, updated)

    def _damage(self, key: str, text: str) -> DependencyFailed:
        return self._file.damage(
            f"of the session with the key {str(key)[:12]}..., {text}",
            "delete the session, use another session id, or restore the file from a backup",
        )

    def append(
        self, key: str, expected: int, records: Sequence[Record], *, label: str = "", at: int = 0
    ) -> None:
        """Appends in one transaction, if the journal has exactly `expected` records.

        Raises:
            SessionConflict: It has another number of records; nothing was written.
        """
        texts = [_encode(record) for record in records]
        rows = [
            (key, place, text, _sum(f"{key} {place} {text}"))
            for place, text in enumerate(texts, expected)
        ]
        with self._file.transaction() as db:
            # The transaction is immediate: no other process writes between this and the insert.
            count, label = expected + len(rows), label or self._find_label(db, key)
            entry = (label, at, count, _sum(f"{key} {label} {at} {count}"), key)
            if not self._write_entry(db, entry, expected):
                self.load(key)  # it may be damaged
                raise SessionConflict("the session was changed by another invocation; try again")
            self._insert(db, key, rows)

    def _find_label(self, db: sqlite3.Connection, key: str) -> str:
        found = db.execute("SELECT label FROM session WHERE key = ?", (key,)).fetchone()
        return found[0] if found else ""

    def _write_entry(self, db: sqlite3.Connection, entry: Sequence[Any], expected: int) -> bool:
        # Whether there was one with as many records as expected; one that is missing has none.
        if not expected and db.execute(_INSERT, entry).rowcount:
            return True
        return bool(db.execute(_UPDATE_EXPECTED, (*entry, expected)).rowcount)

    def _insert(self, db: sqlite3.Connection, key: str, rows: Sequence[Any]) -> None:
        try:
            db.executemany("INSERT INTO journal VALUES (?, ?, ?, ?)", rows)
        except sqlite3.IntegrityError as error:
            raise self._damage(key, "records are missing in its entry") from error

    def rewrite(self, key: str, records: Mapping[int, Record]) -> None:
        """Puts other records into places of a journal, where it still has those places."""
        rows = [(place, _encode(record)) for place, record in records.items()]
        with self._file.transaction() as db:
            db.executemany(
                "UPDATE journal SET record = ?, sum = ? WHERE key = ? AND place = ?",
                [(text, _sum(f"{key} {place} {text}"), key, place) for place, text in rows],
            )

    def delete(self, key: str) -> None:
        """Forgets a session."""
        with self._file.transaction() as db:
            db.execute("DELETE FROM journal WHERE key = ?", (key,))
            db.execute("DELETE FROM session WHERE key = ?", (key,))

    def save_plan(self, digest: str, text: str) -> None:
        """Keeps the snapshot of a plan; does nothing where one of its digest is known."""
        with self._file.transaction() as db:
            db.execute(_MAKE_PLANS)
            db.execute("INSERT OR IGNORE INTO plan VALUES (?, ?)", (digest, text))

    def load_plan(self, digest: str) -> str | None:
        """The snapshot of the plan with a digest, if one was kept."""
        # Older files have no such table, and a reader makes none.
        if not self._file.rows("SELECT 1 FROM sqlite_master WHERE name = 'plan'"):
            return None
        rows = self._file.rows("SELECT snapshot FROM plan WHERE digest = ?", (digest,))
        return rows[0][0] if rows else None

    def labels(self, prefix: str, after: str, most: int) -> Sequence[str]:
        """The next labels, sorted, that begin with `prefix`, after one of them; it ends in `/`."""
        end = prefix[:-1] + "0"  # the character after "/"
        rows = self._file.rows(
            f"SELECT {_ENTRY} FROM session WHERE label > ? AND label < ? ORDER BY label LIMIT ?",
            (max(prefix, after), end, most),
        )
        return [self._read_entry(row[0], row).label for row in rows]

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first."""
        rows = self._file.rows(f"SELECT {_ENTRY} FROM session ORDER BY updated DESC")
        return iter([self._read_entry(row[0], row) for row in rows])
