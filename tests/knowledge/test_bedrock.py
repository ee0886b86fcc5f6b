"""Bedrock's `Retrieve`: what is sent, pages, errors, and a recording of the real service."""

import json
from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber
from knowledge_support import Service, vector_search

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)
from orchestrator.knowledge import BedrockKnowledgeBase, KnowledgeBase

RECORDING = Path(__file__).resolve().parents[2] / "../shared/golden/retrieve.json"
ID = "ABCDEFGHIJ"


def passage(text, **more):
    return {"content": {"text": text, "type": "TEXT"}, **more}


@pytest.fixture
def stubbed():
    client = boto3.client(
        "bedrock-agent-runtime",
        region_name="eu-central-1",
        aws_access_key_id="x",
        aws_secret_access_key="y",
    )
    with Stubber(client) as stubber:
        yield client, stubber
        stubber.assert_no_pending_responses()


def test_a_query_and_nothing_else(stubbed):
    client, stubber = stubbed
    stubber.add_response(
        "retrieve",
        {"retrievalResults": [passage("a", score=0.5)]},
        {"knowledgeBaseId": ID, "retrievalQuery": {"text": "why?"}},
    )
    base = BedrockKnowledgeBase(ID, "The terms.", client=client)
    assert isinstance(base, KnowledgeBase) and base.description == "The terms."
    assert base.retrieve("why?") == [passage("a", score=0.5)]


def test_a_calls_configuration_wins_member_by_member(stubbed):
    client, stubber = stubbed
    own = vector_search(numberOfResults=3, overrideSearchType="SEMANTIC")
    year = {
        "andAll": [{"equals": {"key": "year", "value": 2026}}, {"in": {"key": "a", "value": ["b"]}}]
    }
    call = vector_search(
        numberOfResults=7,
        filter=year,
        implicitFilterConfiguration={
            "metadataAttributes": [{"key": "year", "type": "NUMBER", "description": "The year."}],
            "modelArn": "anthropic.claude-3-5-sonnet-20240620-v1:0",
        },
        rerankingConfiguration={
            "type": "BEDROCK_RERANKING_MODEL",
            "bedrockRerankingConfiguration": {
                "modelConfiguration": {
                    "modelArn": "arn:aws:bedrock:us-west-2::foundation-model/amazon.rerank-v1:0"
                }
            },
        },
    )
    sent = {"overrideSearchType": "SEMANTIC", **call["vectorSearchConfiguration"]}
    stubber.add_response(
        "retrieve",
        {"retrievalResults": []},
        {
            "knowledgeBaseId": ID,
            "retrievalQuery": {"text": "why?"},
            "retrievalConfiguration": {"vectorSearchConfiguration": sent},
            "guardrailConfiguration": {"guardrailId": "g1", "guardrailVersion": "1"},
        },
    )
    base = BedrockKnowledgeBase(
        ID,
        retrieval_configuration=own,
        guardrail_configuration={"guardrailId": "g1", "guardrailVersion": "1"},
        client=client,
    )
    assert base.retrieve("why?", call) == []
    assert own == vector_search(numberOfResults=3, overrideSearchType="SEMANTIC")


def test_further_pages_are_asked_for_until_there_are_enough(stubbed):
    client, stubber = stubbed
    settings = vector_search(numberOfResults=3)
    asked = {
        "knowledgeBaseId": ID,
        "retrievalQuery": {"text": "q"},
        "retrievalConfiguration": settings,
    }
    first = {"retrievalResults": [passage("a"), passage("b")], "nextToken": "t1"}
    second = {
        "retrievalResults": [passage("c"), passage("d")],
        "nextToken": "t2",
        "guardrailAction": "INTERVENED",
    }
    stubber.add_response("retrieve", first, asked)
    stubber.add_response("retrieve", second, {**asked, "nextToken": "t1"})
    found = BedrockKnowledgeBase(ID, client=client).retrieve("q", settings)
    assert [it["content"]["text"] for it in found] == ["a", "b", "c"]
    assert found.guardrail_action == "INTERVENED"


def test_a_token_that_comes_again_ends_the_pages(stubbed):
    client, stubber = stubbed
    for _ in range(2):
        stubber.add_response("retrieve", {"retrievalResults": [], "nextToken": "t"})
    assert BedrockKnowledgeBase(ID, client=client).retrieve("q") == []


@pytest.mark.parametrize("id", ["", "short", "handbook-2026", "ABCDEFGHIJK", "../etc/pass"])
def test_an_id_is_ten_letters_and_digits(id):
    with pytest.raises(ValidationError, match="ten letters and digits"):
        BedrockKnowledgeBase(id)


def test_a_wrong_filter_is_reported_before_anything_is_sent(stubbed):
    client, _ = stubbed
    base = BedrockKnowledgeBase(ID, client=client)
    with pytest.raises(ValidationError, match="no operator 'like'"):
        base.retrieve("q", vector_search(filter={"like": {"key": "a", "value": "b"}}))
    with pytest.raises(ValidationError, match="no operator 'like'"):
        BedrockKnowledgeBase(ID, retrieval_configuration=vector_search(filter={"like": 1}))


def test_what_botocore_refuses_is_reported_without_the_values(aws):
    base = BedrockKnowledgeBase(ID)
    wrong = vector_search(implicitFilterConfiguration={"modelArn": ["canary"]})
    with pytest.raises(ValidationError, match="cannot be asked that") as caught:
        base.retrieve("q", wrong)
    at = "retrievalConfiguration.vectorSearchConfiguration.implicitFilterConfiguration"
    for name in ("modelArn", "metadataAttributes"):
        assert f"{at}.{name}" in str(caught.value)
    assert "canary" not in str(caught.value)
    with pytest.raises(ValidationError, match="at most 20,000"):
        base.retrieve("x" * 20_001)


@pytest.mark.parametrize(
    ("code", "status", "error", "says"),
    [
        ("ResourceNotFoundException", 404, ResourceNotFound, "no such thing as the knowledge base"),
        ("ValidationException", 400, ValidationError, "refused the request"),
        ("AccessDeniedException", 403, AccessDenied, "bedrock:Retrieve"),
        ("ExpiredTokenException", 403, AccessDenied, "sign in again"),
        ("ConflictException", 409, DependencyFailed, "failed"),
        ("DependencyFailedException", 424, DependencyFailed, "failed"),
        ("ServiceQuotaExceededException", 400, ThrottlingError, "for now"),
        ("InternalServerException", 500, DependencyFailed, "failed"),
    ],
)
def test_errors_are_those_of_the_tree(stubbed, code, status, error, says):
    client, stubber = stubbed
    stubber.add_client_error("retrieve", code, "What the service says.", status)
    with pytest.raises(error, match=says) as caught:
        BedrockKnowledgeBase(ID, client=client).retrieve("canary question")
    assert ("What the service says." in str(caught.value)) == (code != "ExpiredTokenException")
    # What botocore said is printed with the error, and repeats what was sent.
    assert "canary" not in str(caught.value) + repr(caught.value.__context__)


def test_throttling_on_the_wire_is_tried_again(aws, no_waiting):
    throttled = (429, {"code": "ThrottlingException", "message": "slow down"})
    service = Service([throttled, (200, {"retrievalResults": [passage("a")]})])
    with service.running() as url:
        found = BedrockKnowledgeBase(ID, endpoint_url=url).retrieve("q")
    assert found == [passage("a")] and len(no_waiting) == 1 and len(service.asked) == 2


def test_no_region_is_reported(aws, monkeypatch):
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(AccessDenied, match="set AWS_REGION"):
        BedrockKnowledgeBase(ID).retrieve("q")


def test_no_credentials_are_reported(aws, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with Service([(200, {})]).running() as url, pytest.raises(AccessDenied, match="AWS_PROFILE"):
        BedrockKnowledgeBase(ID, endpoint_url=url).retrieve("q")


def test_an_unreachable_service_is_a_failed_dependency(aws, no_waiting):
    with pytest.raises(DependencyFailed, match="could not be reached"):
        BedrockKnowledgeBase(ID, endpoint_url="http://127.0.0.1:1").retrieve("q")


@pytest.mark.skipif(not RECORDING.exists(), reason="the recordings are not here")
def test_the_recorded_search_replays(aws):
    recording = json.loads(RECORDING.read_text())
    service = Service([(200, recording["body"])])
    base_id = recording["path"].split("/")[2]
    with service.running() as url:
        found = BedrockKnowledgeBase(base_id, endpoint_url=url).retrieve(
            recording["request"]["retrievalQuery"]["text"]
        )
    assert found == recording["body"]["retrievalResults"]
    assert service.asked == [(recording["path"], recording["request"])]
