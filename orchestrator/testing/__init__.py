"""Fakes for the engine's seams: what tests of agents need, without a network or a model."""

from orchestrator.models.scripted import ScriptedModel
from orchestrator.sessions.memory import MemoryStore
from orchestrator.testing.fakes import FakeClock, FakeEmbedder, FakeGuardrail, FakeKnowledgeBase

__all__ = [
    "FakeClock",
    "FakeEmbedder",
    "FakeGuardrail",
    "FakeKnowledgeBase",
    "MemoryStore",
    "ScriptedModel",
]
