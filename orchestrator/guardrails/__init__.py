"""Guardrails check what users send to an agent and what it answers."""

from typing import TYPE_CHECKING

from orchestrator.guardrails.base import Guardrail, Source, Verdict, guardrail_trace
from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.guardrails.bedrock import BedrockGuardrail
    from orchestrator.guardrails.local import LocalGuardrail, Pii, Regex, Topic, Word
    from orchestrator.guardrails.stream import GuardedStream

__all__ = [
    "BedrockGuardrail",
    "GuardedStream",
    "Guardrail",
    "LocalGuardrail",
    "Pii",
    "Regex",
    "Source",
    "Topic",
    "Verdict",
    "Word",
    "guardrail_trace",
]

_HOMES = {
    "BedrockGuardrail": "bedrock",
    "GuardedStream": "stream",
    **dict.fromkeys(("LocalGuardrail", "Pii", "Regex", "Topic", "Word"), "local"),
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
