"""What a model that cannot cite has from which passage: whole turns, and a table of sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stage_support import Snapshots, search
from whole_agents import INSTRUCTION, streamed

from orchestrator import Agent
from orchestrator.engine.plan import Features
from orchestrator.guardrails import LocalGuardrail, Pii
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

PAIRS = Path(__file__).parent / "attribution_pairs"
PASSAGES: dict[str, str] = json.loads((PAIRS / "passages.json").read_text(encoding="utf-8"))
SENTENCES = [
    json.loads(line)
    for line in (PAIRS / "sentences.jsonl").read_text(encoding="utf-8").splitlines()
]
LEAVE = "Everybody who works full time has 28 days of paid leave. Ask your team lead first."
BADGE = "A replacement of the badge costs 15 euros. Visitors are signed in at the reception."
LEAVE_SAID = "You have 28 days of paid leave."


def make(*replies: Any, found: list[str] | None = None, **options: Any) -> Agent:
    base = FakeKnowledgeBase("HANDBOOK01", [LEAVE, BADGE] if found is None else found)
    script = [search(), *(f"<answer>{one}" if isinstance(one, str) else one for one in replies)]
    model = ScriptedModel(script, options.pop("model_id", "local"))
    return Agent("hr", INSTRUCTION, model, knowledge_bases=[base], **options)


def read_sources(reply: Any) -> list[tuple[str, list[str]]]:
    """The cited parts, each of which stands where its span says, and the passages' texts."""
    told = []
    for one in reply.citations:
        part = one["generatedResponsePart"]["textResponsePart"]
        span = part["span"]
        assert reply.text[span["start"] : span["end"] + 1] == part["text"]
        told.append((part["text"], [it["content"]["text"] for it in one["retrievedReferences"]]))
    return told


def test_each_sentence_is_cited_from_the_passage_that_says_it() -> None:
    said = "You have 28 days of paid leave. A replacement badge costs 15 euros. Anything else?"
    reply = make(said).invoke("How much leave, and what does a badge cost?", "s-1")
    assert reply.text == said
    assert read_sources(reply) == [
        ("You have 28 days of paid leave.", [LEAVE]),
        ("A replacement badge costs 15 euros.", [BADGE]),
    ]


def test_neighbouring_sentences_of_one_passage_are_one_part() -> None:
    said = "A replacement badge costs 15 euros.\n\nVisitors are signed in at the reception. Bye."
    reply = make(said).invoke("Badge?", "s-1")
    assert read_sources(reply) == [(said.removesuffix(" Bye."), [BADGE])]


@pytest.mark.parametrize(
    "said",
    [
        "You have 30 days of paid leave.",
        "You have 28 weeks of paid leave.",
        "Nobody who works full time has 28 days of paid leave.",
        "The canteen serves 28 vegan dishes.",
        "Do you want 28 days of paid leave?",
        "Sorry, I found nothing.",
        "28",
    ],
)
def test_what_no_passage_says_is_not_cited(said: str) -> None:
    assert make(said).invoke("Hm?", "s-1").citations == []


def test_a_short_answer_is_about_what_was_asked() -> None:
    asked = make("28 days.").invoke("How many days of paid leave has everybody who works?", "s-1")
    assert read_sources(asked) == [("28 days.", [LEAVE])]
    asked = make("28 days.").invoke("How many days does the warranty of a notebook last?", "s-1")
    assert read_sources(asked) == []


def test_passages_with_the_same_text_are_all_cited() -> None:
    twins = FakeKnowledgeBase("HANDBOOK01", [BADGE])
    found = twins.retrieve("")[0]
    twins.retrieve = lambda *_: [  # type: ignore[method-assign]
        {**found, "location": {"type": "CUSTOM", "customDocumentLocation": {"id": str(number)}}}
        for number in range(9)
    ]
    model = ScriptedModel([search(), "<answer>A replacement badge costs 15 euros."], "local")
    reply = Agent("hr", INSTRUCTION, model, knowledge_bases=[twins]).invoke("Badge?", "s-1")
    (citation,) = reply.citations
    assert len(citation["retrievedReferences"]) == 3


def test_models_that_can_cite_are_left_alone() -> None:
    subject = make("You have 28 days of paid leave.", model_id="amazon.nova-pro-v1:0")
    assert subject.invoke("Leave?", "s-1").citations == []


def test_the_users_own_dialect_may_have_it(tmp_path: Path) -> None:
    folder = tmp_path / "templates" / "mine"
    folder.mkdir(parents=True)
    settings = "extends: tool-use\npatterns: [mine]\nengine_cites: true\n"
    (folder / "dialect.yaml").write_text(settings)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "leave.md").write_text(LEAVE)
    base = {"knowledgeBaseId": "HANDBOOK01", "description": "Leave.", "folder": "documents"}
    definition = {
        "agentName": "hr",
        "foundationModel": "mine",
        "instruction": INSTRUCTION,
        "knowledgeBases": [{**base, "embedder": None}],
    }
    (tmp_path / "agent.yaml").write_text(json.dumps(definition))
    model = ScriptedModel([search("paid leave"), LEAVE_SAID], "mine")
    reply = Agent.load(tmp_path, model=model).invoke("Leave?", "s-1")
    assert read_sources(reply) == [(LEAVE_SAID, [LEAVE])]


@pytest.mark.parametrize("chunk", [1, 7, 0])
def test_a_streamed_answer_has_the_same_citations(chunk: int) -> None:
    said = f"{LEAVE_SAID} A replacement badge costs 15 euros."
    base = FakeKnowledgeBase("HANDBOOK01", [LEAVE, BADGE])
    model = ScriptedModel([search(), f"<answer>{said}"], "local", chunk=chunk)
    subject = Agent("hr", INSTRUCTION, model, knowledge_bases=[base])
    events, error = streamed(subject, "Leave?", "s-1")
    assert error is None
    assert "".join(it.text for it in events if type(it).__name__ == "TextDelta") == said
    assert events[-1].reply.citations == make(said).invoke("Leave?", "s-1").citations != []


def test_a_turn_that_crashed_cites_what_its_journal_found(tmp_path: Path) -> None:
    base, file = FakeKnowledgeBase("HANDBOOK01", [LEAVE]), tmp_path / "sessions.sqlite"
    script: list[Any] = [search(), f"<answer>{LEAVE_SAID}"]
    watched = Snapshots(script, "local", file)
    first = Agent("hr", INSTRUCTION, watched, knowledge_bases=[base], sessions=file)
    whole = first.invoke("Leave?", "s-1")
    forgetful = FakeKnowledgeBase("HANDBOOK01", [])
    left = file.with_name("sessions.sqlite.1")
    model = ScriptedModel(script[1:], "local")
    second = Agent("hr", INSTRUCTION, model, knowledge_bases=[forgetful], sessions=left)
    again = second.invoke("", "s-1")
    assert read_sources(again) == read_sources(whole) == [(LEAVE_SAID, [LEAVE])]


def test_spans_are_of_the_masked_answer() -> None:
    guard = LocalGuardrail(pii=[Pii("EMAIL", "NONE", "ANONYMIZE")])
    found = [f"{BADGE} The badge desk is reached at badge@example.com."]
    said = f"The badge desk is reached at badge@example.com. {BADGE}"
    subject = make(said, found=found, features=Features(guardrail=guard))
    reply = subject.invoke("Badge?", "s-1")
    assert "badge@example.com" not in reply.text
    assert all(text in reply.text for text, _ in read_sources(reply))


def test_any_text_may_stand_in_an_answer() -> None:
    odd = "\U0001f600 e\u0301\u2028 ß İ\r\n\t1. " + LEAVE_SAID + " \u202e" + BADGE + "\ud83d"
    reply = make(odd).invoke("Leave?", "s-1")
    assert [sources for _, sources in read_sources(reply)] == [[LEAVE], [BADGE]]


@pytest.mark.parametrize("passage", ["Leave paid days\n\n。\n\n28", "\n\n", "-", "。\n\n" * 9])
def test_any_text_may_stand_in_a_passage(passage: str) -> None:
    assert make("Leave is paid.", found=[passage]).invoke("Leave?", "s-1").citations == []


def test_only_so_much_of_answers_and_passages_is_compared() -> None:
    said = f"{LEAVE_SAID} {'So it is. ' * 1_000}"
    assert len(read_sources(make(said + LEAVE_SAID).invoke("Leave?", "s-1"))) == 1
    found = ["So it is. " * 5_000, LEAVE]
    assert make(LEAVE_SAID, found=found).invoke("Leave?", "s-1").citations == []


def test_the_table_of_sentences() -> None:
    """Precision and recall on what the threshold was chosen with; see docs/evaluation.md."""
    from orchestrator.engine.attribution import attribute

    right = wrong = missed = 0
    for one in SENTENCES:
        source = {"content": {"text": PASSAGES[one["passage"]]}}
        cited = bool(attribute(one["sentence"], one["question"], {"a": source}))
        right += cited and one["supported"]
        wrong += cited and not one["supported"]
        missed += one["supported"] and not cited
    assert (len(SENTENCES), right, wrong, missed) == (115, 56, 3, 2)
