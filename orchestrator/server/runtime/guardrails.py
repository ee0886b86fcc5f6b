"""Guardrails that a request names, over what is found or said in its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.guardrails import BedrockGuardrail, Guardrail
from orchestrator.server.access.permissions import check_access
from orchestrator.server.operations import Caller

_INTERVENED, _NONE = "INTERVENED", "NONE"


def find_guardrail(caller: Caller, configuration: Mapping[str, Any] | None) -> Guardrail | None:
    """The guardrail of Amazon Bedrock that a `guardrailConfiguration` names, if there is one.

    Raises:
        AccessDenied: The caller may not use it.
    """
    if not configuration:
        return None
    id = configuration["guardrailId"]
    check_access(caller, id)
    return BedrockGuardrail(id, configuration["guardrailVersion"])


def apply_guardrail(
    guardrail: Guardrail, query: str, references: Sequence[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], str]:
    """What a guardrail lets through of what a query has found.

    Args:
        guardrail: The guardrail.
        query: What was looked for; when it is blocked, nothing has been found.
        references: Bedrock's retrieved references.

    Returns:
        The references, masked where it wants that and without those that it blocks; and Bedrock's
        `guardrailAction`.

    Raises:
        DependencyFailed: The guardrail cannot be asked.
    """
    if guardrail.check(query, "INPUT").blocked:
        return [], _INTERVENED
    kept, action = [], _NONE
    for reference, intervened in _check_references(guardrail, references):
        if intervened:
            action = _INTERVENED
        if reference is not None:
            kept.append(reference)
    return kept, action


def _check_references(
    guardrail: Guardrail, references: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any] | None, bool]]:
    for reference in references:
        content = reference["content"]
        verdict = guardrail.check(content.get("text") or "", "OUTPUT")
        if verdict.action != _INTERVENED:
            yield reference, False
        elif verdict.blocked:
            yield None, True
        else:
            yield {**reference, "content": {**content, "text": verdict.text}}, True
