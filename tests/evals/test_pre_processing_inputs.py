"""The inputs of the pre-processing evaluation are held out, and what is right is counted."""

import importlib.util
import json
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.models.example_classifier import (
    EXAMPLES_FILE,
    CategoryExamples,
    ExampleClassifier,
)
from orchestrator.prompts import load_dialect
from orchestrator.testing import FakeEmbedder

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "evals/pre_processing.jsonl").read_text(encoding="utf-8").splitlines()
INPUTS = [json.loads(line) for line in LINES if line]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "evals_pre_processing", ROOT / "evals/pre_processing.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_inputs_are_whole_and_of_all_categories():
    assert len({one["id"] for one in INPUTS}) == len(INPUTS) >= 60
    for one in INPUTS:
        assert set(one) <= {"id", "agent", "category", "asked", "input"}
        assert one["agent"] in ("insurance", "hr")
        assert one["category"] != "E" or one["asked"]
    assert all(Counter(one["category"] for one in INPUTS)[name] >= 12 for name in "ABCDE")


def test_no_input_is_an_example():
    shipped = CategoryExamples.read(*load_dialect("local").read(EXAMPLES_FILE))
    seeds = {text.lower() for some in shipped.texts.values() for text in some}
    assert seeds.isdisjoint(one["input"].lower() for one in INPUTS)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("<thinking>x</thinking><category>D</category>", "D"),
        ("<category> B", "B"),
        ("It is D, I think.", "-"),
        ("", "-"),
    ],
)
def test_the_letter_counts_only_where_the_parser_finds_it(script, text, category):
    assert script._category_of(text) == category


@pytest.mark.exhaustive
def test_every_input_is_asked_and_the_misses_are_counted(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "resolve_embedder", lambda spec: FakeEmbedder(256))
    result = tmp_path / "result.json"
    assert script.main(["--json", str(result), "--min", "1000"]) == 1
    outcomes = json.loads(result.read_text())
    assert [one["id"] for one in outcomes] == [one["id"] for one in INPUTS]
    assert all(one["found"] in "ABCDE" for one in outcomes)
    assert script.main(["--min", "10"]) == 0


def test_the_agents_question_is_in_the_conversation(script, monkeypatch):
    monkeypatch.setattr(script, "resolve_embedder", lambda spec: FakeEmbedder(256))
    asked = script.Asked("hr", "")
    assert isinstance(asked.model, ExampleClassifier)
    request = asked.request("Monday", "From which day on?")
    assert [message["role"] for message in request.messages] == ["user", "assistant", "user"]
    assert "From which day on?" in request.messages[1]["content"][0]["text"]
    assert len(asked.request("Monday", "").messages) == 1
