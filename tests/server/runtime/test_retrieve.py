"""Retrieve over HTTP: boto3's client searches a knowledge base of the server."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from model_servers import aws_error

from orchestrator.guardrails import BedrockGuardrail, Verdict
from orchestrator.server.runtime import retrieve

QUERY = {"text": "vacation days"}
BASE = "HANDBOOK01"


def search(server: Any, **params: Any) -> dict[str, Any]:
    given = {"knowledgeBaseId": BASE, "retrievalQuery": QUERY, **params}
    found: dict[str, Any] = server.client.retrieve(**given)
    return found


def names(answer: dict[str, Any]) -> list[str]:
    results = answer["retrievalResults"]
    return [it["location"]["customDocumentLocation"]["id"] for it in results]


def code_of(caught: Any) -> str:
    return str(caught.value.response["Error"]["Code"])


def test_passages(start: Any, handbook: Any) -> None:
    answer = search(start([], handbook))
    assert sorted(names(answer)) == ["days.md", "dogs.md", "pay.md"]
    first = answer["retrievalResults"][0]
    assert first["content"]["type"] == "TEXT"
    assert 0 < first["score"] <= 1
    assert first["metadata"]["about"] in ("days", "dogs", "pay")
    assert "nextToken" not in answer
    assert "guardrailAction" not in answer


def test_the_arn_of_a_knowledge_base(start: Any, handbook: Any) -> None:
    arn = f"arn:aws:bedrock:us-east-1:000000000000:knowledge-base/{BASE}"
    assert search(start([], handbook), knowledgeBaseId=arn)["retrievalResults"]


def test_how_to_search(start: Any, handbook: Any) -> None:
    server = start([], handbook)

    def searched(**members: Any) -> list[str]:
        return names(search(server, retrievalConfiguration={"vectorSearchConfiguration": members}))

    assert len(searched(numberOfResults=1)) == 1
    assert searched(filter={"equals": {"key": "about", "value": "dogs"}}) == ["dogs.md"]
    both = {"orAll": [{"equals": {"key": "about", "value": it}} for it in ("dogs", "pay")]}
    assert sorted(searched(filter=both)) == ["dogs.md", "pay.md"]
    assert len(searched(overrideSearchType="HYBRID")) == 3
    with pytest.raises(ClientError) as caught:
        searched(overrideSearchType="SEMANTIC")
    assert code_of(caught) == "ValidationException"


def test_pages(start: Any, handbook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieve, "_PAGE_CHARS", 10)
    server = start([], handbook)
    whole = []
    for page in server.client.get_paginator("retrieve").paginate(
        knowledgeBaseId=BASE, retrievalQuery=QUERY
    ):
        whole += names(page)
    assert sorted(whole) == ["days.md", "dogs.md", "pay.md"]
    token = search(server)["nextToken"]
    with pytest.raises(ClientError) as caught:
        search(server, retrievalQuery={"text": "another"}, nextToken=token)
    assert code_of(caught) == "ValidationException"


@pytest.mark.parametrize("token", ["string", "next", "e30", "WzEsMl0"])
def test_what_is_no_token_is_taken_for_none(start: Any, handbook: Any, token: str) -> None:
    """Notebooks of AWS send "string"."""
    server = start([], handbook)
    results = search(server, nextToken=token)["retrievalResults"]
    assert results == search(server)["retrievalResults"]
    assert len(results) == 3


@pytest.mark.usefixtures("missing_in_aws")
def test_no_such_knowledge_base(start: Any, handbook: Any) -> None:
    with pytest.raises(ClientError) as caught:
        search(start([], handbook), knowledgeBaseId="NOBODY0000")
    assert code_of(caught) == "ResourceNotFoundException"


@pytest.mark.parametrize("code", ["UnrecognizedClientException", "ExpiredTokenException"])
def test_nobodys_account_has_no_knowledge_base(
    start: Any, handbook: Any, serve: Any, aws: Any, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    service = serve(aws_error(code, "The security token is invalid.", 403))
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME", service.url)
    with pytest.raises(ClientError, match="no knowledge base 'NOBODY0000' here") as caught:
        search(start([], handbook), knowledgeBaseId="NOBODY0000")
    assert code_of(caught) == "ResourceNotFoundException"


def test_an_image_and_an_empty_text(start: Any, handbook: Any) -> None:
    server = start([], handbook)
    image = {"type": "IMAGE", "image": {"format": "png", "inlineContent": b"x"}}
    for query in (image, {"text": " "}, {}):
        with pytest.raises(ClientError) as caught:
            search(server, retrievalQuery=query)
        assert code_of(caught) == "ValidationException"


GUARDRAIL = {"guardrailId": "abc123", "guardrailVersion": "1"}


@pytest.fixture
def guarding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guardrails of AWS mask "thirty", block "Dogs", and let nobody ask for bombs."""

    def check(self: BedrockGuardrail, text: str, source: str) -> Verdict:
        if "bomb" in text or "Dogs" in text:
            return Verdict("INTERVENED", "No.", True)
        if "thirty" in text:
            return Verdict("INTERVENED", text.replace("thirty", "{NUMBER}"))
        return Verdict(text=text)

    monkeypatch.setattr(BedrockGuardrail, "check", check)


@pytest.mark.usefixtures("guarding")
def test_a_guardrail_reads_what_is_found(start: Any, handbook: Any) -> None:
    server = start([], handbook)
    answer = search(server, guardrailConfiguration=GUARDRAIL)
    assert answer["guardrailAction"] == "INTERVENED"
    assert sorted(names(answer)) == ["days.md", "pay.md"]
    texts = " ".join(it["content"]["text"] for it in answer["retrievalResults"])
    assert "{NUMBER} vacation days" in texts
    pay = {"filter": {"equals": {"key": "about", "value": "pay"}}}
    untouched = search(
        server,
        guardrailConfiguration=GUARDRAIL,
        retrievalConfiguration={"vectorSearchConfiguration": pay},
    )
    assert untouched["guardrailAction"] == "NONE"
    blocked = search(server, guardrailConfiguration=GUARDRAIL, retrievalQuery={"text": "bomb"})
    assert (blocked["retrievalResults"], blocked["guardrailAction"]) == ([], "INTERVENED")
