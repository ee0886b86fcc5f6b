"""`OpenAIEmbedder` against a loopback server."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from model_servers import Answer, json_answer

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    OrchestratorError,
    ResourceNotFound,
    ValidationError,
)
from orchestrator.models import openai as http
from orchestrator.models.embeddings import OpenAIEmbedder


def vectors(*rows: list[float]) -> Answer:
    data = [{"index": n, "object": "embedding", "embedding": row} for n, row in enumerate(rows)]
    return json_answer({"object": "list", "data": data[::-1], "model": "m", "usage": {}})


def at(server: Any, **options: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder("nomic", f"{server.url}/v1/", api_key="sk-1", **options)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_sleep", lambda seconds: None)


def test_texts_go_out_in_batches_and_unit_vectors_come_back_in_their_order(serve: Any) -> None:
    server = serve(vectors([3, 4], [0, 2]), vectors([-5, 0]))
    embedder = at(server, batch=2)
    assert (embedder.id, embedder.dimensions) == ("openai:nomic", 0)
    made = embedder.embed(["a", "", "c"])
    assert made.dtype == np.float32
    assert np.allclose(made, [[0.6, 0.8], [0, 1], [-1, 0]])
    assert embedder.dimensions == 2
    assert [asked.path for asked in server.asked] == ["/v1/embeddings"] * 2
    assert [asked.json for asked in server.asked] == [
        {"model": "nomic", "input": ["a", " "]},
        {"model": "nomic", "input": ["c"]},
    ]
    assert server.asked[0].headers["authorization"] == "Bearer sk-1"


def test_a_shorter_vector_is_asked_for_and_named(serve: Any) -> None:
    server = serve(vectors([1, 0]))
    embedder = at(server, dimensions=2)
    assert (embedder.id, embedder.dimensions) == ("openai:nomic:2", 2)
    embedder.embed(["a"])
    assert server.asked[0].json["dimensions"] == 2


def test_no_texts_ask_nothing(serve: Any) -> None:
    server = serve(vectors())
    assert at(server, dimensions=5).embed([]).shape == (0, 5)
    assert server.asked == []


def test_openais_own_models_have_known_dimensions() -> None:
    assert OpenAIEmbedder("text-embedding-3-small").dimensions == 1536


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"data": None},
        {"data": []},
        {"data": [{"index": 0}]},
        {"data": [{"index": 0, "embedding": "AAAA"}]},
        {"data": [{"index": 0, "embedding": [[1.0]]}]},
        {"data": [{"index": 0, "embedding": [1.0, None]}]},
        {"data": [{"index": 0, "embedding": [1e39, 1.0]}]},
        {"choices": []},
    ],
)
def test_an_answer_without_vectors_is_a_failure(serve: Any, value: Any) -> None:
    with pytest.raises(DependencyFailed, match="nomic"), np.errstate(all="ignore"):
        at(serve(json_answer(value))).embed(["a"])


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ValidationError),
        (401, AccessDenied),
        (404, ResourceNotFound),
        (500, DependencyFailed),
    ],
)
def test_each_status_has_its_error(serve: Any, status: int, error: type[OrchestratorError]) -> None:
    refusal = json_answer({"error": {"message": "no"}}, status)
    with pytest.raises(error):
        at(serve(refusal), max_attempts=2).embed(["a"])


def test_a_busy_server_is_asked_again(serve: Any) -> None:
    server = serve(json_answer({"error": {"message": "later"}}, 429), vectors([1, 0]))
    assert at(server).embed(["a"]).shape == (1, 2)
    assert len(server.asked) == 2


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(DependencyFailed, match="is the server running there"):
        OpenAIEmbedder("nomic", "http://127.0.0.1:9/v1").embed(["a"])


def test_half_a_surrogate_pair_and_one_text_for_many(serve: Any) -> None:
    server = serve(vectors([1, 0]))
    at(server).embed(["\ud800"])
    assert json.loads(server.asked[0].body)["input"] == ["\ufffd"]
    with pytest.raises(ValidationError, match=r"embed\(\[text\]\)"):
        at(server).embed("a")
