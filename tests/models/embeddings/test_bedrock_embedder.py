"""`BedrockEmbedder` against botocore's Stubber and a loopback server."""

from __future__ import annotations

import io
import json
from typing import Any

import boto3
import numpy as np
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber
from model_servers import aws_error, json_answer

from orchestrator.errors import AccessDenied, DependencyFailed, ThrottlingError, ValidationError
from orchestrator.models.embeddings import BedrockEmbedder

TITAN = "amazon.titan-embed-text-v2:0"
COHERE = "cohere.embed-english-v3"


def answer(value: Any) -> dict[str, Any]:
    data = json.dumps(value).encode()
    return {"body": StreamingBody(io.BytesIO(data), len(data)), "contentType": "application/json"}


def asked(model_id: str, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "modelId": model_id,
        "body": json.dumps(body, separators=(",", ":")).encode(),
        "accept": "application/json",
        "contentType": "application/json",
    }


@pytest.fixture
def stubbed(aws: Any) -> Any:
    client = boto3.client("bedrock-runtime", region_name="eu-central-1")
    with Stubber(client) as stub:
        yield client, stub
        stub.assert_no_pending_responses()


def test_titan_takes_one_text_a_request(stubbed: Any) -> None:
    client, stub = stubbed
    for text, row in (("a", [0.0, 2.0]), ("b", [3.0, 4.0])):
        body = {"inputText": text, "dimensions": 256}
        stub.add_response("invoke_model", answer({"embedding": row}), asked(TITAN, body))
    embedder = BedrockEmbedder(TITAN, dimensions=256, client=client, concurrency=1)
    made = embedder.embed(["a", "b"])
    assert made.dtype == np.float32 and np.allclose(made, [[0, 1], [0.6, 0.8]])
    assert (embedder.id, embedder.dimensions) == (f"{TITAN}:256", 256)


@pytest.mark.parametrize(
    ("model_id", "embeddings", "more"),
    [
        (COHERE, [[0.0, 2.0], [1.0, 0.0]], {}),
        ("us.cohere.embed-v4:0", {"float": [[0.0, 2.0], [1.0, 0.0]]}, {"output_dimension": 256}),
    ],
)
def test_cohere_takes_many_texts_and_never_cuts_them(
    stubbed: Any, model_id: str, embeddings: Any, more: dict[str, int]
) -> None:
    client, stub = stubbed
    body = {"texts": ["a", " "], "input_type": "search_query", "truncate": "NONE", **more}
    stub.add_response("invoke_model", answer({"embeddings": embeddings}), asked(model_id, body))
    embedder = BedrockEmbedder(
        model_id,
        input_type="search_query",
        dimensions=more.get("output_dimension", 0),
        client=client,
    )
    assert np.allclose(embedder.embed(["a", ""]), [[0, 1], [1, 0]])


def test_ninety_six_texts_are_one_batch(stubbed: Any) -> None:
    client, stub = stubbed
    for count in (96, 4):
        stub.add_response("invoke_model", answer({"embeddings": [[1.0, 0.0]] * count}))
    made = BedrockEmbedder(COHERE, client=client, concurrency=1).embed(["a"] * 100)
    assert made.shape == (100, 2)


@pytest.mark.parametrize("value", [{}, [], {"embedding": None}, {"embedding": [[1.0]]}])
def test_an_answer_without_a_vector_is_a_failure(stubbed: Any, value: Any) -> None:
    client, stub = stubbed
    stub.add_response("invoke_model", answer(value))
    with pytest.raises(DependencyFailed, match="titan"):
        BedrockEmbedder(TITAN, client=client).embed(["a"])


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("ValidationException", 400, ValidationError),
        ("AccessDeniedException", 403, AccessDenied),
        ("ThrottlingException", 429, ThrottlingError),
        ("InternalServerException", 500, DependencyFailed),
    ],
)
def test_bedrocks_exceptions_are_errors_of_the_tree(
    aws: Any, serve: Any, code: str, status: int, error: type[Exception]
) -> None:
    server = serve(aws_error(code, "no", status))
    embedder = BedrockEmbedder(TITAN, endpoint_url=server.url, max_attempts=1)
    with pytest.raises(error) as caught:
        embedder.embed(["the secret text"])
    aws.nowhere_in("error", caught.value, repr(caught.value.__context__))
    assert "secret text" not in str(caught.value)


def test_the_region_is_the_arns_and_many_texts_are_asked_at_once(aws: Any, serve: Any) -> None:
    server = serve(json_answer({"embedding": [1.0, 0.0]}))
    arn = f"arn:aws:bedrock:eu-west-1::foundation-model/{TITAN}"
    embedder = BedrockEmbedder(arn, endpoint_url=server.url)
    assert embedder.embed(["x"] * 10).shape == (10, 2)
    assert len(server.asked) == 10
    assert "/eu-west-1/bedrock/" in server.asked[0].headers["authorization"]
    assert embedder.embed([]).shape == (0, 1024)


def test_models_and_lengths_that_there_are_not(aws: Any) -> None:
    with pytest.raises(ValidationError, match="no text embedding model"):
        BedrockEmbedder("anthropic.claude-3-haiku-20240307-v1:0")
    with pytest.raises(ValidationError, match="256, 512, 1024"):
        BedrockEmbedder(TITAN, dimensions=100)
    with pytest.raises(ValidationError, match="1024"):
        BedrockEmbedder(COHERE, dimensions=100)
