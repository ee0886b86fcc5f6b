"""What PostgreSQL is asked for several sessions at once: their appends, and their records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.sessions.rows import Append
from orchestrator.support.postgres import is_lost

if TYPE_CHECKING:
    from orchestrator.support.postgres import Connection

# Of each of several sessions that are read together
_FEW = 32  # records
_SMALL = 256 * 1024  # bytes of them

LINES = "string_agg(sum || ' ' || record, E'\\n' ORDER BY place)"
"""Records as one text, for `sessions.rows.read_lines`."""

_NEW = "FROM orchestrator_journal AS one WHERE one.key = asked.key AND place >= after"
# Entries, where there are any, with the new records, if they are few and small, as they were at one
# moment. The length of a record is known without reading it (PostgreSQL: "TOAST").
_FIND = (
    f"SELECT asked.key, label, updated, records, sum, CASE WHEN records - after > {_FEW} OR "
    f"(SELECT sum(octet_length(record)) {_NEW}) > {_SMALL} THEN NULL ELSE "
    f"(SELECT {LINES} {_NEW}) END FROM unnest(%s::text[], %s::integer[]) AS asked (key, after) "
    "LEFT JOIN orchestrator_session AS it ON it.key = asked.key"
)
_WRITTEN = -1  # in place of the number of records
# Appends to several sessions. Of each either the entry and all records are written or nothing; the
# keys of those that were written come back. Lists come as texts of arrays: see `_to_array`.
_APPEND = """
WITH entry AS (
    SELECT * FROM unnest(
        %s::text[], %s::text[], %s::bigint[], %s::integer[], %s::boolean[], %s::bigint[],
        %s::integer[], %s::bigint[]
    ) AS it (key, label, updated, records, unfinished, sum, expected, since)
), begun AS (
    INSERT INTO orchestrator_session (key, label, updated, records, unfinished, sum)
    SELECT key, label, updated, records, unfinished, sum FROM entry WHERE expected = 0
    ON CONFLICT (key) DO NOTHING RETURNING key
), known AS (
    {known}
), continued AS (
    UPDATE orchestrator_session AS it SET label = known.label, updated = known.updated,
        records = known.records, unfinished = known.unfinished, sum = known.sum
    FROM known WHERE it.key = known.key AND it.records = known.expected
        AND it.updated = coalesce(nullif(known.since, 0), it.updated) RETURNING it.key
), written AS (
    SELECT key FROM begun UNION ALL SELECT key FROM continued
), rows AS (
    INSERT INTO orchestrator_journal (key, place, record, sum)
    SELECT one.* FROM unnest(%s::text[], %s::integer[], %s::text[], %s::bigint[])
        AS one (key, place, record, sum) JOIN written USING (key)
)
SELECT key, NULL::text, NULL::bigint, {written}, NULL::bigint, NULL::text FROM written
"""
# Its commit does not wait for the disk (PostgreSQL: "Asynchronous Commit"). The setting holds for
# the transaction, which is this statement.
_EARLY = "WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL"
_KNOWN = "SELECT * FROM entry WHERE expected > 0"
_APPEND_ONE = _APPEND.format(known=_KNOWN, written=_WRITTEN).encode()
# Somebody who changes one of the sessions, or deletes it, does not keep the others waiting.
_SOME = _APPEND.format(
    known="SELECT entry.* FROM entry JOIN orchestrator_session AS it USING (key) "
    "WHERE expected > 0 FOR UPDATE OF it SKIP LOCKED",
    written=_WRITTEN,
)
_APPEND_SOME = _SOME.encode()
_APPEND_EARLY = (_SOME + _EARLY).encode()
_FIND_SOME = _FIND.encode()
_OTHERS = " WHERE asked.key NOT IN (SELECT key FROM written)"
_APPEND_AND_FIND = f"{_SOME}{_EARLY} UNION ALL {_FIND}{_OTHERS}".encode()


_ENTRY_MEMBERS = Append._fields.index("rows")  # those before are the entry's
_NO_ROWS = ["{}"] * 4  # an array for each column of the journal


class Load(NamedTuple):
    """What is to be read of a session."""

    key: str
    after: int  # how many of its records are known


class Begin(NamedTuple):
    """An append, and what is to be read if it cannot be written."""

    append: Append
    load: Load

    @property
    def key(self) -> str:
        """The session's."""
        return self.append.key


class Found(NamedTuple):
    """What the database has of a session."""

    entry: Sequence[Any] | None
    text: str | None  # the records

    def has_more(self, after: int) -> bool:
        """Whether there are records that were not read: too many, or too large."""
        return self.entry is not None and self.text is None and self.entry[3] > after


def append_some(appends: Sequence[Append], db: Connection) -> list[bool]:
    """Which appends were written, durably; one that was not is to be tried alone."""
    done = _do_together(_APPEND_SOME, _to_values(appends), db)
    return [it.key in done.written for it in appends]


def do_early(works: Sequence[Append | Load | Begin], db: Connection) -> list[bool | Found | None]:
    """Of loads what is there, of appends whether they were written, without a wait for the disk.

    Of a `Begin` it is `True`, or what is there. An append that was not written, and what is `None`,
    are to be tried alone.
    """
    appends = [
        it.append if isinstance(it, Begin) else it for it in works if not isinstance(it, Load)
    ]
    loads = [it.load if isinstance(it, Begin) else it for it in works if not isinstance(it, Append)]
    if not appends:
        done = _do_together(_FIND_SOME, _to_arrays(loads), db)
    elif not loads:
        done = _do_together(_APPEND_EARLY, _to_values(appends), db)
    else:
        values = [*_to_values(appends), *_to_arrays(loads)]
        done = _do_together(_APPEND_AND_FIND, values, db)
    return [done.of(it) for it in works]


class _Done(NamedTuple):
    """The keys of the appends that were written, and by their keys the rows that were found."""

    written: set[str]
    found: dict[str, Sequence[Any]]

    def of(self, work: Append | Load | Begin) -> bool | Found | None:
        if not isinstance(work, Load) and work.key in self.written:
            return True
        if isinstance(work, Append):
            return False
        load = work.load if isinstance(work, Begin) else work
        return _read_found(load, self.found.get(load.key))


def _do_together(statement: bytes, values: Sequence[str], db: Connection) -> _Done:
    # Empty if it cannot be done for one of those that it is for: then nothing was done.
    from psycopg import Error

    done = _Done(set(), {})
    try:
        for row in db.execute(statement, values):
            if row[3] == _WRITTEN:
                done.written.add(row[0])
            else:
                done.found[row[0]] = row
    except Error as error:
        if is_lost(db, error):
            raise
        return _Done(set(), {})
    return done


def _read_found(load: Load, row: Sequence[Any] | None) -> Found | None:
    if row is None:
        return None
    found = Found(row[:-1] if row[-2] is not None else None, row[-1])
    return None if found.has_more(load.after) else found


def append_one(append: Append, db: Connection) -> bool:
    """Whether an append was written: not if the session has another number of records.

    Raises:
        psycopg.errors.UniqueViolation: Its entry says that it has fewer than it has.
    """
    return bool(db.execute(_APPEND_ONE, _to_values([append])).fetchall())


def _to_values(appends: Sequence[Append]) -> list[str]:
    # Two processes begin the same sessions in one order, else each could wait for the other.
    ordered = sorted(appends)
    rows = [row for it in ordered for row in it.rows]
    entries = [it[:_ENTRY_MEMBERS] for it in ordered]
    return [*_to_arrays(entries), *(_to_arrays(rows) or _NO_ROWS)]


def _to_arrays(rows: Sequence[Sequence[Any]]) -> list[str]:
    # Of each column, its values.
    return [*map(_to_array, zip(*rows, strict=True))]


def _to_array(values: Sequence[Any]) -> str:
    # (PostgreSQL: "Array Value Input".) The driver takes several microseconds for each value of a
    # list.
    if values and isinstance(values[0], str):
        return "{" + ",".join(map(_quote, values)) + "}"
    return "{" + ",".join(map(str, values)) + "}"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
