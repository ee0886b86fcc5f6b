"""What a reply can mean to a turn: calls, a refusal, an end that came too early, citations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.engine.results import Refusal
from orchestrator.errors import ModelOutputError
from orchestrator.message import text_of
from orchestrator.sessions.journal import Record
from orchestrator.sessions.responses import response_of


def source_ids(
    references: Sequence[Mapping[str, Any]], known: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Gives each reference a short id for the model to cite, unlike those known in the turn.

    The service uses random tokens of four letters; these are made from the references. So a turn
    that is run again, or whose model's replies were recorded, has the same prompts; and what was
    cited in an earlier turn is not taken for something else in this one. Scores have no part in
    it: their last digits are others on another machine.
    """
    found: dict[str, dict[str, Any]] = {}
    taken = {id: _without_score(it) for id, it in known.items()}
    for reference in references:
        plain = _without_score(reference)
        digest = hashlib.sha256(json.dumps(plain, default=str, skipkeys=True).encode()).hexdigest()
        ids = [digest[:size] for size in range(4, 65)]
        id = next((one for one in ids if taken.get(one, plain) == plain), digest)
        found[id], taken[id] = dict(reference), plain
    return found


def _without_score(reference: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in reference.items() if name != "score"}


def cite(
    parts: Sequence[Mapping[str, Any]], sources: Mapping[str, dict[str, Any]], answer: str
) -> list[dict[str, Any]]:
    """Bedrock's citations of an answer whose parts (`generatedResponseParts`) name their sources.

    Each part that has a known source has one, with the part's span in `answer`; `end` is the last
    character's index, as the service counts. A part that does not stand there, which only other
    people's parsers write, has its place among the parts joined by blanks.
    """
    citations = []
    texts = [part.get("text") or "" for part in parts]
    found = find_parts(texts, answer, missing_take_room=True)
    for part, text, (start, _) in zip(parts, texts, found, strict=True):
        ids = [reference.get("sourceId") for reference in part.get("references") or ()]
        known = [sources[id] for id in ids if id in sources]
        if known:
            span = {"start": start, "end": max(start + len(text) - 1, start)}
            response = {"textResponsePart": {"text": text, "span": span}}
            citations.append({"generatedResponsePart": response, "retrievedReferences": known})
    return citations


def realign_citations(citations: Sequence[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    """The citations that hold for another text of the answer: masked, or post-processed.

    Those stay whose words still stand in the text in the same order, with their spans in it.
    """
    kept = []
    cited = [read_cited_text(citation) for citation in citations]
    for citation, words, (start, stands) in zip(
        citations, cited, find_parts(cited, text), strict=True
    ):
        if not stands or not words:
            continue
        span = {"start": start, "end": start + len(words) - 1}
        response = {"textResponsePart": {"text": words, "span": span}}
        kept.append({**citation, "generatedResponsePart": response})
    return kept


def read_cited_text(citation: Mapping[str, Any]) -> str:
    """The part of an answer that a citation is of."""
    text: str = citation["generatedResponsePart"]["textResponsePart"]["text"]
    return text


def find_parts(
    parts: Iterable[str], answer: str, *, missing_take_room: bool = False
) -> Iterator[tuple[int, bool]]:
    """Where the parts of an answer begin, each behind the one before it, and whether it is there.

    A part that is not there has its place behind the one before it; with `missing_take_room` the
    next one is looked for behind that place and a blank.
    """
    position = 0
    for part in parts:
        found = answer.find(part, position)
        start = position if found < 0 else found
        yield start, found >= 0
        if found >= 0:
            position = start + len(part)
        elif missing_take_room:
            position = start + len(part) + 1


REFUSAL = "Sorry, I am unable to assist you with this request."
"""What a user reads when the input was refused (recorded from the service)."""

NO_ANSWER = frozenset({"guardrail_intervened", "content_filtered", "model_context_window_exceeded"})
"""Stop reasons whose text is no answer of the model, whatever it looks like."""

_CUT = {
    "max_tokens": "the model reached `maximumLength` before its answer: raise it",
    "model_context_window_exceeded": "the conversation no longer fits the model's context window",
}


@dataclass(slots=True, eq=False, repr=False)
class Act:
    """Carry out calls, then ask the user when there is a question."""

    # `actionGroupInvocations` of the parser's object
    actions: Sequence[dict[str, Any]] = ()
    searches: Sequence[dict[str, Any]] = ()  # its `agentKnowledgeBases`
    question: str = ""  # what to ask the user; may be empty
    # Messages to collaborators: its `agentCollaboratorInvocations`
    messages: Sequence[dict[str, Any]] = ()
    # Native calls of actions as the model made them (`toolUse`), where there is nothing else
    uses: Sequence[dict[str, Any]] = ()


def find_refusal(record: Record) -> Refusal | None:
    """The refusal that a guardrail or filter of the provider made of a reply, if one did."""
    stop = record["stop"]
    if stop in ("guardrail_intervened", "content_filtered"):
        return Refusal(_extract_streamed_text(record) or REFUSAL, stop)
    return None


def _extract_streamed_text(record: Record) -> str:
    # What was streamed of the reply, and no thinking or calls: only a parser can tell them apart.
    response = response_of(record)
    if parsed := response.get("orchestrationParsedResponse"):
        final = (parsed.get("responseDetails") or {}).get("agentFinalResponse") or {}
        return str(final.get("responseText") or "")
    if parsed := response.get("postProcessingParsedResponse"):
        return str(parsed.get("responseText") or "")
    text = text_of(record["content"]).strip()  # of a classification, which has no answer
    return "" if "<" in text else text


def find_truncation(record: Record) -> ModelOutputError | None:
    """The error of a reply that ended too early, if it did."""
    stop: str = record["stop"]
    if stop not in _CUT:
        return None
    raw = text_of(record["content"])
    return ModelOutputError(f"{_CUT[stop]} (stop reason {stop!r})", code=stop, raw=raw)
