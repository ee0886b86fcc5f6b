"""Memory: what an agent remembers from one session to the next."""

from typing import TYPE_CHECKING

from orchestrator.memory.base import MemoryStore, SessionSummary
from orchestrator.support.lazy_imports import lazily

if TYPE_CHECKING:
    from orchestrator.memory.stores import InMemoryMemory, MemoryInfo, SqliteMemory
    from orchestrator.memory.summaries import (
        memory_contents,
        summaries_told,
        summary_of,
        summary_text,
    )

__all__ = [
    "InMemoryMemory",
    "MemoryInfo",
    "MemoryStore",
    "SessionSummary",
    "SqliteMemory",
    "memory_contents",
    "summaries_told",
    "summary_of",
    "summary_text",
]

_HOMES = {
    **dict.fromkeys(("InMemoryMemory", "MemoryInfo", "SqliteMemory"), "stores"),
    **dict.fromkeys(
        ("memory_contents", "summaries_told", "summary_of", "summary_text"), "summaries"
    ),
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
