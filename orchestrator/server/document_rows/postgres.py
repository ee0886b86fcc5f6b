"""Documents in a PostgreSQL database."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from orchestrator.errors import DependencyFailed
from orchestrator.server.document_rows.base import WHAT, Answer, List
from orchestrator.support.postgres import PostgresDatabase
from orchestrator.support.store_urls import PostgresUrl
from orchestrator.support.stored_names import escape_names, unescape_name

if TYPE_CHECKING:
    from orchestrator.support.postgres import Connection

# "BDOC": whoever changes documents has it, so that all servers do so one after the other, as those
# of one SQLite file do. What handlers read in a transaction is still so when they write.
_WRITERS = 0x42444F43
_LIST = "tenant = %s AND kind = %s AND parent = %s"
_ONE = f"{_LIST} AND id = %s"
_ORDER = ("place > %s ORDER BY place", "place < %s ORDER BY place DESC")
_WAY_OUT = "restore it from a backup, or delete what cannot be read"


class _OfThread(threading.local):
    db: Connection | None = None  # that of the thread's transaction


class PostgresRows:
    """`DocumentRows` in PostgreSQL (extra `postgres`)."""

    def __init__(self, url: PostgresUrl) -> None:
        self._database = PostgresDatabase(url, "documents", WHAT)
        self._mine = _OfThread()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What this thread does meanwhile is one change."""
        with self._database.transaction() as db:
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_WRITERS,))
            self._mine.db = db
            try:
                yield
            finally:
                self._mine.db = None

    def get(self, of: List, id: str) -> str | None:
        """The text of a row."""
        found = self._rows(
            f"SELECT body FROM orchestrator_document WHERE {_ONE}", escape_names(*of, id)
        )
        return found[0][0] if found else None

    def put(self, of: List, id: str, name: str | None, text: str) -> None:
        """Writes a row, in place of the one with its id."""
        self._run(
            "INSERT INTO orchestrator_document (tenant, kind, parent, id, name, body) "
            "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (tenant, kind, parent, id) "
            "DO UPDATE SET name = excluded.name, body = excluded.body",
            (*escape_names(*of, id, name), text),
        )

    def rewrite(self, of: List, id: str, text: str) -> None:
        """Writes the text of a row that is there."""
        self._run(
            f"UPDATE orchestrator_document SET body = %s WHERE {_ONE}",
            (text, *escape_names(*of, id)),
        )

    def delete(self, of: List, id: str) -> bool:
        """Deletes a row; whether there was one."""
        return bool(
            self._rows(
                f"DELETE FROM orchestrator_document WHERE {_ONE} RETURNING 1", escape_names(*of, id)
            )
        )

    def clear(self, of: List) -> None:
        """Deletes all rows of a list."""
        self._run(f"DELETE FROM orchestrator_document WHERE {_LIST}", escape_names(*of))

    def find_id(self, of: List, name: str) -> str | None:
        """The id of the row with a name."""
        found = self._rows(
            f"SELECT id FROM orchestrator_document WHERE {_LIST} AND name = %s",
            escape_names(*of, name),
        )
        return unescape_name(found[0][0]) if found else None

    def count(self, of: List) -> int:
        """How many rows a list has."""
        ((found,),) = self._rows(
            f"SELECT count(*) FROM orchestrator_document WHERE {_LIST}", escape_names(*of)
        )
        return int(found)

    def page(
        self, of: List, start: int, most: int | None, *, newest: bool
    ) -> list[tuple[int, str, str]]:
        """Rows after (before, with `newest`) a place."""
        found = self._rows(
            f"SELECT place, id, body FROM orchestrator_document WHERE {_LIST} "
            f"AND {_ORDER[newest]} LIMIT %s",
            (*escape_names(*of), start, most),
        )
        return [(place, unescape_name(id), text) for place, id, text in found]

    def page_by_name(
        self, of: List, before: str, within: str, most: int
    ) -> list[tuple[str, str, str]]:
        """Rows with smaller names, the last first, whose ids begin with `within`."""
        found = self._rows(
            f"SELECT name, id, body FROM orchestrator_document WHERE {_LIST} AND name < %s "
            "AND starts_with(id, %s) ORDER BY name DESC LIMIT %s",
            (*escape_names(*of, before, within), most),
        )
        return [(unescape_name(name), unescape_name(id), text) for name, id, text in found]

    def find_answer(self, key: Answer, since: float) -> tuple[str, str] | None:
        """The hash of a request and its answer; older ones are deleted."""
        self._run("DELETE FROM orchestrator_answer WHERE made < %s", (since,))
        found = self._rows(
            "SELECT request, answer FROM orchestrator_answer "
            "WHERE tenant = %s AND operation = %s AND token = %s",
            escape_names(*key),
        )
        return found[0] if found else None

    def add_answer(self, key: Answer, request: str, answer: str, now: float) -> None:
        """Keeps an answer."""
        self._run(
            "INSERT INTO orchestrator_answer VALUES (%s, %s, %s, %s, %s, %s)",
            (*escape_names(*key), request, answer, now),
        )

    def lists(self) -> list[List]:
        """All lists that have rows."""
        found = self._rows("SELECT DISTINCT tenant, kind, parent FROM orchestrator_document", ())
        return [List(*map(unescape_name, row)) for row in found]

    def failure(self, text: str) -> DependencyFailed:
        """The error that says `text` of the database."""
        return self._database.failure(text)

    def damage(self, text: str) -> DependencyFailed:
        """The error that says that it does not hold what was written to it."""
        return self._database.damage(text, _WAY_OUT)

    def close(self) -> None:
        """Closes the connections, if no other store uses them."""
        self._database.close()

    def _rows(self, statement: str, values: Sequence[Any]) -> list[Any]:
        db = self._mine.db
        if db is None:  # nothing that writes: it may be repeated
            return self._database.rows(statement, values)
        return db.execute(statement.encode(), values).fetchall()

    def _run(self, statement: str, values: Sequence[Any]) -> None:
        db = self._mine.db
        assert db is not None  # whatever writes is inside of a transaction
        db.execute(statement.encode(), values)
