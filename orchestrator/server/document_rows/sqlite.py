"""Documents in a SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.errors import DependencyFailed
from orchestrator.server.document_rows.base import WHAT, Answer, List
from orchestrator.support.sqlite import SqliteFile
from orchestrator.support.sqlite_layout import Layout
from orchestrator.support.stored_names import escape_name, escape_names, unescape_name


def _escape_names(db: sqlite3.Connection) -> None:
    # Version 2 kept names as they were; of what is escaped, it could hold backslashes and NULs.
    db.create_function("escape_name", 1, lambda name: None if name is None else escape_name(name))
    names = ("tenant", "kind", "parent", "id", "name")
    db.execute(f"UPDATE document SET {', '.join(f'{it} = escape_name({it})' for it in names)}")
    tokens = ("tenant", "operation", "token")
    db.execute(f"UPDATE token SET {', '.join(f'{it} = escape_name({it})' for it in tokens)}")


# `place` counts up and is never used again: lists are in the order in which things were made.
_LAYOUT = Layout(
    # "BDOC".
    0x42444F43,
    3,
    """
CREATE TABLE document (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL, kind TEXT NOT NULL, parent TEXT NOT NULL, id TEXT NOT NULL,
    name TEXT, body TEXT NOT NULL
);
CREATE UNIQUE INDEX document_id ON document (tenant, kind, parent, id);
CREATE UNIQUE INDEX document_name ON document (tenant, kind, parent, name)
    WHERE name IS NOT NULL;
CREATE TABLE token (
    tenant TEXT NOT NULL, operation TEXT NOT NULL, token TEXT NOT NULL,
    request TEXT NOT NULL, answer TEXT NOT NULL, made REAL NOT NULL,
    PRIMARY KEY (tenant, operation, token)
) WITHOUT ROWID;
CREATE INDEX token_made ON token (made);
""",
    # Version 1 had no checksums before its texts, which are read all the same.
    (lambda _: None, _escape_names),
)
_LIST = "tenant = ? AND kind = ? AND parent = ?"
_ONE = f"{_LIST} AND id = ?"
_ORDER = ("place > ? ORDER BY place", "place < ? ORDER BY place DESC")
_END = chr(0x10FFFF)  # sorts after every text


class _OfThread(threading.local):
    is_changing = False  # whether the thread is in a transaction


class SqliteRows:
    """`DocumentRows` in a file, or in memory."""

    def __init__(self, path: str | Path) -> None:
        self._file = SqliteFile(path, WHAT, _LAYOUT)
        self._mine = _OfThread()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What this thread does meanwhile is one change."""
        with self._file.transaction():
            self._mine.is_changing = True
            try:
                yield
            finally:
                self._mine.is_changing = False

    def get(self, of: List, id: str) -> str | None:
        """The text of a row."""
        found = self._select(f"SELECT body FROM document WHERE {_ONE}", escape_names(*of, id))
        return found[0][0] if found else None

    def put(self, of: List, id: str, name: str | None, text: str) -> None:
        """Writes a row, in place of the one with its id."""
        self._file.rows(
            "INSERT INTO document (tenant, kind, parent, id, name, body) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, kind, parent, id) "
            "DO UPDATE SET name = excluded.name, body = excluded.body",
            (*escape_names(*of, id, name), text),
        )

    def rewrite(self, of: List, id: str, text: str) -> None:
        """Writes the text of a row that is there."""
        self._file.rows(
            f"UPDATE document SET body = ? WHERE {_ONE}", (text, *escape_names(*of, id))
        )

    def delete(self, of: List, id: str) -> bool:
        """Deletes a row; whether there was one."""
        return bool(
            self._file.rows(f"DELETE FROM document WHERE {_ONE} RETURNING 1", escape_names(*of, id))
        )

    def clear(self, of: List) -> None:
        """Deletes all rows of a list."""
        self._file.rows(f"DELETE FROM document WHERE {_LIST}", escape_names(*of))

    def find_id(self, of: List, name: str) -> str | None:
        """The id of the row with a name."""
        found = self._select(
            f"SELECT id FROM document WHERE {_LIST} AND name = ?", escape_names(*of, name)
        )
        return unescape_name(found[0][0]) if found else None

    def count(self, of: List) -> int:
        """How many rows a list has."""
        ((found,),) = self._select(
            f"SELECT count(*) FROM document WHERE {_LIST}", escape_names(*of)
        )
        return int(found)

    def page(
        self, of: List, start: int, most: int | None, *, newest: bool
    ) -> list[tuple[int, str, str]]:
        """Rows after (before, with `newest`) a place."""
        found = self._select(
            f"SELECT place, id, body FROM document WHERE {_LIST} AND {_ORDER[newest]} LIMIT ?",
            (*escape_names(*of), start, -1 if most is None else most),
        )
        return [(place, unescape_name(id), text) for place, id, text in found]

    def page_by_name(
        self, of: List, before: str, within: str, most: int
    ) -> list[tuple[str, str, str]]:
        """Rows with smaller names, the last first, whose ids begin with `within`."""
        first = escape_name(within)
        found = self._select(
            f"SELECT name, id, body FROM document WHERE {_LIST} AND name < ? AND id >= ? "
            "AND id < ? ORDER BY name DESC LIMIT ?",
            (*escape_names(*of, before), first, first + _END, most),
        )
        return [(unescape_name(name), unescape_name(id), text) for name, id, text in found]

    def find_answer(self, key: Answer, since: float) -> tuple[str, str] | None:
        """The hash of a request and its answer; older ones are deleted."""
        self._file.rows("DELETE FROM token WHERE made < ?", (since,))
        found = self._file.rows(
            "SELECT request, answer FROM token WHERE tenant = ? AND operation = ? AND token = ?",
            escape_names(*key),
        )
        return found[0] if found else None

    def add_answer(self, key: Answer, request: str, answer: str, now: float) -> None:
        """Keeps an answer."""
        self._file.rows(
            "INSERT INTO token VALUES (?, ?, ?, ?, ?, ?)",
            (*escape_names(*key), request, answer, now),
        )

    def lists(self) -> list[List]:
        """All lists that have rows."""
        found = self._select("SELECT DISTINCT tenant, kind, parent FROM document", ())
        return [List(*map(unescape_name, row)) for row in found]

    def failure(self, text: str) -> DependencyFailed:
        """The error that says `text` of the file."""
        return self._file.failure(text)

    def damage(self, text: str) -> DependencyFailed:
        """The error that says that it does not hold what was written to it."""
        return self._file.damage(text)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _select(self, statement: str, values: Sequence[Any]) -> list[Any]:
        # Outside of this thread's own transaction nobody waits for those who change something.
        select = self._file.rows if self._mine.is_changing else self._file.rows_of_last_commit
        return select(statement, values)
