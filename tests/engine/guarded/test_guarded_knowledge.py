"""Streams of guarded answers from knowledge bases, and what citations of them hold."""

from __future__ import annotations

from typing import Any

import pytest
from guarded_support import BLOCKED, MASK, SECRET, Watching, kinds, prompt_texts, sound
from whole_agents import BOTH, INSTRUCTION, XML, Family, answer, live_parts, streamed

from orchestrator import Agent
from orchestrator.engine.decisions import source_ids
from orchestrator.engine.plan import Features
from orchestrator.guardrails import LocalGuardrail, Pii
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

SEARCH = ("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "q"})


def cited(base: FakeKnowledgeBase, *texts: str) -> str:
    (source,) = source_ids(base.retrieve(""), {})
    parts = "".join(
        f"<answer_part><text>{text}</text><sources><source>{source}</source></sources></answer_part>"
        for text in texts
    )
    return f"<answer>{parts}</answer>"


def shown(events: list[Any]) -> str:
    return "".join(event.text for event in events if type(event).__name__ == "TextDelta")


@BOTH
@pytest.mark.parametrize("chunk", [1, 3, 17])
@pytest.mark.parametrize("shortcut", [False, True])
def test_a_stream_shows_what_the_last_verdict_allows(
    family: Family, chunk: int, shortcut: bool
) -> None:
    base = FakeKnowledgeBase("HANDBOOK01", ["Rules."])
    for texts, text in (
        ((f"Ask {SECRET}.", "Before April."), f"Ask {MASK}. Before April."),
        (("Fine so far.", "Now the bomb."), BLOCKED),
    ):
        script = [cited(base, *texts)]
        model = family.model(script if shortcut else [family.calls(SEARCH), *script], chunk=chunk)
        compat = ("single_knowledge_base",) if shortcut else ()
        features = Features(guardrail=Watching(), guard_interval=5, aws_compat=compat)
        subject = Agent("hr", INSTRUCTION, model, knowledge_bases=[base], features=features)
        events, error = streamed(subject, "q", "s-1")
        assert error is None
        reply = events[-1].reply
        assert reply.text == text
        assert shown(events).endswith(text)
        assert SECRET not in shown(events) and "bomb" not in shown(events)
        assert kinds(live_parts(events)) == kinds(sound(reply))
        for one in reply.citations:
            part = one["generatedResponsePart"]["textResponsePart"]
            span = part["span"]
            assert reply.text[span["start"] : span["end"] + 1] == part["text"]
        assert len(reply.citations) == (text != BLOCKED)


def test_citations_hold_passages_as_they_were_found() -> None:
    base = FakeKnowledgeBase("HANDBOOK01", [f"Ask {SECRET}."])
    model = XML.model([XML.calls(SEARCH), cited(base, "Ask Ana.")])
    features = Features(guardrail=Watching(), guard_results=True)
    subject = Agent("hr", INSTRUCTION, model, knowledge_bases=[base], features=features)
    reply = subject.invoke("q", "s-1")
    assert SECRET not in prompt_texts(model)
    (one,) = reply.citations
    assert one["retrievedReferences"][0]["content"]["text"] == f"Ask {SECRET}."


@pytest.mark.parametrize("blocked", [False, True])
def test_a_blocked_passage_is_not_cited(blocked: bool) -> None:
    said = "The store opens at nine in the morning."
    base = FakeKnowledgeBase("HANDBOOK01", [f"{said} {'Ask for the bomb.' * blocked}".strip()])
    call = {"name": "GET__x_amz_knowledgebase_HANDBOOK01__Search", "input": {"searchQuery": "q"}}
    script: list[Any] = [[{"toolUse": {"toolUseId": "t-1", **call}}]]
    script += [] if blocked else ["<answer>It opens at nine.</answer>"]
    features = Features(guardrail=Watching(), guard_results=True)
    subject = Agent(
        "hr",
        INSTRUCTION,
        ScriptedModel([*script, f"<answer>{said}"], "local"),
        knowledge_bases=[base],
        features=features,
        prompts={"KNOWLEDGE_BASE_RESPONSE_GENERATION": {"promptState": "ENABLED"}},
    )
    reply = subject.invoke("When?", "s-1")
    assert (reply.text, len(reply.citations)) == (said, not blocked)


@pytest.mark.parametrize("chunk", [1, 4, 9, 64])
def test_a_local_guardrail_in_a_whole_turn(chunk: int) -> None:
    guardrail = LocalGuardrail(
        words=["darn it"],
        pii=[Pii("EMAIL", "ANONYMIZE", "ANONYMIZE"), Pii("PHONE", "NONE", "ANONYMIZE")],
        blocked_outputs_messaging=BLOCKED,
    )
    said = "Mail ana@example.com or call +49 170 1234567. " * 5
    script = [answer(said), answer("Well. " * 60 + "Darn   IT all. " + "So. " * 60)]
    model = XML.model(script, chunk=chunk)
    subject = Agent("hr", INSTRUCTION, model, guardrail=guardrail)
    events, error = streamed(subject, "I am bob@example.com", "s-1")
    assert error is None
    assert shown(events) == ("Mail {EMAIL} or call {PHONE}. " * 5).strip()
    events, error = streamed(subject, "And?", "s-1")
    assert error is None
    assert events[-1].reply.text == BLOCKED
    assert "darn" not in shown(events).lower()
    assert shown(events).count(BLOCKED) == 1 and shown(events).endswith(BLOCKED)
    assert "@example.com" not in prompt_texts(model) and "170" not in prompt_texts(model)
