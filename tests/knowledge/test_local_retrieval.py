"""The embedded model searches a folder: meaning first, and words where they say more."""

from pathlib import Path

import pytest

from orchestrator.knowledge import LocalKnowledgeBase

pytestmark = pytest.mark.local("minilm")

DOCUMENTS = Path(__file__).resolve().parents[2] / "examples" / "handbook" / "documents"


@pytest.fixture(scope="module")
def handbook():
    base = LocalKnowledgeBase(DOCUMENTS, id="handbook")
    base.index()
    return base


@pytest.mark.parametrize(
    ("question", "heading"),
    [
        ("May I take my puppy to the office?", "Dogs"),
        ("I have lost my notebook on the train", "Lost or stolen devices"),
        ("Can holidays that I did not use be kept?", "Carrying days over"),
        ("SW-REQ", "Installing software"),
        ("CC-3", "Company card"),
    ],
)
def test_the_right_passage_comes_first(handbook, question, heading):
    first, *_ = handbook.retrieve(question)
    assert first["content"]["text"].split("\n\n")[0].endswith(f"> {heading}")


def test_every_passage_is_short_enough_for_the_model(handbook):
    whole = [it.content.whole for it in handbook.store.read()]
    assert max(handbook.embedder.count(whole)) <= 256
