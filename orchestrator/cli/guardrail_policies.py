"""Which policies of a guardrail stepped in, of its trace (AWS: `GuardrailTrace`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]


def describe_policies(told: Json) -> tuple[str, bool]:
    """What a guardrail found, and whether it blocked the text or only masked it.

    Values that it found, which may be secret, are not among it.

    Args:
        told: A `guardrailTrace` whose action is `INTERVENED`.

    Returns:
        Such as `in the input: EMAIL, topic 'wages'`, and whether the text was blocked.
    """
    texts, actions = [], set()
    for member, where in (("inputAssessments", "input"), ("outputAssessments", "output")):
        findings = [
            it
            for assessment in told.get(member) or ()
            for it in _findings(assessment)
            if it[1].get("action", "BLOCKED") != "NONE"
        ]
        actions |= {one.get("action", "BLOCKED") for _, one in findings}
        if names := dict.fromkeys(_name(kind, one) for kind, one in findings):
            texts.append(f"in the {where}: {', '.join(names)}")
    return "; ".join(texts), actions != {"ANONYMIZED"}


def _findings(assessment: Json) -> Iterator[tuple[str, Json]]:
    for policy in assessment.values():
        if isinstance(policy, Mapping):
            for kind, found in policy.items():
                if isinstance(found, list):
                    yield from ((kind, one) for one in found if isinstance(one, Mapping))


def _name(kind: str, one: Json) -> str:
    if kind == "topics":
        return f"topic {one.get('name', '')!r}"
    if kind == "customWords":
        return f"word {one.get('match', '')!r}"
    if kind == "regexes":
        return f"expression {one.get('name', '')!r}"
    name = str(one.get("type") or kind)
    confidence = one.get("confidence")
    return f"{name} ({confidence})" if confidence else name
