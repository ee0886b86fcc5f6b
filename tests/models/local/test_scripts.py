"""What scripts can make of the embedded model alone: several choices, and biases of tokens."""

from __future__ import annotations

import pytest

from orchestrator import Flow
from orchestrator.models.local import LocalModel

pytestmark = pytest.mark.local("0.5b")


def said(model: LocalModel, *lines: str) -> str:
    body = ["---", "parameters: {max_tokens: 12, continueOnLengthLimit: false}", "---", *lines]
    return str(Flow.from_text("\n".join(body), "ppe").run(model=model).output)


@pytest.mark.exhaustive
def test_several_choices_cannot_be_wrong(light: LocalModel) -> None:
    for count in (1, 2, 3):
        reply = said(
            light,
            "user: Which colours does a rainbow have?",
            f"assistant: '[[F:|red|green|blue|mud:{count}:minPick={count}]]'",
        )
        found = reply.split(",")
        assert len(set(found)) == count and set(found) <= {"red", "green", "blue", "mud"}


def test_a_word_that_may_never_be_said_is_not(light: LocalModel) -> None:
    question = "user: Say hello to Anna in one short sentence."
    assert said(light, question).startswith("Hello")
    reply = said(light, f"{question} ((!Hello:never)) ((!hello:false))")
    assert reply and "hello" not in reply.lower()


@pytest.mark.exhaustive
def test_a_word_that_is_made_likely_is_said(light: LocalModel) -> None:
    question = "user: Say hello to Anna in one short sentence."
    assert said(light, f"{question} ((!Bonjour:30))").startswith("Bonjour")
    assert said(light, f"{question} ((!Bonjour:0%))") == said(light, question)
