"""Guardrails: what an agent must not be told, and must not say."""

from importlib import import_module
from typing import TYPE_CHECKING

from orchestrator.guardrails.base import Guardrail, Source, Verdict

if TYPE_CHECKING:
    from orchestrator.guardrails.bedrock import BedrockGuardrail
    from orchestrator.guardrails.local import LocalGuardrail, Pii, Regex, Topic, Word
    from orchestrator.guardrails.stream import GuardedStream
    from orchestrator.guardrails.trace import guardrail_trace

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

_LAZY = {
    "BedrockGuardrail": "bedrock",
    "GuardedStream": "stream",
    "guardrail_trace": "trace",
    **dict.fromkeys(("LocalGuardrail", "Pii", "Regex", "Topic", "Word"), "local"),
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(f"orchestrator.guardrails.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
