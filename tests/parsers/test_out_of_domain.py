"""Nova says `outOfDomain(reason)` of requests that are none of its business."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import parsers
from orchestrator.parsers.calls import OUT_OF_DOMAIN

USE = {"toolUseId": "t-1", "name": "outOfDomain", "input": {"reason": "No poems."}}


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("It is no claim.</thinking>\noutOfDomain(reason='No poems.')", "No poems."),
        ('outOfDomain("No poems.")', "No poems."),
        ("outOfDomain(No poems.)", "No poems."),
        ("outOfDomain()", OUT_OF_DOMAIN),
        ("I said outOfDomain(reason='x') before.", "I said outOfDomain(reason='x') before."),
        ([{"text": "It is no claim.</thinking>"}, {"toolUse": USE}], "No poems."),
    ],
)
def test_the_reason_is_the_answer(reply: Any, text: str) -> None:
    parsed = parsers.parse(reply, "ORCHESTRATION", "tool_use")
    details = parsed.response["orchestrationParsedResponse"]["responseDetails"]
    assert (details["invocationType"], details["agentFinalResponse"]["responseText"]) == (
        "FINISH",
        text,
    )
