"""Rerank over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from orchestrator.testing import FakeEmbedder

ARN = "arn:aws:bedrock:us-west-2::foundation-model/amazon.rerank-v1:0"
TEXTS = ["dogs may come along", "vacation days are paid", "vacation days that are left"]


def rerank(server: Any, most: int | None = None, **params: Any) -> list[dict[str, Any]]:
    configuration: dict[str, Any] = {"modelConfiguration": {"modelArn": ARN}}
    if most is not None:
        configuration["numberOfResults"] = most
    documents: list[dict[str, Any]] = [
        {"type": "TEXT", "textDocument": {"text": text}} for text in TEXTS
    ]
    documents.append({"type": "JSON", "jsonDocument": {"title": "vacation days left"}})
    answer = server.client.rerank(
        queries=[{"type": "TEXT", "textQuery": {"text": "vacation days left"}}],
        sources=[{"type": "INLINE", "inlineDocumentSource": it} for it in documents],
        rerankingConfiguration={
            "type": "BEDROCK_RERANKING_MODEL",
            "bedrockRerankingConfiguration": configuration,
        },
        **params,
    )
    return list(answer["results"])


def test_the_nearest_first(start: Any) -> None:
    server = start([], embedder=FakeEmbedder())
    results = rerank(server)
    assert [it["index"] for it in results] == [3, 2, 1, 0]
    scores = [it["relevanceScore"] for it in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert rerank(server, most=2) == results[:2]


def test_there_are_no_further_pages(start: Any) -> None:
    with pytest.raises(ClientError) as caught:
        rerank(start([], embedder=FakeEmbedder()), nextToken="x")
    assert caught.value.response["Error"]["Code"] == "ValidationException"
