"""ApplyGuardrail, and InvokeGuardrailChecks as far as no model is needed for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.guardrails import BedrockGuardrail
from orchestrator.guardrails.fold import plain, visible
from orchestrator.guardrails.local import LocalGuardrail
from orchestrator.guardrails.pii import PII_TYPES, find_pii
from orchestrator.server.guardrails.assessment import assess
from orchestrator.server.guardrails.store import GuardrailStore
from orchestrator.server.operations import Request

_NAMED = ("guardrailIdentifier", "guardrailVersion")
_FULL = "FULL"
# Bedrock: a text unit of these checks has up to 1,000 characters.
_UNIT = 1000

Data = Mapping[str, Any]


def apply(guardrails: GuardrailStore, request: Request) -> Data:
    """ApplyGuardrail; of a guardrail of AWS, the answer is AWS's."""
    params = request.params
    served = guardrails.use(request.caller, *(params[name] for name in _NAMED))
    if isinstance(served.guardrail, BedrockGuardrail):
        rest = {name: it for name, it in params.items() if name not in _NAMED}
        answer = served.guardrail.apply(**rest)
        return {name: it for name, it in answer.items() if name != "ResponseMetadata"}
    content = params["content"]
    texts = [it["text"]["text"] for it in content if "text" in it and _is_guarded(it["text"])]
    total = sum(len(it["text"]["text"]) for it in content if "text" in it)
    found = assess(served, params["source"], [texts], total)
    findings = found.findings
    if params.get("outputScope") == _FULL and isinstance(served.guardrail, LocalGuardrail):
        findings = {**findings, **_add_undetected(served.guardrail, findings)}
    outputs: Sequence[str] = ()
    if found.has_findings:
        outputs = found.texts if found.message is None else [found.message]
    return {
        "usage": found.usage,
        "action": "GUARDRAIL_INTERVENED" if found.has_findings else "NONE",
        "actionReason": found.reason,
        "outputs": [{"text": text} for text in outputs],
        "assessments": [findings],
        "guardrailCoverage": _add_images(found.coverage, content),
    }


def _is_guarded(text: Data) -> bool:
    """Whether a text is checked; sources and queries are there for contextual grounding alone."""
    qualifiers = text.get("qualifiers") or ["guard_content"]
    return "guard_content" in qualifiers


def _add_undetected(guardrail: LocalGuardrail, findings: Data) -> dict[str, Any]:
    """The topics, those too that were not found."""
    found = findings.get("topicPolicy", {"topics": []})["topics"]
    names = {it["name"] for it in found}
    rest = [
        {"name": name, "type": "DENY", "action": "NONE", "detected": False}
        for name in guardrail.denied
        if name not in names
    ]
    return {"topicPolicy": {"topics": [*found, *rest]}} if found or rest else {}


def _add_images(coverage: Data, content: Sequence[Data]) -> Data:
    count = sum("image" in it for it in content)
    return {**coverage, "images": {"guarded": 0, "total": count}} if count else coverage


def check(guardrails: GuardrailStore, request: Request) -> Data:
    """InvokeGuardrailChecks for sensitive information, which is found by its form."""
    params = request.params
    checks = params["checks"]
    for name in ("contentFilter", "promptAttack"):
        if name in checks:
            raise ValidationError(
                f"checks.{name} needs a model of Amazon's, which is not here; leave it out"
            )
    if "sensitiveInformation" not in checks:
        raise ValidationError("there are no checks; give sensitiveInformation")
    types = [it["type"] for it in checks["sensitiveInformation"]["entities"]]
    unknown = sorted(set(types) - PII_TYPES)
    if unknown:
        raise ValidationError(
            f"{', '.join(unknown)} cannot be found without a model of Amazon's; leave it out"
        )
    texts = list(_list_texts(params["messages"]))
    found = [entry for type in dict.fromkeys(types) for entry in _find_entities(type, texts)]
    found.sort(key=lambda it: (it["messageIndex"], it["contentIndex"], it["beginOffset"]))
    units = math.ceil(sum(len(text) for _, _, text in texts) / _UNIT)
    return {
        "results": {"sensitiveInformation": {"results": found}},
        "usage": {"sensitiveInformation": {"textUnits": units}},
    }


def _list_texts(messages: Sequence[Data]) -> Iterator[tuple[int, int, str]]:
    for index, message in enumerate(messages):
        for place, block in enumerate(message["content"]):
            yield index, place, block["text"]


def _find_entities(type: str, texts: Sequence[tuple[int, int, str]]) -> Iterator[dict[str, Any]]:
    for index, place, text in texts:
        reading = visible(text)
        for span in find_pii(type, plain(reading.text)):
            begin, end = reading.span(*span)
            yield {
                "type": type,
                # What has the form is taken for it.
                "confidenceScore": 1.0,
                "beginOffset": begin,
                "endOffset": end,
                "messageIndex": index,
                "contentIndex": place,
            }


HANDLERS: Mapping[str, Callable[[GuardrailStore, Request], Data]] = {
    "ApplyGuardrail": apply,
    "InvokeGuardrailChecks": check,
}
