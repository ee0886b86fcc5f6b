"""Rows that tests put into a session store's file, with checksums that fit them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from orchestrator.sessions.rows import sum_entry, sum_record


def write_checksums(db: sqlite3.Connection) -> None:
    """Writes the checksums of what a file holds."""
    entries = db.execute("SELECT id, key, label, updated FROM session").fetchall()
    for id, key, label, updated in entries:
        of_session = "FROM journal WHERE place >> 32 = ? ORDER BY place"
        rows = db.execute(f"SELECT place, record {of_session}", (id,)).fetchall()
        sums = [(sum_record(key, place & 0xFFFFFFFF, text), place) for place, text in rows]
        db.executemany("UPDATE journal SET sum = ? WHERE place = ?", sums)
        total = sum_entry(key, label, updated, len(sums))
        db.execute("UPDATE session SET records = ?, sum = ? WHERE id = ?", (len(sums), total, id))


def append_rows(file: Path, rows: Sequence[object]) -> None:
    """Appends rows to the journal of the only session."""
    with closing(sqlite3.connect(file)) as db, db:
        (count,) = db.execute("SELECT count(*) FROM journal").fetchone()
        db.executemany(
            "INSERT INTO journal SELECT (id << 32) + ?, ?, 0 FROM session", enumerate(rows, count)
        )
        write_checksums(db)


def replace_rows(file: Path, rows: Sequence[object]) -> None:
    """Puts rows in the place of the journal of the only session."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DELETE FROM journal")
    append_rows(file, rows)
