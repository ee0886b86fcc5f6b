"""What a kind of SQLite file holds: its tables, made or upgraded as a file is opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import NamedTuple

from orchestrator.support.sqlite_errors import WAY_OUT


class WrongLayout(Exception):
    """A file holds something else than it should; it says what, without the file's name."""


class Layout(NamedTuple):
    """What a kind of file holds."""

    application: int  # a number that no other kind has (SQLite: `application_id`)
    version: int  # the version of its tables, from 1
    schema: str  # the statements that make them
    # Each makes the tables of the next version out of those of one, from version 1 on
    upgrades: tuple[Callable[[sqlite3.Connection], None], ...] = ()
    page_size: int = 4096  # bytes of a page of a new file; what is changed is written by pages

    def is_in(self, db: sqlite3.Connection) -> bool:
        """Whether a file has these tables; `False` of one that is new, or of an older version.

        Raises:
            WrongLayout: It is of another kind, of a newer version, or damaged.
        """
        # The tables first: they are committed together with what says whose they are.
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if tables and application != self.application:
            raise WrongLayout("is a file for something else; choose another one")
        if version > self.version:
            raise WrongLayout(
                f"has layout {version}, newer than this program's {self.version}: update the "
                "program"
            )
        if tables and version < 1:
            raise WrongLayout(f"is damaged: its version is missing; {WAY_OUT}")
        return bool(tables) and version == self.version

    def make_in(self, db: sqlite3.Connection) -> None:
        """Makes the tables in a new file, or upgrades those of an older one; in a transaction."""
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version:
            for upgrade in self.upgrades[version - 1 :]:
                upgrade(db)
        else:
            for statement in _statements(self.schema):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {self.application:d}")
        db.execute(f"PRAGMA user_version = {self.version:d}")


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
