"""What tests of guardrails share."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from control_support import Served

POLICIES: dict[str, Any] = {
    "topicPolicyConfig": {
        "topicsConfig": [
            {
                "name": "Investment advice",
                "definition": "What to buy.",
                "examples": ["which stock"],
                "type": "DENY",
            }
        ]
    },
    "wordPolicyConfig": {"wordsConfig": [{"text": "darn"}]},
    "sensitiveInformationPolicyConfig": {
        "piiEntitiesConfig": [
            {"type": "EMAIL", "action": "ANONYMIZE"},
            {"type": "US_SOCIAL_SECURITY_NUMBER", "action": "BLOCK"},
        ],
        "regexesConfig": [
            {"name": "booking", "pattern": r"\bBK-\d{4}\b", "action": "ANONYMIZE"},
        ],
    },
}
MESSAGES = {
    "blockedInputMessaging": "I cannot talk about this.",
    "blockedOutputsMessaging": "I cannot say that.",
}
FILTERS = {
    "filtersConfig": [{"type": "HATE", "inputStrength": "HIGH", "outputStrength": "HIGH"}],
    "tierConfig": {"tierName": "CLASSIC"},
}


def shown(answer: Any) -> Any:
    """An answer without what is HTTP's, with fixed times."""
    if isinstance(answer, dict):
        return {
            name: 0 if name in ("guardrailProcessingLatency", "latencyMs") else shown(it)
            for name, it in answer.items()
            if name != "ResponseMetadata"
        }
    if isinstance(answer, list):
        return [shown(it) for it in answer]
    return "TIME" if isinstance(answer, datetime) else answer


def create(server: Served, name: str = "banking", **given: Any) -> dict[str, Any]:
    """A new guardrail's id, ARN and version."""
    made: dict[str, Any] = server.client("bedrock").create_guardrail(
        **{"name": name, **POLICIES, **MESSAGES, **given}
    )
    return made


def named(made: dict[str, Any], version: str = "DRAFT", **given: Any) -> dict[str, Any]:
    """The `guardrailConfig` that names a guardrail."""
    return {"guardrailIdentifier": made["guardrailId"], "guardrailVersion": version, **given}
