"""Memory: what an agent remembers from one session to the next."""

from orchestrator.memory.base import MemoryStore, SessionSummary

__all__ = ["MemoryStore", "SessionSummary"]
