"""The journal, its stores, and the sessions that are projections of it."""

from orchestrator.sessions.in_memory_store import InMemoryStore
from orchestrator.sessions.journal import Record, Said, SessionInfo, SessionStore
from orchestrator.sessions.session import HISTORY_GUARD, Past, Session, TurnLog
from orchestrator.sessions.sessions import NEVER, Clock, Sessions

__all__ = [
    "HISTORY_GUARD",
    "NEVER",
    "Clock",
    "InMemoryStore",
    "Past",
    "Record",
    "SQLiteStore",
    "Said",
    "Session",
    "SessionInfo",
    "SessionStore",
    "Sessions",
    "TurnLog",
]


def __getattr__(name: str) -> object:
    if name == "SQLiteStore":
        from orchestrator.sessions.sqlite_store import SQLiteStore

        return SQLiteStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
