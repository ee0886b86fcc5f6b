"""Memory: what an agent remembers from one session to the next."""

from importlib import import_module
from typing import TYPE_CHECKING

from orchestrator.memory.base import MemoryStore, SessionSummary

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

_STORES = ("InMemoryMemory", "MemoryInfo", "SqliteMemory")


def __getattr__(name: str) -> object:
    if name in __all__:
        module = "stores" if name in _STORES else "summaries"
        return getattr(import_module(f"orchestrator.memory.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
