"""Fakes for the engine's interfaces: what tests of agents need, without a network or a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.models.scripted_model import ScriptedModel
    from orchestrator.sessions.in_memory_store import InMemoryStore
    from orchestrator.testing.bedrock import Answer, BedrockAgents, ServedAgent
    from orchestrator.testing.fakes import FakeClock, FakeEmbedder, FakeGuardrail, FakeKnowledgeBase

__all__ = [
    "Answer",
    "BedrockAgents",
    "FakeClock",
    "FakeEmbedder",
    "FakeGuardrail",
    "FakeKnowledgeBase",
    "InMemoryStore",
    "ScriptedModel",
    "ServedAgent",
]

# Imported when first used: pytest has the plugin in this package import it in every run.
_HOMES = {
    **dict.fromkeys(("Answer", "BedrockAgents", "ServedAgent"), "bedrock"),
    **dict.fromkeys(("FakeClock", "FakeEmbedder", "FakeGuardrail", "FakeKnowledgeBase"), "fakes"),
    "InMemoryStore": "orchestrator.sessions.in_memory_store",
    "ScriptedModel": "orchestrator.models.scripted_model",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
