"""Rerank: documents by how near in meaning they are to a query (Bedrock: agents runtime)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ValidationError
from orchestrator.server.operations import Handler, Request

if TYPE_CHECKING:
    from orchestrator.models.embeddings import Embedder
    from orchestrator.server.state import ServerState


def operations_of_reranking(world: ServerState) -> dict[str, Handler]:
    """Rerank, by what understands meaning in the server's knowledge bases.

    That stands for whichever reranking model a request names.
    """

    @cache
    def embedder() -> Embedder:
        from orchestrator.models import resolve_embedder

        return resolve_embedder(world.embedder)

    return {"Rerank": partial(_rerank, embedder)}


def _rerank(embedder: Any, request: Request) -> Mapping[str, Any]:
    params = request.params
    if "nextToken" in params:
        raise ValidationError("all results are in one answer: there is no page with this nextToken")
    configuration = params["rerankingConfiguration"]["bedrockRerankingConfiguration"]
    texts = [_read_text(source["inlineDocumentSource"]) for source in params["sources"]]
    (query,) = params["queries"]
    scores = _compute_scores(embedder(), query["textQuery"]["text"], texts)
    ranked = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
    wanted = configuration.get("numberOfResults", len(ranked))
    return {
        "results": [{"index": it, "relevanceScore": scores[it]} for it in ranked[:wanted]],
    }


def _read_text(document: Mapping[str, Any]) -> str:
    if document["type"] == "TEXT" and "textDocument" in document:
        return str(document["textDocument"].get("text", ""))
    if document["type"] == "JSON" and "jsonDocument" in document:
        return json.dumps(document["jsonDocument"], ensure_ascii=False)
    raise ValidationError(f"a document of the type {document['type']!r} has no such content")


def _compute_scores(embedder: Embedder, query: str, texts: Sequence[str]) -> list[float]:
    """How near each text is to the query, from 0 to 1."""
    vectors = embedder.embed([query, *texts])
    near = vectors[1:] @ vectors[0]
    return [min(max(float(one), 0.0), 1.0) for one in near]
