"""The journal, its stores, and the sessions that are projections of it."""

from typing import TYPE_CHECKING

from orchestrator.sessions.in_memory_store import InMemoryStore
from orchestrator.sessions.journal import Record, Said, SessionInfo, SessionStore
from orchestrator.sessions.session import HISTORY_GUARD, Past, Session, TurnLog
from orchestrator.sessions.sessions import Clock, Sessions, session_label
from orchestrator.sessions.store_use import NEVER
from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.sessions.dynamodb_store import DynamoStore
    from orchestrator.sessions.encrypted_store import EncryptedStore
    from orchestrator.sessions.postgres_store import PostgresStore
    from orchestrator.sessions.sqlite_store import SQLiteStore

__all__ = [
    "HISTORY_GUARD",
    "NEVER",
    "Clock",
    "DynamoStore",
    "EncryptedStore",
    "InMemoryStore",
    "Past",
    "PostgresStore",
    "Record",
    "SQLiteStore",
    "Said",
    "Session",
    "SessionInfo",
    "SessionStore",
    "Sessions",
    "TurnLog",
    "session_label",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "DynamoStore": "dynamodb_store",
        "EncryptedStore": "encrypted_store",
        "PostgresStore": "postgres_store",
        "SQLiteStore": "sqlite_store",
    },
)
