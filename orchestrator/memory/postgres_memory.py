"""Summaries in a PostgreSQL database, shared by the processes of many machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.memory.base import SessionSummary
from orchestrator.memory.stores import MemoryInfo
from orchestrator.memory.summary_body import decode_summary, encode_body
from orchestrator.support.postgres import PostgresDatabase
from orchestrator.support.store_urls import PostgresUrl
from orchestrator.support.stored_names import escape_name as name
from orchestrator.support.stored_names import unescape_name

if TYPE_CHECKING:
    from orchestrator.support.postgres import Connection

_FRESH = "(expires IS NULL OR expires > %s)"
_SETTLE = "DELETE FROM orchestrator_touched WHERE owner = %s AND session_id = %s"


class PostgresMemory:
    """A `MemoryStore` in PostgreSQL (extra `postgres`).

    Summaries that have expired are not returned, and are deleted when the next one is added to the
    same memory. Every method raises `DependencyFailed` when the database fails.
    """

    def __init__(self, url: PostgresUrl) -> None:
        """Connects, and makes the tables or brings them up to date.

        Raises:
            ValidationError: The extra `postgres` is missing, or the URL is wrong.
            DependencyFailed: The database cannot be used, or was written by a newer version.
        """
        self._database = PostgresDatabase(url, "memory", "the memory store")

    def close(self) -> None:
        """Closes the connections, if no other store uses them."""
        self._database.close()

    def touch(self, owner: str, memory_id: str, session_id: str, at: int) -> None:
        """Notes that a turn of a session began."""
        self._write(
            "INSERT INTO orchestrator_touched (owner, session_id, memory_id, at) "
            "VALUES (%s, %s, %s, %s) ON CONFLICT (owner, session_id) "
            "DO UPDATE SET memory_id = excluded.memory_id, at = excluded.at",
            (name(owner), name(session_id), name(memory_id), at),
        )

    def find_unsummarised(self, owner: str, before: int, memory_id: str | None = None) -> list[str]:
        """Sessions that were touched last before that time and not summarised since."""
        memory = None if memory_id is None else name(memory_id)
        rows = self._database.rows(
            "SELECT session_id FROM orchestrator_touched WHERE owner = %s AND at < %s "
            "AND (%s::text IS NULL OR memory_id = %s) ORDER BY at",
            (name(owner), before, memory, memory),
        )
        return [unescape_name(session) for (session,) in rows]

    def settle(self, owner: str, session_id: str) -> None:
        """Notes that there is nothing (more) to summarise of a session."""
        self._write(_SETTLE, (name(owner), name(session_id)))

    def add(self, owner: str, summary: SessionSummary) -> None:
        """Adds a summary; one of the same memory and session is replaced."""
        whose, memory, session = name(owner), name(summary.memory_id), name(summary.session_id)

        def write() -> None:
            with self._database.transaction() as db:
                db.execute(
                    "DELETE FROM orchestrator_summary "
                    "WHERE owner = %s AND memory_id = %s AND expires <= %s",
                    (whose, memory, summary.started),
                )
                db.execute(
                    "INSERT INTO orchestrator_summary VALUES (%s, %s, %s, %s, %s, %s) "
                    "ON CONFLICT (owner, memory_id, session_id) DO UPDATE SET "
                    "started = excluded.started, expires = excluded.expires, body = excluded.body",
                    (
                        whose,
                        memory,
                        session,
                        summary.started,
                        summary.expires,
                        encode_body(summary),
                    ),
                )
                db.execute(_SETTLE, (whose, session))

        self._database.repeat(write)

    def recent(self, owner: str, memory_id: str, now: int, limit: int) -> list[SessionSummary]:
        """The last `limit` summaries that have not expired at `now`, newest first."""
        rows = self._database.rows(
            "SELECT session_id, started, expires, body FROM orchestrator_summary "
            f"WHERE owner = %s AND memory_id = %s AND {_FRESH} "
            "ORDER BY started DESC, session_id DESC LIMIT %s",
            (name(owner), name(memory_id), now, max(limit, 0)),
        )
        return [self._read(memory_id, unescape_name(session), *rest) for session, *rest in rows]

    def rewrite(self, owner: str, old: SessionSummary, new: SessionSummary) -> bool:
        """Puts a summary in the place of the old one, where that still stands; whether it did."""
        key = name(owner), name(old.memory_id), name(old.session_id)
        found = self._database.rows(
            "UPDATE orchestrator_summary SET body = %s WHERE owner = %s AND memory_id = %s "
            "AND session_id = %s AND started = %s AND body = %s RETURNING started",
            (encode_body(new), *key, old.started, encode_body(old)),
        )
        return bool(found)

    def delete(
        self, owner: str, memory_id: str | None = None, session_id: str | None = None
    ) -> None:
        """Deletes summaries of an owner: all, those of a memory, or that of one session."""
        memory = None if memory_id is None else name(memory_id)
        session = None if session_id is None else name(session_id)
        self._write(
            "DELETE FROM orchestrator_summary WHERE owner = %s "
            "AND (%s::text IS NULL OR memory_id = %s) AND (%s::text IS NULL OR session_id = %s)",
            (name(owner), memory, memory, session, session),
        )

    def memories(self, now: int) -> list[MemoryInfo]:
        """The memories that have summaries at `now`, the latest first."""
        rows = self._database.rows(
            "SELECT owner, memory_id, count(*), max(started) AS latest FROM orchestrator_summary "
            f"WHERE {_FRESH} GROUP BY owner, memory_id ORDER BY latest DESC, owner, memory_id",
            (now,),
        )
        return [
            MemoryInfo(unescape_name(owner), unescape_name(memory), sessions, latest)
            for owner, memory, sessions, latest in rows
        ]

    def _write(self, statement: str, values: Sequence[Any]) -> None:
        # Each of these may be carried out twice: nothing comes of the second time.
        def write(db: Connection) -> None:
            db.execute(statement.encode(), values)

        self._database.repeat(lambda: self._database.run(write))

    def _read(
        self, memory_id: str, session_id: str, started: Any, expires: Any, body: Any
    ) -> SessionSummary:
        found = decode_summary(memory_id, session_id, started, expires, body)
        if found is None:
            raise self._database.failure(
                f"has a summary of session {session_id!r} that this program did not write; delete "
                "it with `orchestrator memory delete`"
            )
        return found
