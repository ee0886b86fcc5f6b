"""Where summaries are kept: in this process, or in a SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from orchestrator.memory.base import SessionSummary
from orchestrator.message import clean
from orchestrator.support.safe_json import json_or
from orchestrator.support.sqlite import SqliteFile, checksum
from orchestrator.support.sqlite_layout import Layout

_SUMMARY = "owner, memory_id, session_id, started, expires, topics, text"


def _add_checksums(db: sqlite3.Connection) -> None:
    # Version 1 had none.
    db.execute("ALTER TABLE summary ADD COLUMN sum INTEGER NOT NULL DEFAULT 0")
    write_checksums(db)


def write_checksums(db: sqlite3.Connection) -> None:
    """Writes the checksums of what a file holds."""
    for row in db.execute(f"SELECT {_SUMMARY} FROM summary").fetchall():
        db.execute(
            "UPDATE summary SET sum = ? WHERE owner = ? AND memory_id = ? AND session_id = ?",
            (checksum(*row), *row[:3]),
        )


_LAYOUT = Layout(
    0x42414D45,  # "BAME"
    2,
    """
CREATE TABLE summary (
    owner TEXT NOT NULL, memory_id TEXT NOT NULL, session_id TEXT NOT NULL,
    started INTEGER NOT NULL, expires INTEGER, topics TEXT NOT NULL, text TEXT NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (owner, memory_id, session_id)
) WITHOUT ROWID;
CREATE INDEX summary_by_time ON summary (owner, memory_id, started);
CREATE TABLE touched (
    owner TEXT NOT NULL, session_id TEXT NOT NULL, memory_id TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (owner, session_id)
) WITHOUT ROWID;
""",
    (_add_checksums,),
)


class MemoryInfo(NamedTuple):
    """One memory of a store."""

    owner: str  # the agent and alias that it belongs to
    memory_id: str  # its id
    sessions: int  # how many sessions are remembered
    latest: int  # when the latest of them began, in nanoseconds since 1970


class InMemoryMemory:
    """A `MemoryStore` whose summaries end with the process."""

    def __init__(self) -> None:
        self._summaries: dict[tuple[str, str, str], SessionSummary] = {}
        self._touched: dict[tuple[str, str], tuple[str, int]] = {}
        self._lock = Lock()

    def touch(self, owner: str, memory_id: str, session_id: str, at: int) -> None:
        """Notes that a turn of a session began."""
        with self._lock:
            self._touched[owner, session_id] = memory_id, at

    def find_unsummarised(self, owner: str, before: int, memory_id: str | None = None) -> list[str]:
        """Sessions that were touched last before that time and not summarised since."""
        with self._lock:
            return [
                session
                for (whose, session), (memory, at) in self._touched.items()
                if whose == owner and at < before and memory_id in (None, memory)
            ]

    def settle(self, owner: str, session_id: str) -> None:
        """Notes that there is nothing (more) to summarise of a session."""
        with self._lock:
            self._touched.pop((owner, session_id), None)

    def add(self, owner: str, summary: SessionSummary) -> None:
        """Adds a summary; one of the same memory and session is replaced."""
        with self._lock:
            self._summaries[owner, summary.memory_id, summary.session_id] = summary
            self._touched.pop((owner, summary.session_id), None)

    def recent(self, owner: str, memory_id: str, now: int, limit: int) -> list[SessionSummary]:
        """The last `limit` summaries that have not expired at `now`, newest first."""
        with self._lock:
            found = [
                summary
                for (whose, memory, _), summary in self._summaries.items()
                if (whose, memory) == (owner, memory_id) and not _is_expired(summary, now)
            ]
        return sorted(found, key=lambda it: (it.started, it.session_id), reverse=True)[
            : max(limit, 0)
        ]

    def delete(
        self, owner: str, memory_id: str | None = None, session_id: str | None = None
    ) -> None:
        """Deletes summaries of an owner: all, those of a memory, or that of one session."""
        with self._lock:
            for key in list(self._summaries):
                whose, memory, session = key
                if whose == owner and memory_id in (None, memory) and session_id in (None, session):
                    del self._summaries[key]

    def memories(self, now: int) -> list[MemoryInfo]:
        """The memories that have summaries at `now`, the latest first."""
        with self._lock:
            found = [
                (owner, memory, summary.started)
                for (owner, memory, _), summary in self._summaries.items()
                if not _is_expired(summary, now)
            ]
        return group_memories(found)


def group_memories(found: Iterable[tuple[str, str, int]]) -> list[MemoryInfo]:
    """The memories of summaries, given by owner, memory and beginning; the latest first."""
    grouped: dict[tuple[str, str], list[int]] = {}
    for owner, memory, started in found:
        grouped.setdefault((owner, memory), []).append(started)
    infos = [MemoryInfo(*key, len(times), max(times)) for key, times in grouped.items()]
    return sorted(infos, key=lambda it: (-it.latest, it.owner, it.memory_id))


def _is_expired(summary: SessionSummary, now: int) -> bool:
    return summary.expires is not None and summary.expires <= now


def _settle(db: sqlite3.Connection, owner: str, session_id: str) -> None:
    db.execute("DELETE FROM touched WHERE owner = ? AND session_id = ?", (owner, session_id))


_FRESH = "(expires IS NULL OR expires > :now)"


# Ids come from callers: they are values of columns, never part of a statement or of a file's name.
class SqliteMemory:
    """A `MemoryStore` in a SQLite file, shared by the processes of one machine.

    Summaries that have expired are not returned, and are deleted when the next one is added to the
    same memory. Every method raises `DependencyFailed` when the file fails; nothing was written
    then.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens the file, and makes it when it is not there; its folder must exist.

        Raises:
            DependencyFailed: The file cannot be opened, is another program's, or was written by a
                newer version.
        """
        self.path = Path(path)
        self._file = SqliteFile(path, "the memory store", _LAYOUT)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def touch(self, owner: str, memory_id: str, session_id: str, at: int) -> None:
        """Notes that a turn of a session began."""
        row = (owner, session_id, memory_id, at)
        with self._file.transaction() as db:
            db.execute("INSERT OR REPLACE INTO touched VALUES (?, ?, ?, ?)", row)

    def find_unsummarised(self, owner: str, before: int, memory_id: str | None = None) -> list[str]:
        """Sessions that were touched last before that time and not summarised since."""
        rows = self._file.rows(
            "SELECT session_id FROM touched WHERE owner = :owner AND at < :before "
            "AND (:memory IS NULL OR memory_id = :memory) ORDER BY at",
            {"owner": owner, "before": before, "memory": memory_id},
        )
        return [str(session) for (session,) in rows]

    def settle(self, owner: str, session_id: str) -> None:
        """Notes that there is nothing (more) to summarise of a session."""
        with self._file.transaction() as db:
            _settle(db, owner, session_id)

    def add(self, owner: str, summary: SessionSummary) -> None:
        """Adds a summary; one of the same memory and session is replaced."""
        row = _to_row(owner, summary)
        with self._file.transaction() as db:
            # Expired rows go here, so that no thread has to look for them.
            db.execute(
                "DELETE FROM summary WHERE owner = ? AND memory_id = ? AND expires <= ?",
                (owner, summary.memory_id, summary.started),
            )
            db.execute(
                "INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, checksum(*row)),
            )
            _settle(db, owner, summary.session_id)

    def recent(self, owner: str, memory_id: str, now: int, limit: int) -> list[SessionSummary]:
        """The last `limit` summaries that have not expired at `now`, newest first."""
        # A negative limit would be none at all (SQLite: "The LIMIT clause").
        rows = self._file.rows(
            f"SELECT {_SUMMARY}, sum FROM summary "
            f"WHERE owner = :owner AND memory_id = :memory AND {_FRESH} "
            "ORDER BY started DESC, session_id DESC LIMIT :limit",
            {"owner": owner, "memory": memory_id, "now": now, "limit": max(limit, 0)},
        )
        return [self._summary(*row) for row in rows]

    def rewrite(self, owner: str, old: SessionSummary, new: SessionSummary) -> bool:
        """Puts a summary in the place of the old one, where that still stands; whether it did."""
        known, row = _to_row(owner, old), _to_row(owner, new)
        with self._file.transaction() as db:
            found = db.execute(
                "UPDATE summary SET topics = ?, text = ?, sum = ? "
                "WHERE owner = ? AND memory_id = ? AND session_id = ? AND sum = ? AND text = ?",
                (*row[5:], checksum(*row), *known[:3], checksum(*known), known[6]),
            )
        return bool(found.rowcount)

    def delete(
        self, owner: str, memory_id: str | None = None, session_id: str | None = None
    ) -> None:
        """Deletes summaries of an owner: all, those of a memory, or that of one session."""
        with self._file.transaction() as db:
            db.execute(
                "DELETE FROM summary WHERE owner = :owner "
                "AND (:memory IS NULL OR memory_id = :memory) "
                "AND (:session IS NULL OR session_id = :session)",
                {"owner": owner, "memory": memory_id, "session": session_id},
            )

    def memories(self, now: int) -> list[MemoryInfo]:
        """The memories that have summaries at `now`, the latest first."""
        rows = self._file.rows(
            "SELECT owner, memory_id, count(*), max(CAST(started AS INTEGER)) AS latest "
            f"FROM summary WHERE {_FRESH} GROUP BY owner, memory_id "
            "ORDER BY latest DESC, owner, memory_id",
            {"now": now},
        )
        return [MemoryInfo(*row) for row in rows]

    def _summary(self, *row: Any) -> SessionSummary:
        *values, total = row
        _, memory_id, session_id, started, expires, written, text = values
        if checksum(*values) != total:
            raise self._file.damage(
                f"the summary of session {session_id!r} was changed",
                "delete it with `orchestrator memory delete`",
            )
        topics = read_topics(json_or(written, None) if isinstance(written, str) else None)
        whole = isinstance(text, str) and isinstance(started, int)
        if topics is None or not whole or not isinstance(expires, int | None):
            raise self._file.failure(
                f"has a summary of session {session_id!r} that this program did not write; delete "
                "it with `orchestrator memory delete`"
            )
        return SessionSummary(memory_id, session_id, started, expires, topics, text)


def _to_row(owner: str, summary: SessionSummary) -> tuple[Any, ...]:
    topics = json.dumps([dict(topic) for topic in summary.topics])
    return (
        *(owner, summary.memory_id, summary.session_id),
        *(summary.started, summary.expires, topics, clean(summary.text)),
    )


def read_topics(value: Any) -> list[dict[str, str]] | None:
    """The topics of a summary, if a value that was read is some."""
    topics = isinstance(value, list) and all(
        isinstance(topic, dict)
        and topic.keys() == {"topic", "summary"}
        and all(isinstance(it, str) for it in topic.values())
        for topic in value
    )
    return value if topics else None
