"""The rationale of a reply: thinking, a model's reasoning, or the text before a decision."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import parsers

THOUGHT = {"reasoningContent": {"reasoningText": {"text": " It is 2.\n", "signature": "s"}}}
SECRET = {"reasoningContent": {"redactedContent": "AAAA"}}
CALL = {"toolUse": {"toolUseId": "t-1", "name": "shop__get_price", "input": {"item": "pen"}}}
XML = "<function_calls><invoke><tool_name>shop::get_price</tool_name></invoke>"


@pytest.mark.parametrize(
    ("reply", "rationale"),
    [
        # Recorded of Claude 3 Haiku: without <thinking>, the text before a call or an answer.
        (f"To answer, I need the price.\n\n{XML}", "To answer, I need the price."),
        ("I have it now.\n<answer>3 euros.", "I have it now."),
        # Recorded: with <thinking> only its inside counts.
        (f"First. <thinking>\nI look.\n</thinking> Then. {XML}", "I look."),
        # Recorded: an answer alone has none, nor has a text without tags.
        ("<answer>3 euros.", ""),
        ("3 euros.", ""),
        # A malformed call has one, too (recorded).
        ("Let me look.\n<function_calls><invoke><tool_name>price</tool_name>", "Let me look."),
        # Recorded of gpt-oss: a reasoning model's thought, which is no text of the reply.
        ([THOUGHT, {"text": "<answer>2"}], "It is 2."),
        ([THOUGHT, SECRET, {"text": "2"}], "It is 2."),
        ([THOUGHT, {"text": "I add."}, CALL], "It is 2."),
        ([THOUGHT, {"text": "<thinking>I add.</thinking>"}, CALL], "I add."),
        ([{"text": "I look it up."}, CALL], "I look it up."),
        ([CALL], ""),
    ],
)
def test_the_rationale(reply: Any, rationale: str) -> None:
    for name in ("auto", "tool_use") if isinstance(reply, list) else ("auto", "xml"):
        parsed = parsers.parse(reply, "ORCHESTRATION", name)
        assert parsed.response["orchestrationParsedResponse"]["rationale"] == rationale


def test_streaming_changes_nothing() -> None:
    parser = parsers.new("xml", "ORCHESTRATION")
    for piece in ("I have", " it now.\n<ans", "wer>3 euros."):
        parser.feed(piece)
    parsed = parser.finish([{"text": "I have it now.\n<answer>3 euros."}])
    assert parsed.response["orchestrationParsedResponse"]["rationale"] == "I have it now."
