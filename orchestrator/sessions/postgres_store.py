"""Sessions in PostgreSQL: one row a record, and an append that is one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.errors import DependencyFailed, SessionConflict, ValidationError
from orchestrator.sessions.journal import Record, SessionInfo
from orchestrator.sessions.postgres_batches import (
    LINES,
    Begin,
    Found,
    Load,
    append_one,
    append_some,
    do_early,
)
from orchestrator.sessions.rows import (
    WAY_OUT,
    Append,
    Changes,
    build_append,
    change_records,
    read_entry,
    read_last,
    read_lines,
    sum_record,
)
from orchestrator.support.batching import Batcher, BatchFailed
from orchestrator.support.postgres import ConnectionLost, PostgresDatabase
from orchestrator.support.process_leases import share_leases
from orchestrator.support.store_urls import PostgresUrl, parse_store

if TYPE_CHECKING:
    from orchestrator.support.postgres import Connection

_PAGE = 500  # sessions that a list reads at once
_LARGE = 256 * 1024  # characters of an append that keeps nobody else's waiting
_STALE = "1 day"  # after which the lease of a process that crashed is forgotten

_FIND_NEW = f"SELECT {LINES} FROM orchestrator_journal WHERE key = %s AND place >= %s"
_ENTRY = "key, label, updated, records, sum"
# The entry and the records as they were at the same moment.
_FIND_ALL = (
    f"SELECT {_ENTRY}, (SELECT {LINES} FROM orchestrator_journal AS one WHERE one.key = it.key) "
    "FROM orchestrator_session AS it WHERE key = %s"
)
_FIND_LAST = (
    "SELECT key, sum, record FROM unnest(%s::text[], %s::integer[]) AS asked (key, place) "
    "JOIN orchestrator_journal USING (key, place)"
)
_DELETE_RECORDS = (
    "DELETE FROM orchestrator_journal WHERE key = %s "
    "AND NOT EXISTS (SELECT FROM orchestrator_session WHERE key = %s)"
)
_REPLACE_PLAN = (
    "UPDATE orchestrator_plan SET snapshot = %s WHERE digest = %s AND snapshot = %s "
    "RETURNING digest"
)
_KEEP_PLAN = (
    "INSERT INTO orchestrator_plan VALUES (%s, %s) ON CONFLICT (digest) DO UPDATE SET kept = now()"
)
_DELETE_PLAN = (
    "DELETE FROM orchestrator_plan WHERE digest = %s "
    "AND kept <= clock_timestamp() - make_interval(secs => %s) RETURNING digest"
)


class PostgresStore:
    """A `SessionStore` in a PostgreSQL database, shared by processes on any machines.

    Every append is one statement, which those that come at the same time share. When the database
    restarts, a call waits for it for ten seconds; an append whose connection broke looks whether it
    was written before it is done again.

    Every method raises `DependencyFailed` when the database fails.
    """

    durable = True
    tells_length = True

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
        # What need not wait for the disk does not wait for what has to.
        self._appends: Batcher[Append, Any] = Batcher(self._write_batch)
        self._early: Batcher[Append | Load | Begin, Any] = Batcher(self._do_early_batch)
        self.processes = share_leases(self.identity, lambda: _Leases(self._db.share()))

    def close(self) -> None:
        """Gives this process's lease back, and closes the connections."""
        self.processes.close()
        self._db.close()

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones, as they were written."""
        found = self._find_soon(Load(key, after)) or self._find_alone(key, after)
        return self._read_found(key, after, found)

    def _read_found(self, key: str, after: int, found: Found) -> list[Record]:
        damage = partial(self._damage, key)
        if after:
            # Who knows some of the records sees by the next append whether the last ones are lost.
            return read_lines(key, after, found.text, damage)
        if found.entry is None:
            return []
        records = read_lines(key, 0, found.text, damage)
        if self._read_entry(found.entry).records != len(records):
            raise damage("a record is missing")
        return records

    def _find_soon(self, load: Load) -> Found | None:
        # Together with what others look for; `None` if it is too much, or one of them fails.
        try:
            found: Found | None = self._early.do(load.key, load)
            return found
        except ConnectionLost:
            return None
        except BatchFailed as failed:
            _raise_outage(failed)
            return None

    def _find_alone(self, key: str, after: int) -> Found:
        if after:
            ((text,),) = self._db.rows(_FIND_NEW, (key, after))
            return Found(None, text)
        for *entry, text in self._db.rows(_FIND_ALL, (key,)):
            return Found(entry, text)
        return Found(None, None)

    def append(
        self,
        key: str,
        expected: int,
        records: Sequence[Record],
        *,
        label: str = "",
        at: int = 0,
        unfinished: bool | None = None,
        sync: bool = True,
        since: int = 0,
    ) -> int:
        """Appends in one statement, if the journal has exactly `expected` records.

        Without `sync` the commit does not wait for the disk. With `since`, the last append to the
        journal has to be the one that had this time as its `at`.

        Raises:
            SessionConflict: It has another number of records; nothing was written.
        """
        label = label or self._find_label(key)
        append = build_append(key, expected, records, label, at, unfinished, since)
        if not self._write(append, self._appends if sync else self._early):
            self.load(key)  # it may be damaged
            raise SessionConflict("the session was changed by another invocation; try again")
        return append.size

    def begin(
        self, key: str, expected: int, turn: Record, *, label: str, at: int, since: int
    ) -> list[Record] | int:
        """Appends a turn's first record, or reads what is in the journal instead, in one statement.

        The commit does not wait for the disk.
        """
        load = Load(key, max(expected - 1, 0))
        append = build_append(key, expected, [turn], label, at, True, since)
        if append.size <= _LARGE:
            done = self._begin_soon(Begin(append, load))
            if isinstance(done, Found):
                return self._read_found(key, load.after, done)
            if done:
                return append.size
        return self.load(key, load.after)

    def _begin_soon(self, begin: Begin) -> Found | bool | None:
        # Neither if nothing came of it.
        try:
            done: Found | bool | None = self._early.do(begin.key, begin, begin.append.size)
            return done
        except ConnectionLost:
            pass
        except BatchFailed as failed:
            _raise_outage(failed)
        return self._db.repeat(lambda: self._has(begin.append))

    def sync(self) -> None:
        """Waits until no crash of the database can lose what was written before."""
        self._db.rows("SELECT pg_logical_emit_message(true, 'orchestrator', '')")

    def _write(self, append: Append, batches: Batcher[Any, Any]) -> bool:
        try:
            if append.size <= _LARGE and batches.do(append.key, append, append.size):
                return True
            return self._write_alone(append)
        except ConnectionLost:
            pass
        except BatchFailed as failed:
            _raise_outage(failed)
        return self._db.repeat(
            lambda: self._has(append) or self._write_alone(append) or self._has(append)
        )

    def _write_batch(self, appends: Sequence[Append]) -> list[bool]:
        return self._db.run(partial(append_some, appends))

    def _do_early_batch(self, works: Sequence[Append | Load | Begin]) -> list[bool | Found | None]:
        return self._db.run(partial(do_early, works))

    def _write_alone(self, append: Append) -> bool:
        from psycopg.errors import UniqueViolation

        def write(db: Connection) -> bool:
            try:
                return append_one(append, db)
            except UniqueViolation:
                raise self._damage(append.key, "records are missing in its entry") from None

        return self._db.run(write)

    def _has(self, append: Append) -> bool:
        # Whether these very records stand there: their ids and times are nobody else's.
        rows = self._db.rows(
            "SELECT record FROM orchestrator_journal WHERE key = %s AND place = ANY(%s) "
            "ORDER BY place",
            (append.key, [place for _, place, _, _ in append.rows]),
        )
        return [text for (text,) in rows] == [*append.texts]

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
                # An append at the same time has ended when the entry is gone, and its records are
                # seen by the next statement. Somebody else may have deleted the entry: then those
                # of a session that has begun since stay.
                db.execute("DELETE FROM orchestrator_session WHERE key = %s", (key,))
                db.execute(_DELETE_RECORDS, (key, key))

        self._db.repeat(forget)

    def save_plan(self, digest: str, text: str) -> None:
        """Keeps the snapshot of a plan, or notes that one of its digest is still in use."""
        self._db.repeat(lambda: self._db.run(lambda db: db.execute(_KEEP_PLAN, (digest, text))))

    def load_plan(self, digest: str) -> str | None:
        """The snapshot of the plan with a digest, if one was kept."""
        rows = self._db.rows("SELECT snapshot FROM orchestrator_plan WHERE digest = %s", (digest,))
        return str(rows[0][0]) if rows else None

    def list_plans(self) -> Iterator[str]:
        """The digests of all plans that were kept."""
        return (str(row[0]) for row in self._db.rows("SELECT digest FROM orchestrator_plan"))

    def delete_plan(self, digest: str, idle: float) -> bool:
        """Deletes a snapshot that nobody has kept for `idle` seconds; whether it did."""
        return bool(self._db.rows(_DELETE_PLAN, (digest, idle)))

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

    def load_last(self, infos: Sequence[SessionInfo]) -> dict[str, Record]:
        """The last records of sessions as they were listed, by their keys."""
        places = [info.records - 1 for info in infos]
        return read_last(infos, self._db.rows(_FIND_LAST, ([it.key for it in infos], places)))

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


def _raise_outage(failed: BatchFailed) -> None:
    # If no connection could be had for a batch, none of its items waits for one again.
    cause = failed.__cause__
    if isinstance(cause, DependencyFailed) and not isinstance(cause, ConnectionLost):
        raise DependencyFailed(
            cause.message, resource=cause.resource, is_outage=cause.is_outage
        ) from None


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
