"""`MiniLM` with its real weights."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from orchestrator.models import weights
from orchestrator.models.embeddings import MiniLM
from orchestrator.models.embeddings.minilm import MAX_PIECES

pytestmark = pytest.mark.local("minilm")

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


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    """The embedder, loaded."""
    pytest.importorskip("onnxruntime", reason="the extra 'knowledge' is not installed")
    embedder = MiniLM()
    embedder.load()
    return embedder


def test_vectors_are_rows_of_length_one(minilm: MiniLM) -> None:
    made = minilm.embed(TEXTS)
    assert made.shape == (len(TEXTS), 384) and made.dtype == np.float32
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    assert minilm.embed([]).shape == (0, 384)


def test_the_paraphrase_is_nearest(minilm: MiniLM) -> None:
    similarities = minilm.embed(PARAPHRASES) @ minilm.embed(PASSAGES).T
    assert similarities.argmax(axis=1).tolist() == list(range(len(PASSAGES)))


def test_a_vector_does_not_depend_on_the_texts_beside_it(minilm: MiniLM) -> None:
    together = minilm.embed(TEXTS)
    alone = np.concatenate([minilm.embed([text]) for text in TEXTS])
    assert np.array_equal(together, alone)


def test_what_is_beyond_the_models_length_is_logged_not_lost_silently(
    minilm: MiniLM, caplog: pytest.LogCaptureFixture
) -> None:
    long, longer = "word " * 254, "word " * 300
    assert minilm.count(["", "word", long, longer]) == [2, 3, MAX_PIECES, 302]
    assert minilm.count(["word " * 1000]) == [1002]
    minilm.embed([long])
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING):
        cut = minilm.embed(["short", longer])
    assert "1 of 2 texts are longer than 256 word pieces" in caplog.text
    assert np.array_equal(cut[1], minilm.embed([long])[0])


def test_half_a_surrogate_pair_is_a_text(minilm: MiniLM) -> None:
    assert np.array_equal(minilm.embed(["a \ud800 b"]), minilm.embed(["a \ufffd b"]))


def test_many_threads_share_one_loaded_model(minilm: MiniLM) -> None:
    wanted = minilm.embed(TEXTS)
    others = [MiniLM() for _ in range(4)]
    made: list[bool] = []

    def embed(one: MiniLM) -> None:
        made.append(bool((one.embed(TEXTS) == wanted).all()))

    threads = [threading.Thread(target=embed, args=(one,)) for one in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [True] * 4
    assert all(one._engine is minilm._engine for one in others)


def test_the_weights_lie_beside_their_licence(minilm: MiniLM) -> None:
    file = weights.path("minilm")
    assert "Apache License" in file.with_name("LICENSE").read_text()
    notice = file.with_name("NOTICE").read_text()
    assert file.name in notice and "tokenizer.json" in notice


def test_the_library_reports_nothing_to_its_maker(tmp_path: Path) -> None:
    program = 'from orchestrator.models.embeddings import MiniLM; MiniLM().embed(["x"])'
    quiet = ("CI", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")  # in CI it is silent anyway
    environment = {name: value for name, value in os.environ.items() if name not in quiet}
    environment |= {"HOME": str(tmp_path), "ORCHESTRATOR_MODELS": str(weights.folder())}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
    assert [*tmp_path.rglob("*")] == []
