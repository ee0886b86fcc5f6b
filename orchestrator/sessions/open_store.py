"""The store that a path or a URL names."""

from __future__ import annotations

from pathlib import Path

from orchestrator.sessions.journal import SessionStore
from orchestrator.support.store_urls import (
    DynamoUrl,
    MemoryUrl,
    PostgresUrl,
    StoreUrl,
    parse_store,
)


def open_store(name: str | Path | StoreUrl) -> SessionStore:
    """Opens the store of sessions that a path, or a URL (`support/store_urls.py`), names.

    Raises:
        ValidationError: The URL is wrong, or the library that it needs is not installed.
        DependencyFailed: The store cannot be opened.
    """
    url = parse_store(name)
    if isinstance(url, MemoryUrl):
        from orchestrator.sessions.in_memory_store import InMemoryStore

        return InMemoryStore()
    if isinstance(url, DynamoUrl):
        from orchestrator.sessions.dynamodb_store import DynamoStore

        return DynamoStore(url)
    if isinstance(url, PostgresUrl):
        from orchestrator.sessions.postgres_store import PostgresStore

        return PostgresStore(url)
    from orchestrator.sessions.sqlite_store import SQLiteStore

    return SQLiteStore(url.path)
