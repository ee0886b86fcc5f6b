"""Bedrock's `Rerank`: what is sent, and what comes of it."""

import boto3
import pytest
from botocore.stub import Stubber
from knowledge_support import Service, WordEmbedder, names, vector_search

from orchestrator.errors import DependencyFailed, ThrottlingError
from orchestrator.knowledge import BedrockReranker, LocalKnowledgeBase

ARN = "arn:aws:bedrock:us-west-2::foundation-model/amazon.rerank-v1:0"
REFERENCES = [
    {"content": {"text": "one", "type": "TEXT"}, "metadata": {"a": 1, "b": 2}, "score": 0.9},
    {"content": {"text": "two", "type": "TEXT"}, "metadata": {"a": 3, "b": 4}, "score": 0.8},
]


def text_source(text):
    document = {"type": "TEXT", "textDocument": {"text": text}}
    return {"type": "INLINE", "inlineDocumentSource": document}


def json_source(**members):
    return {"type": "INLINE", "inlineDocumentSource": {"type": "JSON", "jsonDocument": members}}


def request(sources, results, **more):
    return {
        "queries": [{"type": "TEXT", "textQuery": {"text": "q"}}],
        "sources": sources,
        "rerankingConfiguration": {
            "type": "BEDROCK_RERANKING_MODEL",
            "bedrockRerankingConfiguration": {
                "modelConfiguration": {"modelArn": ARN, **more},
                "numberOfResults": results,
            },
        },
    }


@pytest.fixture
def stubbed():
    client = boto3.client(
        "bedrock-agent-runtime",
        region_name="us-west-2",
        aws_access_key_id="x",
        aws_secret_access_key="y",
    )
    with Stubber(client) as stubber:
        yield client, stubber
        stubber.assert_no_pending_responses()


def test_the_models_order_and_scores(stubbed):
    client, stubber = stubbed
    answer = {"results": [{"index": 1, "relevanceScore": 0.7}, {"index": 0, "relevanceScore": 0.1}]}
    stubber.add_response("rerank", answer, request([text_source("one"), text_source("two")], 2))
    found = BedrockReranker(ARN, client=client)("q", REFERENCES)
    assert [(it["content"]["text"], it["score"]) for it in found] == [("two", 0.7), ("one", 0.1)]
    assert [it["score"] for it in REFERENCES] == [0.9, 0.8]


@pytest.mark.parametrize(
    ("metadata", "read"),
    [
        ({"selectionMode": "ALL"}, {"a": 1, "b": 2}),
        (
            {
                "selectionMode": "SELECTIVE",
                "selectiveModeConfiguration": {"fieldsToInclude": [{"fieldName": "a"}]},
            },
            {"a": 1},
        ),
        (
            {
                "selectionMode": "SELECTIVE",
                "selectiveModeConfiguration": {"fieldsToExclude": [{"fieldName": "a"}]},
            },
            {"b": 2},
        ),
    ],
)
def test_attributes_that_the_model_reads(stubbed, metadata, read):
    client, stubber = stubbed
    answer = {"results": [{"index": 0, "relevanceScore": 1.0}]}
    sent = request([json_source(text="one", **read)], 1, additionalModelRequestFields={"x": 1})
    stubber.add_response("rerank", answer, sent)
    reranker = BedrockReranker(ARN, results=5, metadata=metadata, fields={"x": 1}, client=client)
    assert len(reranker("q", REFERENCES[:1])) == 1


def test_a_passage_that_was_not_given_is_no_passage(stubbed):
    client, stubber = stubbed
    stubber.add_response("rerank", {"results": [{"index": 7, "relevanceScore": 1.0}]})
    with pytest.raises(DependencyFailed, match="was not given"):
        BedrockReranker(ARN, client=client)("q", REFERENCES)


def test_errors_are_those_of_the_tree(stubbed):
    client, stubber = stubbed
    stubber.add_client_error("rerank", "ThrottlingException", "slow down", 429)
    with pytest.raises(ThrottlingError, match="the reranking model"):
        BedrockReranker(ARN, client=client)("q", REFERENCES)


def test_a_local_knowledge_base_asks_the_configured_model(handbook, aws, monkeypatch):
    answer = {"results": [{"index": 2, "relevanceScore": 0.5}]}
    service = Service([(200, answer)])
    configuration = vector_search(
        numberOfResults=5,
        rerankingConfiguration={
            "type": "BEDROCK_RERANKING_MODEL",
            "bedrockRerankingConfiguration": {
                "numberOfRerankedResults": 1,
                "modelConfiguration": {"modelArn": ARN},
            },
        },
    )
    base = LocalKnowledgeBase(handbook, id="x", embedder=WordEmbedder())
    third = base.retrieve("dog", vector_search(numberOfResults=5))[2]
    with service.running() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME", url)
        found = base.retrieve("dog", configuration)
    assert names(found) == names([third]) and found[0]["score"] == 0.5
    ((path, sent),) = service.asked
    assert path == "/rerank" and len(sent["sources"]) == 5
