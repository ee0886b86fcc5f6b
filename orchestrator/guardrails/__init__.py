"""Guardrails: what an agent must not be told, and must not say."""

from orchestrator.guardrails.base import Guardrail, Source, Verdict

__all__ = ["Guardrail", "Source", "Verdict"]
