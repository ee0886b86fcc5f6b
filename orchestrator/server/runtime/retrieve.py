"""Retrieve and Rerank: what fits a query best, within what a guardrail lets through."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ValidationError
from orchestrator.guardrails import Guardrail
from orchestrator.knowledge.base import search
from orchestrator.server.access.permissions import check_retrieval
from orchestrator.server.document_store import decode_offset, digest, encode_token, is_token
from orchestrator.server.operations import Caller, Handler, Request
from orchestrator.server.wire.shapes import get_converter

if TYPE_CHECKING:
    from orchestrator.models.embeddings import Embedder
    from orchestrator.server.guardrails.store import GuardrailStore
    from orchestrator.server.knowledge_bases.service import KnowledgeBaseService

_RESULTS = "KnowledgeBaseRetrievalResults"
# Characters of the texts in one answer.
_PAGE_CHARS = 1_000_000


def operations_of_knowledge(
    bases: KnowledgeBaseService, guardrails: GuardrailStore, embedder: Embedder | str
) -> dict[str, Handler]:
    """Retrieve, and Rerank by the server's embedder, whichever model a request names."""

    @cache
    def resolve() -> Embedder:
        from orchestrator.models import resolve_embedder

        return resolve_embedder(embedder)

    return {"Retrieve": partial(_retrieve, bases, guardrails), "Rerank": partial(_rerank, resolve)}


def _retrieve(
    bases: KnowledgeBaseService, guardrails: GuardrailStore, request: Request
) -> Mapping[str, Any]:
    params, caller = request.params, request.caller
    base = bases.base(caller, params["knowledgeBaseId"].rpartition("/")[2])
    query = _read_text(params["retrievalQuery"])
    configuration = params.get("retrievalConfiguration")
    check_retrieval(caller, configuration)
    guardrail = find_guardrail(guardrails, caller, params.get("guardrailConfiguration"))
    # A token of a page is good for the same search.
    name = digest({key: it for key, it in params.items() if key != "nextToken"})
    token = params.get("nextToken", "")
    # Notebooks of AWS send "string", which Bedrock takes for none.
    start = decode_offset(token, name) if is_token(token) else 0
    found: Sequence[Mapping[str, Any]] = search(base, query, configuration)
    answer: dict[str, Any] = {}
    if guardrail is not None:
        found, answer["guardrailAction"] = apply_guardrail(guardrail, query, found)
    end = _find_page_end(found, start)
    if end < len(found):
        answer["nextToken"] = encode_token([end], name)
    return {"retrievalResults": get_converter(_RESULTS)(found[start:end]), **answer}


def _read_text(query: Mapping[str, Any]) -> str:
    if query.get("type", "TEXT") != "TEXT" or "image" in query:
        raise ValidationError("a knowledge base of this server is searched by text: give 'text'")
    text = query.get("text")
    if not isinstance(text, str):
        raise ValidationError("the retrievalQuery has no text")
    return text


def _find_page_end(found: Sequence[Mapping[str, Any]], start: int) -> int:
    left, end = _PAGE_CHARS, start
    while end < len(found):
        left -= len(found[end]["content"].get("text") or "")
        if left < 0 and end > start:
            break
        end += 1
    return end


def _rerank(embedder: Callable[[], Embedder], request: Request) -> Mapping[str, Any]:
    params = request.params
    if "nextToken" in params:
        raise ValidationError("all results are in one answer: there is no page with this nextToken")
    configuration = params["rerankingConfiguration"]["bedrockRerankingConfiguration"]
    texts = [_read_document(source["inlineDocumentSource"]) for source in params["sources"]]
    (query,) = params["queries"]
    vectors = embedder().embed([query["textQuery"]["text"], *texts])
    # How near each text is to the query, from 0 to 1.
    scores = [min(max(float(one), 0.0), 1.0) for one in vectors[1:] @ vectors[0]]
    ranked = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
    wanted = configuration.get("numberOfResults", len(ranked))
    return {"results": [{"index": it, "relevanceScore": scores[it]} for it in ranked[:wanted]]}


def _read_document(document: Mapping[str, Any]) -> str:
    if document["type"] == "TEXT" and "textDocument" in document:
        return str(document["textDocument"].get("text", ""))
    if document["type"] == "JSON" and "jsonDocument" in document:
        return json.dumps(document["jsonDocument"], ensure_ascii=False)
    raise ValidationError(f"a document of the type {document['type']!r} has no such content")


_INTERVENED, _NONE = "INTERVENED", "NONE"


def find_guardrail(
    guardrails: GuardrailStore, caller: Caller, configuration: Mapping[str, Any] | None
) -> Guardrail | None:
    """The guardrail that a `guardrailConfiguration` names, if there is one."""
    if not configuration:
        return None
    id, version = configuration["guardrailId"], configuration["guardrailVersion"]
    return guardrails.guardrail(caller, id, version)


def apply_guardrail(
    guardrail: Guardrail, query: str, references: Sequence[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], str]:
    """What a guardrail lets through of what a query has found."""
    if guardrail.check(query, "INPUT").blocked:
        return [], _INTERVENED
    allowed, action = [], _NONE
    for reference in references:
        content = reference["content"]
        verdict = guardrail.check(content.get("text") or "", "OUTPUT")
        if verdict.action == _INTERVENED:
            action = _INTERVENED
            reference = {**reference, "content": {**content, "text": verdict.text}}
        if not verdict.blocked:
            allowed.append(reference)
    return allowed, action
