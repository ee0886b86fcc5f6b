"""A verdict as Bedrock's trace tells it (AWS: `GuardrailTrace` of bedrock-agent-runtime)."""

from __future__ import annotations

from typing import Any

from orchestrator.guardrails.base import Source, Verdict

__all__ = ["guardrail_trace"]


def guardrail_trace(verdict: Verdict, source: Source, trace_id: str) -> dict[str, Any]:
    """The `guardrailTrace` of a verdict, without the `metadata` of its times.

    Args:
        verdict: What the guardrail said.
        source: Of what.
        trace_id: `{requestId}-guardrail-pre-0` for input, `-guardrail-post-0` for output
            (recorded).
    """
    member = "inputAssessments" if source == "INPUT" else "outputAssessments"
    told: dict[str, Any] = {"action": verdict.action, "traceId": trace_id}
    if verdict.assessments:
        told[member] = [dict(assessment) for assessment in verdict.assessments]
    return told
