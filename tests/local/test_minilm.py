"""`MiniLM` with its real weights, in onnxruntime and in numpy."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

from orchestrator.models import weights
from orchestrator.models.embeddings import MiniLM
from orchestrator.models.embeddings.minilm import MAX_PIECES

needs_onnx = pytest.mark.local("minilm")
needs_numpy = pytest.mark.local("minilm-fp32")

TEXTS = [
    "",
    "Yes.",
    "Which claims are open at the moment?",
    "Händler in Köln: 3.000 € – naïve café",
    "深圳的天气怎么样？",
    "🚲 stolen on 2026-05-02, ref #A-17/b",
    "def add(a, b):\n    return a + b",
    "The policy holder has to send photos of the damage and an estimate of the repair. " * 6,
    "word " * 400,
]
PASSAGES = [
    "Employees have 27 days of paid leave each year.",
    "Press the red button to stop the conveyor belt.",
    "The refund reaches your account within five working days.",
    "Our office in Lyon is closed on public holidays.",
    "To sign in, enter the code that was sent to your phone.",
    "The warranty does not cover damage by water.",
    "Parcels above 20 kilograms are delivered by a freight company.",
    "Children under six years travel free of charge.",
]
PARAPHRASES = [
    "How much vacation does the staff get per year?",
    "What do I do in an emergency at the assembly line?",
    "When do I get my money back?",
    "Is somebody in the French branch at Easter?",
    "How does the two-step login work?",
    "My phone fell into the pool, will you repair it for nothing?",
    "How do you ship something really heavy?",
    "Does my toddler need a ticket?",
]


def ready(runtime: str) -> MiniLM:
    """The embedder, loaded."""
    pytest.importorskip("tokenizers", reason="the extra 'knowledge' is not installed")
    embedder = MiniLM(runtime=runtime)
    embedder.load()
    return embedder


@pytest.fixture(scope="module")
def onnx() -> MiniLM:
    pytest.importorskip("onnxruntime", reason="the extra 'knowledge' is not installed")
    return ready("onnx")


@pytest.fixture(scope="module")
def in_numpy() -> MiniLM:
    return ready("numpy")


@pytest.fixture(
    params=[
        pytest.param("onnx", marks=needs_onnx),
        pytest.param("in_numpy", marks=needs_numpy),
    ]
)
def either(request: pytest.FixtureRequest) -> MiniLM:
    embedder = request.getfixturevalue(request.param)
    assert isinstance(embedder, MiniLM)
    return embedder


def test_vectors_are_rows_of_length_one(either: MiniLM) -> None:
    made = either.embed(TEXTS)
    assert made.shape == (len(TEXTS), 384) and made.dtype == np.float32
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    assert either.embed([]).shape == (0, 384)


@needs_onnx
@needs_numpy
def test_both_runtimes_give_the_same_vectors(onnx: MiniLM, in_numpy: MiniLM) -> None:
    texts = TEXTS[2:] + PASSAGES + PARAPHRASES
    cosines = (onnx.embed(texts) * in_numpy.embed(texts)).sum(axis=1)
    assert cosines.min() >= 0.999
    (one_word,) = (onnx.embed(["Yes."]) * in_numpy.embed(["Yes."])).sum(axis=1)
    assert one_word >= 0.995  # eight bits are coarser where there is little to average


def test_the_paraphrase_is_nearest(either: MiniLM) -> None:
    similarities = either.embed(PARAPHRASES) @ either.embed(PASSAGES).T
    assert similarities.argmax(axis=1).tolist() == list(range(len(PASSAGES)))


def test_a_vector_does_not_depend_on_the_texts_beside_it(either: MiniLM) -> None:
    together = either.embed(TEXTS)
    alone = np.concatenate([either.embed([text]) for text in TEXTS])
    assert np.array_equal(together, alone)


def test_what_is_beyond_the_models_length_is_told_not_lost_silently(
    either: MiniLM, caplog: pytest.LogCaptureFixture
) -> None:
    long, longer = "word " * 254, "word " * 300
    assert either.count(["", "word", long, longer]) == [2, 3, MAX_PIECES, 302]
    assert either.count(["word " * 1000]) == [1002]
    either.embed([long])
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING):
        cut = either.embed(["short", longer])
    assert "1 of 2 texts are longer than 256 word pieces" in caplog.text
    assert np.array_equal(cut[1], either.embed([long])[0])


def test_half_a_surrogate_pair_is_a_text(either: MiniLM) -> None:
    assert np.array_equal(either.embed(["a \ud800 b"]), either.embed(["a \ufffd b"]))


def test_many_threads_share_one_loaded_model(either: MiniLM) -> None:
    wanted = either.embed(TEXTS)
    others = [MiniLM(runtime=either._runtime) for _ in range(4)]
    made: list[bool] = []

    def embed(one: MiniLM) -> None:
        made.append(bool((one.embed(TEXTS) == wanted).all()))

    threads = [threading.Thread(target=embed, args=(one,)) for one in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [True] * 4
    assert all(one._engine is either._engine for one in others)


def test_the_weights_lie_beside_their_licence(either: MiniLM) -> None:
    file = weights.path("minilm" if either._runtime == "onnx" else "minilm-fp32")
    assert "Apache License" in file.with_name("LICENSE").read_text()
    notice = file.with_name("NOTICE").read_text()
    assert file.name in notice and "tokenizer.json" in notice
