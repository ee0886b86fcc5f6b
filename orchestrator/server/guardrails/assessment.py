"""Texts that a guardrail checks, and its assessment in the words of `bedrock-runtime`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from orchestrator.guardrails import Source, Verdict
from orchestrator.server.guardrails.store import ServedGuardrail

# Bedrock: a text unit has up to 1,000 characters.
_UNIT = 1000
_UNITS = (
    *("topicPolicyUnits", "contentPolicyUnits", "wordPolicyUnits"),
    *("sensitiveInformationPolicyUnits", "sensitiveInformationPolicyFreeUnits"),
    "contextualGroundingPolicyUnits",
)
# The lists that each policy of an assessment has to have.
_LISTS = {
    "topicPolicy": ("topics",),
    "contentPolicy": ("filters",),
    "wordPolicy": ("customWords", "managedWordLists"),
    "sensitiveInformationPolicy": ("piiEntities", "regexes"),
}
# Bedrock's words for what a guardrail did (recorded).
BLOCKED, MASKED, PASSED = "Guardrail blocked.", "Guardrail masked.", "No action."

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a guardrail says of some texts that belong together."""

    message: str | None  # what is said in their place, when they are blocked
    texts: list[str]  # what may stand in the place of each: the text, or the text with its masks
    findings: dict[str, Any]  # `GuardrailAssessment`, with the metrics of the check
    usage: dict[str, int]  # `GuardrailUsage`
    coverage: dict[str, Any]  # `GuardrailCoverage`
    has_findings: bool  # whether anything was blocked or masked

    @property
    def reason(self) -> str:
        """Bedrock's `actionReason`."""
        if self.message is not None:
            return BLOCKED
        return MASKED if self.has_findings else PASSED


def assess(
    served: ServedGuardrail,
    source: Source,
    groups: Sequence[Sequence[str]],
    total: int | None = None,
) -> Assessment:
    """Checks texts, each by itself and those of a group as one: nothing hides at their seams.

    Args:
        served: The guardrail.
        source: `INPUT` or `OUTPUT`.
        groups: The texts, those that are read one after the other in one group.
        total: The characters that were sent, when some of them are not checked.

    Raises:
        OrchestratorError: The guardrail cannot be asked.
    """
    start = monotonic()
    check = served.guardrail.check
    texts = [text for group in groups for text in group]
    verdicts = [check(text, source) for text in texts]
    joined = ["\n".join(group) for group in groups if len(group) > 1]
    if not any(it.blocked for it in verdicts):
        verdicts += [it for it in (check(text, source) for text in joined) if it.blocked]
    length = sum(map(len, texts))
    usage = _count_usage(served, length)
    coverage = {"textCharacters": {"guarded": length, "total": length if total is None else total}}
    metrics = {
        "guardrailProcessingLatency": int((monotonic() - start) * 1000),
        "guardrailCoverage": coverage,
        # What one of AWS costs, only AWS knows.
        **({"usage": usage} if served.arn else {}),
    }
    blocked = next((it.text for it in verdicts if it.blocked), None)
    intervened = any(it.action == "INTERVENED" for it in verdicts)
    findings = {**_merge(verdicts), **_describe(served), "invocationMetrics": metrics}
    # Those of the groups are more than there are texts.
    pairs = zip(verdicts, texts, strict=False)
    allowed = [it.text if it.action == "INTERVENED" else text for it, text in pairs]
    return Assessment(blocked, allowed, findings, usage, coverage, intervened)


def _count_usage(served: ServedGuardrail, length: int) -> dict[str, int]:
    counted = getattr(served.guardrail, "policies", ())
    units = math.ceil(length / _UNIT)
    return {name: units if name in counted else 0 for name in _UNITS}


def _describe(served: ServedGuardrail) -> dict[str, Any]:
    if not served.arn:
        return {}
    return {
        "appliedGuardrailDetails": {
            "guardrailId": served.id,
            "guardrailVersion": served.version,
            "guardrailOrigin": ["REQUEST"],
            "guardrailOwnership": "SELF",
        }
    }


def _merge(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The findings of all verdicts in one assessment, each of them once."""
    merged: dict[str, dict[str, list[Any]]] = {}
    for verdict in verdicts:
        for assessment in verdict.assessments:
            for policy, lists in assessment.items():
                target = merged.setdefault(policy, {name: [] for name in _LISTS[policy]})
                for name, items in lists.items():
                    found = ({**item, "detected": True} for item in items)
                    target[name] += [item for item in found if item not in target[name]]
    return merged
