"""Memory: what an agent remembers from one session to the next."""

from typing import TYPE_CHECKING

from orchestrator.memory.base import MemoryStore, SessionSummary
from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.memory.dynamodb_memory import DynamoMemory
    from orchestrator.memory.encrypted_memory import EncryptedMemory
    from orchestrator.memory.postgres_memory import PostgresMemory
    from orchestrator.memory.stores import InMemoryMemory, MemoryInfo, SqliteMemory
    from orchestrator.memory.summaries import (
        build_summary,
        memory_contents,
        summary_text,
        to_prompt_summaries,
    )
    from orchestrator.memory.urls import open_memory

__all__ = [
    "DynamoMemory",
    "EncryptedMemory",
    "InMemoryMemory",
    "MemoryInfo",
    "MemoryStore",
    "PostgresMemory",
    "SessionSummary",
    "SqliteMemory",
    "build_summary",
    "memory_contents",
    "open_memory",
    "summary_text",
    "to_prompt_summaries",
]

_HOMES = {
    "DynamoMemory": "dynamodb_memory",
    "EncryptedMemory": "encrypted_memory",
    "PostgresMemory": "postgres_memory",
    "open_memory": "urls",
    **dict.fromkeys(("InMemoryMemory", "MemoryInfo", "SqliteMemory"), "stores"),
    **dict.fromkeys(
        ("build_summary", "memory_contents", "summary_text", "to_prompt_summaries"), "summaries"
    ),
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
