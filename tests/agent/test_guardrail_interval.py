"""After how many characters a streamed answer is checked, for one invocation."""

from __future__ import annotations

from typing import Any

import pytest
from inline_support import plain, scripted

from orchestrator.guardrails import Verdict

ANSWER = "word " * 60


class Counting:
    """A guardrail that lets everything through, and counts what it checked."""

    id = "counting"
    reach = 0

    def __init__(self) -> None:
        self.checked = 0

    def check(self, text: str, source: str) -> Verdict:
        self.checked += source == "OUTPUT"
        return Verdict("NONE", text)


def checks(**options: Any) -> int:
    guardrail = Counting()
    model = scripted(f"<answer>{ANSWER}</answer>")
    model._chunk = 5
    events = list(plain(model, guardrail=guardrail).stream("Hi", "s-1", **options))
    assert events[-1].reply.text == ANSWER.strip()
    return guardrail.checked


@pytest.mark.parametrize("form", ["option", "streamingConfigurations"])
def test_the_interval_of_the_invocation_counts(form: str) -> None:
    def of(interval: int) -> dict[str, Any]:
        if form == "option":
            return {"apply_guardrail_interval": interval}
        return {form: {"applyGuardrailInterval": interval, "streamFinalResponse": True}}

    assert checks(**of(10)) > checks() > checks(**of(10_000))
    assert checks(**of(50)) == checks()
