"""Fakes for the engine's seams: what tests of agents need, without a network or a model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

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
_LAZY = {
    "Answer": "orchestrator.testing.bedrock",
    "BedrockAgents": "orchestrator.testing.bedrock",
    "FakeClock": "orchestrator.testing.fakes",
    "FakeEmbedder": "orchestrator.testing.fakes",
    "FakeGuardrail": "orchestrator.testing.fakes",
    "FakeKnowledgeBase": "orchestrator.testing.fakes",
    "InMemoryStore": "orchestrator.sessions.in_memory_store",
    "ScriptedModel": "orchestrator.models.scripted_model",
    "ServedAgent": "orchestrator.testing.bedrock",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
