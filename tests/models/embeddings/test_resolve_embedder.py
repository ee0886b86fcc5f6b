"""Specs of embedders; nothing is connected or loaded."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.models import resolve_embedder
from orchestrator.models.embeddings import (
    BedrockEmbedder,
    Embedder,
    MiniLM,
    OpenAIEmbedder,
)
from orchestrator.testing import FakeEmbedder


@pytest.mark.parametrize(
    ("spec", "kind", "id"),
    [
        ("local", MiniLM, "all-minilm-l6-v2"),
        ("minilm", MiniLM, "all-minilm-l6-v2"),
        ("local:minilm", MiniLM, "all-minilm-l6-v2"),
        (" all-minilm-l6-v2 ", MiniLM, "all-minilm-l6-v2"),
        ("openai:text-embedding-3-small", OpenAIEmbedder, "openai:text-embedding-3-small"),
        ("openai:nomic@http://127.0.0.1:11434/v1", OpenAIEmbedder, "openai:nomic"),
        ("amazon.titan-embed-text-v2:0", BedrockEmbedder, "amazon.titan-embed-text-v2:0"),
        ("eu.cohere.embed-v4:0", BedrockEmbedder, "eu.cohere.embed-v4:0"),
        (
            "arn:aws:bedrock:us-east-1::foundation-model/amazon.titan-embed-text-v1",
            BedrockEmbedder,
            "arn:aws:bedrock:us-east-1::foundation-model/amazon.titan-embed-text-v1",
        ),
    ],
)
def test_specs(spec: str, kind: type, id: str) -> None:
    embedder = resolve_embedder(spec)
    assert isinstance(embedder, kind) and isinstance(embedder, Embedder)
    assert embedder.id == id


@pytest.mark.parametrize("spec", ["", "gpt", "local:0.5b", "0.5b", "anthropic.claude-v2"])
def test_models_that_embed_nothing(spec: str) -> None:
    with pytest.raises(ResourceNotFound, match="'local'"):
        resolve_embedder(spec)


@pytest.mark.parametrize("spec", [None, 5, "openai:", "openai:@http://x/v1", "openai:m@x/v1"])
def test_what_is_no_spec(spec: str) -> None:
    with pytest.raises(ValidationError):
        resolve_embedder(spec)


def test_an_embedder_is_taken_as_it_is() -> None:
    fake = FakeEmbedder()
    assert resolve_embedder(fake) is fake


def test_the_fake_knows_words_and_is_the_same_everywhere() -> None:
    fake = FakeEmbedder(32)
    made = fake.embed(["open claims", "Claims, open!", "weather in Rome", ""])
    assert made.shape == (4, 32) and made.dtype == np.float32
    assert np.allclose(np.linalg.norm(made, axis=1), 1)
    assert made[0] @ made[1] > 0.999 > made[0] @ made[2]
    assert np.flatnonzero(made[0]).tolist() == [3, 6]
    assert fake.texts[0] == "open claims"
