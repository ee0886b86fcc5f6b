"""What `LocalModel` says when something is missing; needs no weights."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from test_gguf import CHATML, model

from orchestrator.errors import DependencyFailed, ModelNotReady, ResourceNotFound, ValidationError
from orchestrator.message import Message
from orchestrator.models import weights
from orchestrator.models.base import ModelRequest
from orchestrator.models.local import LocalModel

ASKED = ModelRequest("ORCHESTRATION", "", [Message("user", [{"text": "Hi"}])])


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ORCHESTRATOR_MODELS", str(tmp_path))
    return tmp_path


def test_nothing_is_downloaded_without_being_asked(empty: Path) -> None:
    local = LocalModel()
    assert local.model_id == f"local:{weights.DEFAULT}"
    with pytest.raises(ModelNotReady, match=f"orchestrator models pull {weights.DEFAULT}"):
        local.complete(ASKED)
    assert list(empty.iterdir()) == []


def test_the_light_model_stands_in_and_says_so(
    empty: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = weights.place(weights.find("light"))
    file.parent.mkdir(parents=True)
    with file.open("wb") as sparse:
        sparse.truncate(weights.find("light").size)
    with caplog.at_level(logging.WARNING):
        assert LocalModel().model_id == f"local:{weights.LIGHT}"
    assert "using the light model" in caplog.text
    caplog.clear()
    assert LocalModel("light").model_id == f"local:{weights.LIGHT}"
    assert LocalModel("1.5b").model_id == f"local:{weights.DEFAULT}"
    assert caplog.text == ""


def test_unknown_names_and_files_are_refused_at_once(empty: Path) -> None:
    with pytest.raises(ResourceNotFound, match="no embedded model 'gpt'"):
        LocalModel("gpt")
    with pytest.raises(ResourceNotFound, match=r"gone\.gguf"):
        LocalModel(empty / "gone.gguf")


def test_a_file_that_is_no_model_is_refused(empty: Path) -> None:
    (empty / "x.gguf").write_text("no model")
    with pytest.raises(ValidationError, match=r"x\.gguf"):
        LocalModel(empty / "x.gguf").load()


def test_without_the_runtime_the_extra_is_named(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty / "x.gguf").write_bytes(model(CHATML))
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    local = LocalModel(empty / "x.gguf")
    assert local.model_id == "local:x.gguf"
    with pytest.raises(ModelNotReady, match=r"bedrock-orchestrator\[local\]"):
        local.load()


def test_a_model_that_cannot_be_loaded_is_reported(empty: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    (empty / "x.gguf").write_bytes(model(CHATML))
    with pytest.raises(DependencyFailed, match="cannot be loaded"):
        LocalModel(empty / "x.gguf").load()
