"""Pre-processing by the nearest example, with the real embedding model."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from orchestrator.models.embeddings import MiniLM

pytestmark = pytest.mark.local("minilm")

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.exhaustive
def test_the_inputs_of_the_evaluation_are_sorted_as_the_documentation_says(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'knowledge' is not installed")
    MiniLM().load()
    path = ROOT / "evals/pre_processing.py"
    spec = importlib.util.spec_from_file_location("evals_pre_processing_local", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    result = tmp_path / "result.json"
    assert script.main(["--json", str(result), "--min", "93"]) == 0
    outcomes = json.loads(result.read_text())
    rightly = [(one["found"] in "DE") == (one["category"] in "DE") for one in outcomes]
    assert sum(rightly) >= 101
