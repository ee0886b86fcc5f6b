"""The guardrail seam: a text goes in, and a verdict with the text to show comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

Source = Literal["INPUT", "OUTPUT"]


@dataclass(slots=True)
class Verdict:
    """What a guardrail says of a text."""

    action: str = "NONE"  # `"NONE"`, or `"INTERVENED"` when the text may not stand as it is
    text: str = ""  # what stands instead: the blocked message, or the text with its masks
    blocked: bool = False  # whether nothing of the text may stand; otherwise it was only masked
    # Bedrock's assessments (bedrock-agent-runtime: `GuardrailAssessment`), as a trace's
    # `inputAssessments` or `outputAssessments` hold them
    assessments: Sequence[Mapping[str, Any]] = field(default_factory=list)


@runtime_checkable
class Guardrail(Protocol):
    """Checks what goes in and what comes out. Safe for many threads and tasks at once."""

    id: str  # its id, for errors and diagnostics

    def check(self, text: str, source: Source) -> Verdict:
        """Assesses a text. May block; the asynchronous driver gives it a thread.

        Args:
            text: The whole text.
            source: `INPUT` for the user's input, `OUTPUT` for answers (and, when asked for, the
                results of actions and searches).

        Raises:
            DependencyFailed: The guardrail cannot be asked; nothing is let through then.
        """


def guardrail_trace(verdict: Verdict, source: Source, trace_id: str) -> dict[str, Any]:
    """A verdict as `GuardrailTrace` of bedrock-agent-runtime, without the `metadata` of its times.

    Bedrock's `trace_id` is `{requestId}-guardrail-pre-0` for input and `-guardrail-post-0` for
    output (recorded).
    """
    trace: dict[str, Any] = {"action": verdict.action, "traceId": trace_id}
    if verdict.assessments:
        member = "inputAssessments" if source == "INPUT" else "outputAssessments"
        trace[member] = [dict(assessment) for assessment in verdict.assessments]
    return trace
