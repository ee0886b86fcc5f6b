"""The memory that a path or a URL of a store names, encrypted if the environment has keys."""

from __future__ import annotations

from pathlib import Path

from orchestrator.memory.base import MemoryStore
from orchestrator.memory.encrypted_memory import encrypt_memory
from orchestrator.support.store_urls import (
    DynamoUrl,
    MemoryUrl,
    PostgresUrl,
    SqliteUrl,
    StoreUrl,
    parse_store,
)

_FILE = "memory.sqlite"


def find_memory_beside(sessions: str | Path) -> StoreUrl:
    """Where memories are whose sessions are in a store: in its database, or in a file beside."""
    url = parse_store(sessions)
    if isinstance(url, SqliteUrl) and str(url.path) != ":memory:":
        return SqliteUrl(url.path.with_name(_FILE))
    return url


def open_memory(name: str | Path | StoreUrl) -> MemoryStore:
    """Opens a memory, and makes it where that is possible.

    Raises:
        ValidationError: The name is no store's, or an extra is missing.
        DependencyFailed: The store cannot be used.
    """
    return encrypt_memory(_open(parse_store(name)))


def _open(url: StoreUrl) -> MemoryStore:
    from orchestrator.memory.stores import InMemoryMemory, SqliteMemory

    match url:
        case MemoryUrl():
            return InMemoryMemory()
        case SqliteUrl():
            return SqliteMemory(url.path)
        case DynamoUrl():
            from orchestrator.memory.dynamodb_memory import DynamoMemory

            return DynamoMemory(url)
        case PostgresUrl():
            from orchestrator.memory.postgres_memory import PostgresMemory

            return PostgresMemory(url)
