"""Sessions in PostgreSQL: one row a record, and an append that is one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from orchestrator.errors import DependencyFailed, SessionConflict, ValidationError
from orchestrator.sessions.journal import Record, SessionInfo, leaves_turn_open
from orchestrator.sessions.rows import (
    WAY_OUT,
    Changes,
    change_records,
    encode_record,
    read_entry,
    read_lines,
    sum_entry,
    sum_record,
)
from orchestrator.support.postgres import ConnectionLost, PostgresDatabase
from orchestrator.support.process_leases import share_leases
from orchestrator.support.store_urls import PostgresUrl, parse_store

_PAGE = 500  # sessions that a list reads at once
_STALE = "1 day"  # after which the lease of a process that crashed is forgotten

_LINES = "string_agg(sum || ' ' || record, E'\\n' ORDER BY place)"
_FIND_NEW = f"SELECT {_LINES} FROM orchestrator_journal WHERE key = %s AND place >= %s"
_ENTRY = "key, label, updated, records, sum"
# The entry and the records as they were at the same moment.
_FIND_ALL = (
    f"SELECT {_ENTRY}, (SELECT {_LINES} FROM orchestrator_journal AS one WHERE one.key = it.key) "
    "FROM orchestrator_session AS it WHERE key = %s"
)
_ROWS = (
    "INSERT INTO orchestrator_journal (key, place, record, sum) SELECT entry.key, one.* FROM "
    "entry, unnest(%s::integer[], %s::text[], %s::bigint[]) AS one"
)
# Either the entry and all records are written or nothing: each is one statement.
_BEGIN = (
    "WITH entry AS (INSERT INTO orchestrator_session "
    "(label, updated, records, unfinished, sum, key) VALUES (%s, %s, %s, %s, %s, %s) "
    f"ON CONFLICT (key) DO NOTHING RETURNING key) {_ROWS}"
)
_GO_ON = (
    "WITH entry AS (UPDATE orchestrator_session SET label = %s, updated = %s, records = %s, "
    f"unfinished = %s, sum = %s WHERE key = %s AND records = %s RETURNING key) {_ROWS}"
)
_REPLACE_PLAN = "UPDATE orchestrator_plan SET snapshot = %s WHERE digest = %s AND snapshot = %s RETURNING digest"
_KEEP_PLAN = "INSERT INTO orchestrator_plan VALUES (%s, %s) ON CONFLICT DO NOTHING"


class PostgresStore:
    """A `SessionStore` in a PostgreSQL database, shared by processes on any machines.

    Every append is one statement. When the database restarts, a call waits for it for ten seconds;
    an append whose connection broke looks whether it was written before it is done again.

    Every method raises `DependencyFailed` when the database fails.
    """

    durable = True

    def __init__(self, url: str | PostgresUrl) -> None:
        """Connects, and makes the tables or brings them up to date.

        Raises:
            ValidationError: The extra `postgres` is missing, or the URL is wrong.
            DependencyFailed: The database cannot be reached, refuses the name or the password, or
                was written by a newer version of this program.
        """
        parsed = parse_store(url)
        if not isinstance(parsed, PostgresUrl):
            raise ValidationError("a store in PostgreSQL has a URL, such as postgresql://host/name")
        self.url = parsed
        self.identity = parsed.conninfo
        self.threads = parsed.pool_size
        self._db = PostgresDatabase(parsed, "sessions", "the session store")
        self.processes = share_leases(self.identity, lambda: _Leases(self._db.share()))

    def close(self) -> None:
        """Gives this process's lease back, and closes the connections."""
        self.processes.close()
        self._db.close()

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones, as they were written."""
        damage = partial(self._damage, key)
        if after:
            ((text,),) = self._db.rows(_FIND_NEW, (key, after))
            return read_lines(key, after, text, damage)
        found = self._db.rows(_FIND_ALL, (key,))
        if not found:
            return []
        *entry, text = found[0]
        records = read_lines(key, 0, text, damage)
        if self._read_entry(entry).records != len(records):
            raise damage("a record is missing")
        return records

    def append(
        self,
        key: str,
        expected: int,
        records: Sequence[Record],
        *,
        label: str = "",
        at: int = 0,
        unfinished: bool | None = None,
    ) -> None:
        """Appends in one statement, if the journal has exactly `expected` records.

        Raises:
            SessionConflict: It has another number of records; nothing was written.
        """
        texts = [encode_record(record) for record in records]
        places = list(range(expected, expected + len(texts)))
        sums = [sum_record(key, place, text) for place, text in zip(places, texts, strict=True)]
        count, label = expected + len(texts), label or self._find_label(key)
        total = sum_entry(key, label, at, count)
        if unfinished is None:
            unfinished = leaves_turn_open(records)
        entry = (label, at, count, unfinished, total, key)
        rows = (places, texts, sums)
        statement, values = (
            (_GO_ON, (*entry, expected, *rows))
            if expected
            else (
                _BEGIN,
                (*entry, *rows),
            )
        )

        def write() -> bool:
            return self._db.run(lambda db: self._write(db, key, statement, values)) == len(texts)

        try:
            is_written = write()
        except ConnectionLost:
            is_written = self._db.repeat(
                lambda: self._has(key, places, texts) or write() or self._has(key, places, texts)
            )
        if not is_written:
            self.load(key)  # it may be damaged
            raise SessionConflict("the session was changed by another invocation; try again")

    def _write(self, db: Any, key: str, statement: str, values: Sequence[Any]) -> int:
        from psycopg.errors import UniqueViolation

        try:
            count: int = db.execute(statement, values).rowcount
        except UniqueViolation:
            raise self._damage(key, "records are missing in its entry") from None
        return count

    def _has(self, key: str, places: Sequence[int], texts: Sequence[str]) -> bool:
        # Whether these very records stand there: their ids and times are nobody else's.
        rows = self._db.rows(
            "SELECT record FROM orchestrator_journal WHERE key = %s AND place = ANY(%s) "
            "ORDER BY place",
            (key, list(places)),
        )
        return [text for (text,) in rows] == list(texts)

    def _find_label(self, key: str) -> str:
        rows = self._db.rows("SELECT label FROM orchestrator_session WHERE key = %s", (key,))
        return str(rows[0][0]) if rows else ""

    def rewrite(self, key: str, changes: Changes) -> int:
        """Replaces records of a journal where they still stand; how many."""

        def write() -> int:
            with self._db.transaction() as db:
                # A deletion at the same time waits, or has ended and leaves nothing to replace.
                found = db.execute(
                    "SELECT place, record FROM orchestrator_journal "
                    "WHERE key = %s AND place = ANY(%s) FOR UPDATE",
                    (key, list(changes)),
                ).fetchall()
                texts = change_records(dict(found), changes)
                sums = [sum_record(key, place, text) for place, text in texts.items()]
                db.execute(
                    "UPDATE orchestrator_journal AS it SET record = one.record, sum = one.sum "
                    "FROM unnest(%s::integer[], %s::text[], %s::bigint[]) "
                    "AS one (place, record, sum) WHERE it.key = %s AND it.place = one.place",
                    ([*texts], [*texts.values()], sums, key),
                )
            return len(texts)

        return self._db.repeat(write)

    def delete(self, key: str) -> None:
        """Forgets a session."""

        def forget() -> None:
            with self._db.transaction() as db:
                # An append at the same time has ended when the entry is locked, and its records
                # are seen by the next statement.
                db.execute("SELECT FROM orchestrator_session WHERE key = %s FOR UPDATE", (key,))
                db.execute("DELETE FROM orchestrator_journal WHERE key = %s", (key,))
                db.execute("DELETE FROM orchestrator_session WHERE key = %s", (key,))

        self._db.repeat(forget)

    def save_plan(self, digest: str, text: str) -> None:
        """Keeps the snapshot of a plan; does nothing where one of its digest is known."""
        self._db.repeat(lambda: self._db.run(lambda db: db.execute(_KEEP_PLAN, (digest, text))))

    def load_plan(self, digest: str) -> str | None:
        """The snapshot of the plan with a digest, if one was kept."""
        rows = self._db.rows("SELECT snapshot FROM orchestrator_plan WHERE digest = %s", (digest,))
        return str(rows[0][0]) if rows else None

    def list_plans(self) -> Iterator[str]:
        """The digests of all plans that were kept."""
        return (str(row[0]) for row in self._db.rows("SELECT digest FROM orchestrator_plan"))

    def replace_plan(self, digest: str, old: str, new: str) -> bool:
        """Puts a snapshot in the place of one that stands there still; whether it did."""
        return bool(self._db.rows(_REPLACE_PLAN, (new, digest, old)))

    def labels(self, prefix: str, after: str, most: int) -> Sequence[str]:
        """The next labels, sorted, that begin with `prefix`, after one of them; it ends in `/`."""
        end = prefix[:-1] + "0"  # the character after "/"
        rows = self._db.rows(
            f"SELECT {_ENTRY} FROM orchestrator_session WHERE label > %s AND label < %s "
            "ORDER BY label LIMIT %s",
            (max(prefix, after), end, most),
        )
        return [self._read_entry(row).label for row in rows]

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first; read page by page."""
        return self._list("TRUE")

    def list_unfinished(self) -> Iterator[SessionInfo]:
        """The sessions whose last turn has not ended and does not wait, the last changed first."""
        return self._list("unfinished")

    def _list(self, condition: str) -> Iterator[SessionInfo]:
        last: tuple[int, str] = (1 << 62, "")
        while rows := self._db.rows(
            f"SELECT {_ENTRY} FROM orchestrator_session WHERE {condition} "
            "AND (updated, key) < (%s, %s) ORDER BY updated DESC, key DESC LIMIT %s",
            (*last, _PAGE),
        ):
            yield from map(self._read_entry, rows)
            last = (rows[-1][2], rows[-1][0])

    def _read_entry(self, row: Sequence[Any]) -> SessionInfo:
        return read_entry(row, partial(self._damage, row[0]))

    def _damage(self, key: str, text: str) -> DependencyFailed:
        return self._db.damage(f"of the session with the key {str(key)[:12]}..., {text}", WAY_OUT)


class _Leases:
    """Leases by the database's clock: those of the machines do not count."""

    def __init__(self, db: PostgresDatabase) -> None:
        self._db = db

    def renew(self, process: str, seconds: int) -> None:
        self._db.rows(
            "WITH gone AS (DELETE FROM orchestrator_process "
            f"WHERE until < clock_timestamp() - interval '{_STALE}' AND name <> %s) "
            "INSERT INTO orchestrator_process VALUES "
            "(%s, clock_timestamp() + make_interval(secs => %s)) "
            "ON CONFLICT (name) DO UPDATE SET until = excluded.until RETURNING name",
            (process, process, seconds),
        )

    def is_current(self, process: str) -> bool:
        return bool(
            self._db.rows(
                "SELECT FROM orchestrator_process WHERE name = %s AND until > clock_timestamp()",
                (process,),
            )
        )

    def remove(self, process: str) -> None:
        self._db.rows("DELETE FROM orchestrator_process WHERE name = %s RETURNING name", (process,))

    def close(self) -> None:
        self._db.close()
