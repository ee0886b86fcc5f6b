"""What `MiniLM` says when something is missing; needs no weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orchestrator.errors import DependencyFailed, ModelNotReady, ResourceNotFound
from orchestrator.models import LocalModel, weights
from orchestrator.models.embeddings import MiniLM


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ORCHESTRATOR_MODELS", str(tmp_path))
    return tmp_path


def put(name: str) -> Path:
    """Files of the right sizes, and the stamps of files that were verified."""
    found = weights.find(name)
    for file in found.files:
        target = weights.place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as sparse:
            sparse.truncate(file.size)
        stamp = target.with_name(target.name + ".verified")
        stamp.write_text(f"{file.sha256} {file.size} {target.stat().st_mtime_ns}\n")
    return weights.place(found)


def test_nothing_is_downloaded_without_being_asked(empty: Path) -> None:
    with pytest.raises(ModelNotReady, match="orchestrator models pull all-minilm-l6-v2"):
        MiniLM().embed(["a"])
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("module", ["onnxruntime", "numpy", "tokenizers"])
def test_a_library_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    put("minilm")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModelNotReady, match=r"bedrock-orchestrator\[knowledge\]"):
        MiniLM().load()


def test_files_that_are_no_model_are_refused() -> None:
    tokenizer = put("minilm").with_name("tokenizer.json")
    with pytest.raises(DependencyFailed, match="cannot be loaded"):
        MiniLM().load()
    assert tokenizer.is_file()


def test_half_of_the_files_is_not_the_model(empty: Path) -> None:
    put("minilm").with_name("tokenizer.json").unlink()
    (listed,) = [one for one in weights.available() if one.weights.name == weights.EMBEDDING]
    assert listed.path is None
    with pytest.raises(ModelNotReady, match="models pull"):
        MiniLM().load()


def test_an_embedding_model_answers_no_questions() -> None:
    with pytest.raises(ResourceNotFound, match="cannot answer"):
        LocalModel("minilm")
