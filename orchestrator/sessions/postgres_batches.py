"""What PostgreSQL is asked for several sessions at once: their appends, and their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from orchestrator.support.postgres import is_lost

if TYPE_CHECKING:
    from orchestrator.support.postgres import Connection

T = TypeVar("T")

# Of each of several sessions that are read together
_FEW = 32  # records
_SMALL = 256 * 1024  # bytes of them

LINES = "string_agg(sum || ' ' || record, E'\\n' ORDER BY place)"
"""Records as one text, for `sessions.rows.read_lines`."""

_NEW = "FROM orchestrator_journal AS one WHERE one.key = asked.key AND place >= after"
# Entries, where there are any, with the new records, if they are few and small, as they were at one
# moment. The length of a record is known without reading it (PostgreSQL: "TOAST").
_FIND_SOME = (
    "SELECT asked.key, label, updated, records, sum, CASE WHEN records - after > %s OR "
    f"(SELECT sum(octet_length(record)) {_NEW}) > %s THEN NULL ELSE "
    f"(SELECT {LINES} {_NEW}) END FROM unnest(%s::text[], %s::integer[]) AS asked (key, after) "
    "LEFT JOIN orchestrator_session AS it ON it.key = asked.key"
).encode()
# Appends to several sessions. Of each either the entry and all records are written or nothing; the
# keys of those that were written come back. Lists come as texts of arrays: see `_to_array`.
_APPEND = """
WITH entry AS (
    SELECT * FROM unnest(
        %s::text[], %s::text[], %s::bigint[], %s::integer[], %s::boolean[], %s::bigint[],
        %s::integer[]
    ) AS it (key, label, updated, records, unfinished, sum, expected)
), begun AS (
    INSERT INTO orchestrator_session (key, label, updated, records, unfinished, sum)
    SELECT key, label, updated, records, unfinished, sum FROM entry WHERE expected = 0
    ON CONFLICT (key) DO NOTHING RETURNING key
), known AS (
    {known}
), continued AS (
    UPDATE orchestrator_session AS it SET label = known.label, updated = known.updated,
        records = known.records, unfinished = known.unfinished, sum = known.sum
    FROM known WHERE it.key = known.key AND it.records = known.expected RETURNING it.key
), written AS (
    SELECT key FROM begun UNION ALL SELECT key FROM continued
), rows AS (
    INSERT INTO orchestrator_journal (key, place, record, sum)
    SELECT one.* FROM unnest(%s::text[], %s::integer[], %s::text[], %s::bigint[])
        AS one (key, place, record, sum) JOIN written USING (key)
)
SELECT key FROM written
"""
_KNOWN = "SELECT * FROM entry WHERE expected > 0"
_APPEND_ONE = _APPEND.format(known=_KNOWN).encode()
# Somebody who changes one of the sessions, or deletes it, does not keep the others waiting.
_APPEND_SOME = _APPEND.format(
    known="SELECT entry.* FROM entry JOIN orchestrator_session AS it USING (key) "
    "WHERE expected > 0 FOR UPDATE OF it SKIP LOCKED"
).encode()


class Append(NamedTuple):
    """An append to a session."""

    key: str
    label: str
    updated: int
    records: int  # how many the session has then
    unfinished: bool
    checksum: int  # of the entry
    expected: int  # how many it has before
    texts: Sequence[str]
    checksums: Sequence[int]  # of the records

    @property
    def places(self) -> range:
        """The places of the records."""
        return range(self.expected, self.records)


Load = tuple[str, int]
"""A session's key, and after how many of its records to read."""


class Found(NamedTuple):
    """What the database has of a session."""

    entry: Sequence[Any] | None
    text: str | None  # the records

    def has_more(self, after: int) -> bool:
        """Whether there are records that were not read: too many, or too large."""
        return self.entry is not None and self.text is None and self.entry[3] > after


def find_some(loads: Sequence[Load], db: Connection) -> list[Found | None]:
    """What is there of sessions; `None` for one that is to be read alone."""
    keys, afters = zip(*loads, strict=True)
    values = (_FEW, _SMALL, _to_array(keys), _to_array(afters))
    rows = _try_together(lambda: db.execute(_FIND_SOME, values).fetchall(), db)
    if rows is None:
        return [None] * len(loads)
    found = {
        key: Found((key, *rest) if rest[-1] is not None else None, text)
        for key, *rest, text in rows
    }
    return [None if found[key].has_more(after) else found[key] for key, after in loads]


def append_some(appends: Sequence[Append], db: Connection) -> list[bool]:
    """Which appends were written; one that was not is to be tried alone, to find out why."""
    written = _try_together(lambda: _write(_APPEND_SOME, appends, db), db) or ()
    return [it.key in written for it in appends]


def append_one(append: Append, db: Connection) -> bool:
    """Whether an append was written: not if the session has another number of records.

    Raises:
        psycopg.errors.UniqueViolation: Its entry says that it has fewer than it has.
    """
    return bool(_write(_APPEND_ONE, [append], db))


def _try_together(work: Callable[[], T], db: Connection) -> T | None:
    # `None` if it cannot be done for one of those that it is for: then nothing was done.
    from psycopg import Error

    try:
        return work()
    except Error as error:
        if is_lost(db, error):
            raise
        return None


def _write(statement: bytes, appends: Sequence[Append], db: Connection) -> set[str]:
    # Two processes begin the same sessions in one order, else each could wait for the other.
    ordered = sorted(appends)
    *entries, _, _ = zip(*ordered, strict=True)
    rows = [
        (it.key, *row)
        for it in ordered
        for row in zip(it.places, it.texts, it.checksums, strict=True)
    ]
    lists = [*entries, *(zip(*rows, strict=True) if rows else [()] * 4)]
    return {key for (key,) in db.execute(statement, [*map(_to_array, lists)])}


def _to_array(values: Sequence[Any]) -> str:
    # (PostgreSQL: "Array Value Input".) The driver takes several microseconds for each value of a
    # list.
    if values and isinstance(values[0], str):
        return "{" + ",".join(map(_quote, values)) + "}"
    return "{" + ",".join(map(str, values)) + "}"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
