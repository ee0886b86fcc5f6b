"""A SQLite file of this program: made or checked when it is opened, changed in transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from orchestrator.errors import DependencyFailed


class Layout(NamedTuple):
    """What a kind of file holds."""

    application: int  # a number that no other kind has (SQLite: `application_id`)
    version: int  # the version of its tables, from 1
    schema: str  # the statements that make them


class SqliteFile:
    """An open file. Safe for many threads, and for many processes on one file.

    The log is write-ahead with `synchronous=NORMAL`: a killed process loses nothing; a power cut
    may lose the last transactions, never the file.
    """

    def __init__(
        self,
        path: str | Path,
        what: str,
        layout: Layout,
        hint: str = "check that its folder exists, is writable and has room, and that it is a file "
        "of this program",
    ) -> None:
        """Opens the file, or makes it in a folder that exists; `:memory:` is one in memory alone.

        Messages call it `what`; `hint` says what to do when SQLite cannot use it.

        Raises:
            DependencyFailed: The file cannot be opened, is another program's or of another kind,
                or was written by a newer version.
        """
        self.path = str(path)
        self._what = what
        self._hint = hint
        self._lock = RLock()
        with self._translate_errors("cannot be opened"):
            self._db = sqlite3.connect(
                self.path, timeout=30.0, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translate_errors("cannot be opened"):
                self._prepare(layout)
        except DependencyFailed:
            self._db.close()
            raise

    def _prepare(self, layout: Layout) -> None:
        if not self._is_ready(layout):
            with self.transaction() as db:
                # Two processes may make one file: the second looks again when the first is done.
                if not self._is_ready(layout):
                    for statement in _statements(layout.schema):
                        db.execute(statement)
                    db.execute(f"PRAGMA application_id = {layout.application:d}")
                    db.execute(f"PRAGMA user_version = {layout.version:d}")
        self._write_ahead()
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA foreign_keys=ON")

    def _write_ahead(self) -> None:
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # Here alone SQLite does not wait for others; whoever opens the file next tries again.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise

    def _is_ready(self, layout: Layout) -> bool:
        # The tables first: they are committed together with what says whose they are.
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if tables and application != layout.application:
            raise self.failure("is a file for something else; choose another one")
        if version > layout.version:
            raise self.failure(
                f"has layout {version}, newer than this program's {layout.version}: update the "
                "program"
            )
        return bool(tables)

    def failure(self, text: str) -> DependencyFailed:
        """The error that says `text` of this file."""
        return DependencyFailed(f"{self._what} {self.path!r} {text}", resource=self.path)

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self.failure(f"{what}: {error}; {self._hint}") from error

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone.

        Raises:
            DependencyFailed: SQLite failed.
        """
        with self._lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                raise self.failure(f"failed: {error}; {self._hint}") from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection, in a transaction that any error undoes.

        Raises:
            DependencyFailed: SQLite failed; nothing was written.
        """
        with self.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # some errors have ended it already
                    db.execute("ROLLBACK")
                raise

    def rows(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """What a statement finds.

        Raises:
            DependencyFailed: SQLite failed.
        """
        with self.connection() as db:
            return db.execute(statement, values).fetchall()

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._db.close()


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
