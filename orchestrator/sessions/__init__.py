"""The journal, its stores, and the sessions that are projections of it."""

from orchestrator.sessions.journal import Record, SessionInfo, SessionStore
from orchestrator.sessions.memory import MemoryStore
from orchestrator.sessions.session import Clock, Session, Sessions, TurnLog

__all__ = [
    "Clock",
    "MemoryStore",
    "Record",
    "SQLiteStore",
    "Session",
    "SessionInfo",
    "SessionStore",
    "Sessions",
    "TurnLog",
]


def __getattr__(name: str) -> object:
    if name == "SQLiteStore":
        from orchestrator.sessions.sqlite import SQLiteStore

        return SQLiteStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
