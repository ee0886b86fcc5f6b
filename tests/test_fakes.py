"""The fakes of `orchestrator.testing` are what the seams ask for."""

from __future__ import annotations

import botocore_shapes
import pytest

from orchestrator.guardrails import GuardedStream, Guardrail, guardrail_trace
from orchestrator.knowledge import KnowledgeBase
from orchestrator.testing import FakeGuardrail, FakeKnowledgeBase


def test_a_knowledge_base_remembers_how_it_was_asked() -> None:
    base = FakeKnowledgeBase("HANDBOOK01", ["Rules.", "More rules."], "The handbook.")
    assert isinstance(base, KnowledgeBase)
    three = {"vectorSearchConfiguration": {"numberOfResults": 3}}
    assert [it["content"]["text"] for it in base.retrieve("q")] == ["Rules.", "More rules."]
    assert base.retrieve("r", three) == base.retrieve("s")
    assert (base.queries, base.configurations) == (["q", "r", "s"], [None, three, None])


@pytest.mark.parametrize(
    ("text", "action", "stands", "blocked"),
    [
        ("Hello.", "NONE", "Hello.", False),
        ("I am Ana, Ana B.", "INTERVENED", "I am {NAME}, {NAME} B.", False),
        ("A bomb of Ana's", "INTERVENED", "No.", True),
    ],
)
def test_a_guardrail_blocks_and_masks(text: str, action: str, stands: str, blocked: bool) -> None:
    guardrail = FakeGuardrail(["bomb"], {"Ana": "NAME"}, message="No.")
    assert isinstance(guardrail, Guardrail)
    verdict = guardrail.check(text, "INPUT")
    assert (verdict.action, verdict.text, verdict.blocked) == (action, stands, blocked)
    assert guardrail.checked == [("INPUT", text)]
    trace = guardrail_trace(verdict, "INPUT", "r-guardrail-pre-0")
    assert botocore_shapes.problems({"trace": {"guardrailTrace": trace}}) == []
    assert ("inputAssessments" in trace) == (action == "INTERVENED")


def test_a_masked_word_is_never_shown_in_part() -> None:
    guardrail = FakeGuardrail([], {"Ana Belle": "NAME"})
    stream = GuardedStream(
        lambda text: guardrail.check(text, "OUTPUT"), 1, reach=guardrail.reach, bounded=True
    )
    shown = [stream.feed(letter) for letter in "Ask Ana Belle or Ana."]
    assert "".join(shown) + stream.finish() == "Ask {NAME} or Ana."
    assert not any("Belle" in piece for piece in shown)
