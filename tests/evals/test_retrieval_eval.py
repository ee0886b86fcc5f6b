"""The evaluation of retrieval: its questions have answers in the pages, and it can be failed."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.knowledge import LocalKnowledgeBase

ROOT = Path(__file__).resolve().parents[2]


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


run = load("evals_retrieval", ROOT / "evals/retrieval/run.py")
QUESTIONS = run.load_questions()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    run.copy_pages(folder)
    base = LocalKnowledgeBase(folder, id="pages", embedder=None)
    base.index()
    return base


def test_there_are_sixty_questions_of_three_kinds():
    assert Counter(it["kind"] for it in QUESTIONS) == {"words": 15, "paraphrase": 30, "code": 15}
    assert len({it["question"] for it in QUESTIONS}) == 60


def test_the_corpus_is_large_enough_and_has_every_answer(pages):
    assert pages.store.size() >= 200
    assert run.missing(QUESTIONS, pages) == []


def test_keywords_alone_find_what_is_asked_in_the_pages_words(pages):
    own = [it for it in QUESTIONS if it["kind"] != "paraphrase"]
    assert run.ask("keywords", pages, own).hit(3) >= 0.8


def test_a_question_without_its_passage_is_a_miss(pages):
    result = run.ask("keywords", pages, [{"question": "form EX-14", "expect": ["nowhere.md"]}])
    assert (result.ranks, result.hit(3), result.mrr) == ([0], 0.0, 0.0)


def test_ranks_become_figures():
    result = run.Result("hybrid", [1, 2, 0, 4])
    assert (result.hit(1), result.hit(3), result.mrr) == (0.25, 0.5, (1 + 0.5 + 0.25) / 4)
