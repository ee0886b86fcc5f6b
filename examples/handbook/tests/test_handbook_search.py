"""The handbook's documents, searched by keywords: no model, no download."""

from pathlib import Path

import pytest

from orchestrator.knowledge import LocalKnowledgeBase

DOCUMENTS = Path(__file__).resolve().parents[1] / "documents"


@pytest.fixture
def handbook():
    return LocalKnowledgeBase(DOCUMENTS, id="handbook", embedder=None)


@pytest.mark.parametrize(
    ("question", "heading"),
    [
        ("What does error VPN-809 mean?", "VPN"),
        ("form EX-14", "Claiming expenses"),
        ("How many days of annual leave are there?", "Annual leave"),
        ("Are dogs allowed?", "Dogs"),
    ],
)
def test_a_question_in_the_handbooks_words(handbook, question, heading):
    first, *_ = handbook.retrieve(question)
    assert first["content"]["text"].split("\n\n")[0].endswith(f"> {heading}")


def test_metadata_narrows_the_search(handbook):
    pay = {"filter": {"equals": {"key": "topic", "value": "pay"}}}
    found = handbook.retrieve("days", {"vectorSearchConfiguration": pay})
    assert {it["metadata"]["x-amz-bedrock-kb-source-uri"] for it in found} == {"money.md"}


def test_every_page_is_read(handbook):
    report = handbook.index()
    assert len(report.added) == 5 and not report.skipped
