"""Sessions in a SQLite file: one row a record, write-ahead log, conditional append."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from orchestrator.errors import DependencyFailed, SessionConflict
from orchestrator.sessions.journal import Record, SessionInfo
from orchestrator.sessions.rows import (
    WAY_OUT,
    Append,
    Changes,
    Encoded,
    build_append,
    change_records,
    encode_record,
    read_entry,
    read_last,
    read_lines,
    sum_entry,
    sum_record,
)
from orchestrator.support.logs import get_logger
from orchestrator.support.process_locks import ProcessLocks, share_locks
from orchestrator.support.sqlite import Reservation, SqliteFile
from orchestrator.support.sqlite_layout import Layout

_log = get_logger("orchestrator.sessions")

# Sessions are numbered as they begin, and records are sorted by that number. So what is written at
# one time stands together: an append changes two or three pages. Sorted by keys, which are random,
# it changed five.
_SESSION_TABLE = """
CREATE TABLE session (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, label TEXT NOT NULL,
    updated INTEGER NOT NULL, records INTEGER NOT NULL, sum INTEGER NOT NULL,
    unfinished INTEGER NOT NULL DEFAULT 0
)"""
_JOURNAL_TABLE = """
CREATE TABLE journal (
    place INTEGER PRIMARY KEY,  -- its session's id, and in the lower 32 bits its place in that
    record TEXT NOT NULL, sum INTEGER NOT NULL
)"""
# A second way to an entry. A disk that changes a key in one index would else have its session begin
# anew without a word.
_SECOND_INDEX = "CREATE UNIQUE INDEX session_again ON session (key || '')"


def _add_checksums(db: sqlite3.Connection) -> None:
    # Version 1 had none.
    db.execute("ALTER TABLE journal ADD COLUMN sum INTEGER NOT NULL DEFAULT 0")
    for column in ("records", "sum"):
        db.execute(f"ALTER TABLE session ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    db.create_function("sum_record", 3, sum_record)
    db.create_function("sum_entry", 4, sum_entry)
    db.execute("UPDATE journal SET sum = sum_record(key, place, record)")
    db.execute(
        "UPDATE session SET records = "
        "(SELECT count(*) FROM journal WHERE journal.key = session.key)"
    )
    db.execute("UPDATE session SET sum = sum_entry(key, label, updated, records)")


def _add_unfinished(db: sqlite3.Connection) -> None:
    # Of version 2 the last records say it; one that is no JSON is looked at by whoever reads it.
    db.execute("ALTER TABLE session ADD COLUMN unfinished INTEGER NOT NULL DEFAULT 0")
    db.execute(
        "UPDATE session SET unfinished = coalesce((SELECT CASE WHEN json_valid(record) THEN "
        "json_extract(record, '$.kind') NOT IN ('end', 'suspend', 'closed', 'undone') ELSE 1 END "
        "FROM journal WHERE journal.key = session.key AND place = session.records - 1), 0)"
    )


def _number_sessions(db: sqlite3.Connection) -> None:
    # Version 3 had keys for places. What it refused to read, for it has no entry, goes.
    for table, schema in (("session", _SESSION_TABLE), ("journal", _JOURNAL_TABLE)):
        db.execute(f"ALTER TABLE {table} RENAME TO {table}_by_key")
        db.execute(schema)
    db.execute(_SECOND_INDEX)
    columns = "key, label, updated, records, sum, unfinished"
    db.execute(
        f"INSERT INTO session ({columns}) SELECT {columns} FROM session_by_key ORDER BY updated"
    )
    db.execute(
        "INSERT INTO journal SELECT (id << 32) + old.place, record, old.sum "
        "FROM session CROSS JOIN journal_by_key AS old USING (key) "
        "WHERE old.place BETWEEN 0 AND 0xffffffff ORDER BY id, old.place"
    )
    lost = (
        "SELECT count(DISTINCT key) FROM journal_by_key WHERE key NOT IN (SELECT key FROM session)"
    )
    (count,) = db.execute(lost).fetchone()
    if count:
        _log.warning("%d damaged sessions without an entry are not in the new layout", count)
    for table in ("session", "journal"):
        db.execute(f"DROP TABLE {table}_by_key")


_LAYOUT = Layout(
    0x42415345,  # "BASE"
    4,
    f"{_SESSION_TABLE};\n{_JOURNAL_TABLE};\n{_SECOND_INDEX};\n",
    (_add_checksums, _add_unfinished, _number_sessions),
    page_size=2048,  # an append of 2 KB takes two thirds of the time that it takes with 4096
)
# Beside the layout, for what they hold is no session: a file without them is as good as before.
_MAKE_PLANS = (
    "CREATE TABLE IF NOT EXISTS plan (digest TEXT PRIMARY KEY, snapshot TEXT NOT NULL) "
    "WITHOUT ROWID",
    # When somebody has last kept it, in seconds since 1970
    "CREATE TABLE IF NOT EXISTS plan_use (digest TEXT PRIMARY KEY, kept REAL NOT NULL) "
    "WITHOUT ROWID",
)
_ENTRY = "key, label, updated, records, sum"
_LIST, _NEWEST = f"SELECT {_ENTRY} FROM session", "ORDER BY updated DESC"
# One row of all: a thread has to wait for the interpreter's lock after every row.
_FIND = (
    "SELECT (SELECT group_concat(sum || ' ' || record, char(10)) FROM (SELECT sum, record "
    "FROM journal WHERE place BETWEEN (id << 32) + ? AND (id << 32) + 0xffffffff ORDER BY place)), "
    f"{_ENTRY} FROM session WHERE key = ?"
)
# In one statement: else a session that begins between two of them would be taken for a lost one.
_FIND_LOST = (
    "SELECT 1 FROM session WHERE key || '' = ? AND id NOT IN (SELECT id FROM session WHERE key = ?)"
)
# Of keys and places; `CROSS` has the tables looked up for each of them. Bytes, so that one that is
# no text does not fail all.
_FIND_LAST = (
    "SELECT session.key, journal.sum, CAST(record AS BLOB) FROM json_each(?) AS asked "
    "CROSS JOIN session ON session.key = json_extract(asked.value, '$[0]') "
    "CROSS JOIN journal ON place = (session.id << 32) + json_extract(asked.value, '$[1]')"
)
_OF_SESSION = "(SELECT id << 32 FROM session WHERE key = :key)"
_ALL_OF_SESSION = f"place BETWEEN {_OF_SESSION} AND {_OF_SESSION} + 0xffffffff"
# The next number; records whose entry is gone have theirs still.
_INSERT = (
    "INSERT OR IGNORE INTO session (id, label, updated, records, unfinished, sum, key) "
    "VALUES (1 + max(coalesce((SELECT max(id) FROM session), 0), "
    "coalesce((SELECT max(place) >> 32 FROM journal), 0)), ?, ?, ?, ?, ?, ?)"
)
_UPDATE_EXPECTED = (
    "UPDATE session SET label = ?, updated = ?, records = ?, unfinished = ?, sum = ? "
    "WHERE key = ? AND records = ? AND updated = coalesce(nullif(?, 0), updated)"
)
# The primary key is a second lock: two writers of one place collide.
_ADD = "INSERT INTO journal SELECT (id << 32) + ?2, ?3, ?4 FROM session WHERE key = ?1"


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
    tells_length = True
    encode_record = staticmethod(encode_record)
    build_append = staticmethod(build_append)

    def __init_subclass__(cls, **options: Any) -> None:
        # Who changes how one append is made is not to be passed by when several are.
        super().__init_subclass__(**options)
        own = vars(cls)
        if ("append" in own or "begin" in own) and "append_together" not in own:
            cls.append_together = None  # type: ignore[method-assign, assignment]

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

    def reserve(self) -> Reservation | Literal[False] | None:
        """Has the file for the next append, in a `with` block.

        `None` if that would wait for another thread or process for over some 3 ms, `False` if for
        the disk.
        """
        return self._file.reserve()

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones, as they were written."""
        found = self._file.rows(_FIND, (after, key))
        if not found:
            if self._file.rows(_FIND_LOST, (key, key)):
                raise self._file.damage(f"an index has lost the session {str(key)[:12]}...")
            return []
        ((text, *entry),) = found
        records = read_lines(key, after, text, partial(self._damage, key))
        # Who knows some of the records sees by the next append whether the last ones are lost.
        if not after and self._read_entry(key, entry).records != len(records):
            raise self._damage(key, "a record is missing")
        return records

    def _read_entry(self, key: str, row: Sequence[Any]) -> SessionInfo:
        return read_entry((key, *row[1:]), partial(self._damage, key))

    def _damage(self, key: str, text: str) -> DependencyFailed:
        return self._file.damage(
            f"of the session with the key {str(key)[:12]}..., {text}",
            WAY_OUT,
        )

    def append(
        self,
        key: str,
        expected: int,
        records: Sequence[Record],
        *,
        label: str = "",
        at: int = 0,
        unfinished: bool | None = None,
        encoded: Sequence[Encoded] = (),
    ) -> int:
        """Appends in one transaction, if the journal has exactly `expected` records.

        Raises:
            SessionConflict: It has another number of records; nothing was written.
        """
        label = label or self._find_label(key)
        append = build_append(key, expected, records, label, at, unfinished, encoded=encoded)
        if not self._write(append):
            self.load(key)  # it may be damaged
            raise SessionConflict("the session was changed by another invocation; try again")
        return append.size

    def begin(
        self,
        key: str,
        expected: int,
        turn: Record,
        *,
        label: str,
        at: int,
        since: int,
        reads: bool = True,
    ) -> list[Record] | int:
        """Appends a turn's first record, or reads what is in the journal instead."""
        append = build_append(key, expected, [turn], label, at, True, since)
        if self._write(append):
            return append.size
        return self.load(key, max(expected - 1, 0)) if reads else []

    def append_together(self, appends: Sequence[Append]) -> list[bool]:
        """Makes appends to several sessions in one transaction; whether each was made.

        One that was not expects another number of records than there are.

        Raises:
            DependencyFailed: A session is damaged, or the file failed; none was made.
        """
        size = sum(append.size for append in appends)
        with self._file.transaction(size, len(appends)) as db:
            return [self._write_rows(db, append) for append in appends]

    def _write(self, append: Append) -> bool:
        with self._file.transaction(append.size) as db:
            return self._write_rows(db, append)

    def _write_rows(self, db: sqlite3.Connection, append: Append) -> bool:
        # The transaction is immediate: no other process writes between this and the insert.
        if not self._write_entry(db, append):
            return False
        try:
            db.executemany(_ADD, append.rows)
        except sqlite3.IntegrityError as error:
            raise self._damage(append.key, "records are missing in its entry") from error
        return True

    def _find_label(self, key: str) -> str:
        rows = self._file.rows("SELECT label FROM session WHERE key = ?", (key,))
        return rows[0][0] if rows else ""

    def _write_entry(self, db: sqlite3.Connection, append: Append) -> bool:
        # Whether there was one with as many records as expected; one that is missing has none.
        key, label, updated, records, unfinished, total, expected, since, *_ = append
        # A bool is no number for Python's SQLite: it looks for an adapter of it each time.
        entry = (label, updated, records, int(unfinished), total, key)
        if not expected and db.execute(_INSERT, entry).rowcount:
            return True
        return bool(db.execute(_UPDATE_EXPECTED, (*entry, expected, since)).rowcount)

    def rewrite(self, key: str, changes: Changes) -> int:
        """Replaces records of a journal where they still stand; how many."""
        with self._file.transaction() as db:
            found = dict(
                db.execute(
                    f"SELECT place - {_OF_SESSION}, record FROM journal WHERE {_ALL_OF_SESSION}",
                    {"key": key},
                ).fetchall()
            )
            texts = change_records(found, changes)
            db.executemany(
                "UPDATE journal SET record = :text, sum = :sum "
                f"WHERE place = {_OF_SESSION} + :place",
                [
                    {"text": text, "sum": sum_record(key, place, text), "key": key, "place": place}
                    for place, text in texts.items()
                ],
            )
        return len(texts)

    def delete(self, key: str) -> None:
        """Forgets a session."""
        with self._file.transaction() as db:
            db.execute(f"DELETE FROM journal WHERE {_ALL_OF_SESSION}", {"key": key})
            db.execute("DELETE FROM session WHERE key = ?", (key,))

    def save_plan(self, digest: str, text: str) -> None:
        """Keeps the snapshot of a plan, or notes that one of its digest is still in use."""
        with self._file.transaction() as db:
            self._make_plans(db)
            db.execute("INSERT OR IGNORE INTO plan VALUES (?, ?)", (digest, text))
            db.execute("INSERT OR REPLACE INTO plan_use VALUES (?, ?)", (digest, time.time()))

    def _make_plans(self, db: sqlite3.Connection) -> None:
        for statement in _MAKE_PLANS:
            db.execute(statement)

    def load_plan(self, digest: str) -> str | None:
        """The snapshot of the plan with a digest, if one was kept."""
        rows = self._find_plans("SELECT snapshot FROM plan WHERE digest = ?", (digest,))
        return rows[0][0] if rows else None

    def list_plans(self) -> Iterator[str]:
        """The digests of all plans that were kept."""
        return (digest for (digest,) in self._find_plans("SELECT digest FROM plan"))

    def replace_plan(self, digest: str, old: str, new: str) -> bool:
        """Puts a snapshot in the place of one that stands there still; whether it did."""
        with self._file.transaction() as db:
            changed = db.execute(
                "UPDATE plan SET snapshot = ? WHERE digest = ? AND snapshot = ?", (new, digest, old)
            )
        return bool(changed.rowcount)

    def delete_plan(self, digest: str, idle: float) -> bool:
        """Deletes a snapshot that nobody has kept for `idle` seconds; whether it did."""
        with self._file.transaction() as db:
            self._make_plans(db)
            deleted = db.execute(
                "DELETE FROM plan WHERE digest = ? AND NOT EXISTS "
                "(SELECT 1 FROM plan_use WHERE plan_use.digest = plan.digest AND kept > ?)",
                (digest, time.time() - idle),
            ).rowcount
            if deleted:
                db.execute("DELETE FROM plan_use WHERE digest = ?", (digest,))
        return bool(deleted)

    def _find_plans(self, statement: str, values: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        # Older files have no such table, and a reader makes none.
        has_plans = self._file.rows("SELECT 1 FROM sqlite_master WHERE name = 'plan'")
        return self._file.rows(statement, values) if has_plans else ()

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
        return self._read_list(self._file.rows(f"{_LIST} {_NEWEST}"))

    def list_unfinished(self) -> Iterator[SessionInfo]:
        """The sessions whose last turn has not ended and does not wait, the last changed first."""
        # Somebody asks for them now and then, and keeps no turn from being written meanwhile.
        return self._read_list(
            self._file.rows_of_last_commit(f"{_LIST} WHERE unfinished {_NEWEST}")
        )

    def load_last(self, infos: Sequence[SessionInfo]) -> dict[str, Record]:
        """The last records of sessions as they were listed, by their keys."""
        asked = json.dumps([(info.key, info.records - 1) for info in infos])
        rows = self._file.rows_of_last_commit(_FIND_LAST, (asked,))
        texts = ((key, total, record.decode(errors="replace")) for key, total, record in rows)
        return read_last(infos, texts)

    def _read_list(self, rows: Sequence[Sequence[Any]]) -> Iterator[SessionInfo]:
        return iter([self._read_entry(row[0], row) for row in rows])
