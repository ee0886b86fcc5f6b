"""Guardrails of Amazon Bedrock, asked through `ApplyGuardrail` (AWS: bedrock-runtime).

Any model can be guarded so, an embedded one too: the text is all that goes to Amazon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.guardrails.base import Source, Verdict
from orchestrator.message import clean
from orchestrator.support.aws import (
    Settings,
    Target,
    get_shared_client,
    region_of,
    translate_errors,
)

# Most characters of one request: the service takes 25 text units, of 1000 characters each.
PIECE_CHARS = 24_000

_SEAM_CHARS = 500  # how much on both sides of a cut is looked at together
_SEARCHED = 2_000  # how far back a cut looks for a good place


class _Answer(NamedTuple):
    blocked: bool
    text: str
    assessments: list[dict[str, Any]]


class BedrockGuardrail:
    """A guardrail of Amazon Bedrock. Safe for many threads at once.

    A text that is too long for one request is checked in pieces, cut between sentences or words,
    and each cut together with the text around it, so that nothing hides at a seam.

    Attributes:
        id: The guardrail's id or ARN.
        version: A number, or `DRAFT`.
        reach: Letters and digits that streaming holds back (`GuardedStream`).
    """

    reach = 200

    def __init__(
        self,
        id: str,
        version: str = "DRAFT",
        *,
        client: Any = None,
        region: str | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        """Names the guardrail; nothing is sent, and boto3 is not loaded, before the first check.

        Args:
            id: The guardrail's id or ARN. An ARN has the region.
            version: A number, or `DRAFT`.
            client: A bedrock-runtime client of boto3 to use.
            region: The AWS region; by default the environment's or the profile's.
            endpoint_url: Another address of the service.
        """
        self.id = id
        self.version = version
        self._client = client
        self._settings = Settings(
            "bedrock-runtime",
            region or region_of(id),
            endpoint_url=endpoint_url,
            max_attempts=5,
            deadline=120.0,
        )
        self._target = Target(
            f"the guardrail {id!r}",
            id,
            "allow bedrock:ApplyGuardrail",
            "`aws bedrock list-guardrails` names those of this region; a version other than DRAFT "
            "must have been made",
            "a local guardrail",
            region=self._settings.region,
        )

    def check(self, text: str, source: Source) -> Verdict:
        """Assesses a text.

        Raises:
            ResourceNotFound: There is no such guardrail, or no such version of it.
            ValidationError: The service refused the request.
            DependencyFailed: The service cannot be reached or failed; its subclasses say why
                (`AccessDenied`, `ThrottlingError`).
        """
        pieces = list(pieces_of(text))
        assessments: list[dict[str, Any]] = []
        allowed: list[str] = []
        for index, piece in enumerate(pieces):
            before = pieces[index - 1][-_SEAM_CHARS:] if index else ""
            answer = self._apply(piece, source)
            seam = self._apply(before + piece[:_SEAM_CHARS], source) if before else answer
            for part in (answer, seam):
                if part.blocked:
                    return Verdict("INTERVENED", part.text, True, [*assessments, *part.assessments])
            assessments += answer.assessments
            allowed.append(answer.text)
            if seam is not answer and (crossing := _find_crossing(seam, before, piece)):
                joined, assessment = _mask_seam(allowed, crossing)
                allowed = [joined]
                assessments.append(assessment)
        action = "INTERVENED" if assessments or "".join(allowed) != text else "NONE"
        return Verdict(action, "".join(allowed), False, assessments)

    def apply(self, **params: Any) -> dict[str, Any]:
        """The service's own answer to a request of ApplyGuardrail.

        Args:
            params: Its parameters, but for the guardrail's id and version.

        Raises:
            OrchestratorError: As `check` does.
        """
        client = self._client or get_shared_client(self._settings, self._target)
        named = {"guardrailIdentifier": self.id, "guardrailVersion": self.version}
        with translate_errors(self._target):
            response: dict[str, Any] = client.apply_guardrail(**named, **params)
        return response

    def _apply(self, text: str, source: Source) -> _Answer:
        if not text.strip():
            return _Answer(False, text, [])
        response = self.apply(source=source, content=[{"text": {"text": clean(text)}}])
        return _read(response, text)


def pieces_of(text: str) -> Iterator[str]:
    """Cuts a text into pieces that fit a request, after a line, a sentence or a word."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = start + PIECE_CHARS
        places = (text.rfind(mark, end - _SEARCHED, end) + len(mark) for mark in ("\n", ". ", " "))
        cut = next((place for place in places if place > end - _SEARCHED), end)
        yield text[start:cut]
        start = cut
    yield text[start:]


def _read(response: Mapping[str, Any], text: str) -> _Answer:
    if response["action"] == "NONE":
        return _Answer(False, text, [])
    outputs = "".join(output.get("text", "") for output in response.get("outputs", ()))
    assessments = response.get("assessments", ())
    actions = set(_actions(assessments))
    # An intervention that nothing explains is taken for a block: the text may not stand.
    blocked = "BLOCKED" in actions or "ANONYMIZED" not in actions
    return _Answer(blocked, outputs, [it for it in map(trace_assessment, assessments) if it])


def _actions(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("action"), str):
            yield value["action"]
        for inner in value.values():
            yield from _actions(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _actions(inner)


# What an agent's trace knows of an assessment. It has no place for contextual grounding, automated
# reasoning, metrics, filter strengths, and for what was detected without an action.
_TRACED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "topicPolicy": {"topics": ("name", "type", "action")},
    "contentPolicy": {"filters": ("type", "confidence", "action")},
    "wordPolicy": {
        "customWords": ("match", "action"),
        "managedWordLists": ("match", "type", "action"),
    },
    "sensitiveInformationPolicy": {
        "piiEntities": ("type", "match", "action"),
        "regexes": ("name", "match", "regex", "action"),
    },
}


def trace_assessment(assessment: Mapping[str, Any]) -> dict[str, Any]:
    """An assessment of `ApplyGuardrail` as `GuardrailAssessment` of bedrock-agent-runtime.

    It is empty when nothing of the assessment was acted on.
    """
    traced: dict[str, Any] = {}
    for policy, lists in _TRACED.items():
        found = assessment.get(policy) or {}
        for name, members in lists.items():
            if items := [
                {member: item[member] for member in members if member in item}
                for item in found.get(name, ())
                if item.get("action", "NONE") != "NONE"
            ]:
                traced.setdefault(policy, {})[name] = items
    return traced


# Texts over a seam, their masks, and their assessment: `{"piiEntities": [...]}`.
Crossing = list[tuple[str, str, dict[str, Any]]]


def _find_crossing(seam: _Answer, before: str, piece: str) -> Crossing:
    # What is masked at a seam and lies on both of its sides; the rest was found in its own piece.
    found: Crossing = []
    around, cut = before + piece[:_SEAM_CHARS], len(before)
    for assessment in seam.assessments:
        policy = assessment.get("sensitiveInformationPolicy", {})
        for name, label in (("piiEntities", "type"), ("regexes", "name")):
            for item in policy.get(name, ()):
                match = item.get("match", "")
                start = around.find(match, max(cut - len(match) + 1, 0))
                if match and 0 <= start < cut:
                    found.append((match, f"{{{item.get(label, 'REGEX')}}}", {name: [item]}))
    return found


def _mask_seam(allowed: list[str], crossing: Crossing) -> tuple[str, dict[str, Any]]:
    joined = "".join(allowed)
    policy: dict[str, Any] = {}
    for match, mask, items in crossing:
        joined = joined.replace(match, mask)
        for name, item in items.items():
            policy.setdefault(name, []).extend(item)
    return joined, {"sensitiveInformationPolicy": policy}
