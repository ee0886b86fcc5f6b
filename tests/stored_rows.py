"""Rows that tests put into a session store's file, with checksums that fit them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from orchestrator.sessions.sqlite_store import write_checksums


def append_rows(file: Path, rows: Sequence[object]) -> None:
    """Appends rows to the journal of the only session."""
    with closing(sqlite3.connect(file)) as db, db:
        (key,) = db.execute("SELECT key FROM session").fetchone()
        (count,) = db.execute("SELECT count(*) FROM journal").fetchone()
        db.executemany(
            "INSERT INTO journal VALUES (?, ?, ?, 0)",
            [(key, place, row) for place, row in enumerate(rows, count)],
        )
        write_checksums(db)


def replace_rows(file: Path, rows: Sequence[object]) -> None:
    """Puts rows in the place of the journal of the only session."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DELETE FROM journal")
    append_rows(file, rows)
