"""Memory: what an agent remembers from one session to the next."""

from typing import TYPE_CHECKING

from orchestrator.memory.base import MemoryStore, SessionSummary
from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.memory.encrypted_memory import EncryptedMemory
    from orchestrator.memory.stores import InMemoryMemory, MemoryInfo, SqliteMemory
    from orchestrator.memory.summaries import (
        build_summary,
        memory_contents,
        summary_text,
        to_prompt_summaries,
    )

__all__ = [
    "EncryptedMemory",
    "InMemoryMemory",
    "MemoryInfo",
    "MemoryStore",
    "SessionSummary",
    "SqliteMemory",
    "build_summary",
    "memory_contents",
    "summary_text",
    "to_prompt_summaries",
]

_HOMES = {
    "EncryptedMemory": "encrypted_memory",
    **dict.fromkeys(("InMemoryMemory", "MemoryInfo", "SqliteMemory"), "stores"),
    **dict.fromkeys(
        ("build_summary", "memory_contents", "summary_text", "to_prompt_summaries"), "summaries"
    ),
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
