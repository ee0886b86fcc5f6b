"""Replies of a million characters made to take long: each is read in linear time.

There is no clock here: with a step that takes quadratic time these tests would run for hours.
"""

from __future__ import annotations

import pytest

from orchestrator import parsers

SIZE = 1_000_000
CALL = "<function_calls><invoke><tool_name>g::f</tool_name><parameters>"

REPLIES = {
    "less-than signs": ("", "<"),
    "thinking opened": ("", "<thinking>"),
    "thinking closed": ("", "</thinking>"),
    "thinking pairs": ("", "<thinking></thinking>"),
    "answers opened": ("", "<answer>"),
    "answers closed": ("<thinking></thinking>" * 20_000, "</answer>"),
    "tags begun": ("", "<answer"),
    "attributes": ("", "<answer " + "a" * 250),
    "white space": ("<answer>x", " "),
    "white space between": ("<answer>", "x   "),
    "answers in thinking": ("<thinking>", "<answer>"),
    "calls in thinking": ("<thinking>", "<function_calls>" + " " * 127),
    "calls in the answer": ("<answer>x", "<function_calls> <invok "),
    "parts": ("<answer>", "<answer_part>"),
    "sources": ("<answer>x<sources>", "<source>a"),
    "invokes": ("<function_calls>", "<invoke>"),
    "whole invokes": ("<function_calls>", "<invoke><tool_name>g::f</tool_name></invoke>"),
    "questions": (
        "<function_calls>",
        "<invoke><tool_name>user::askuser</tool_name><parameters><question>Q",
    ),
    "elements opened": (CALL, "<a>"),
    "elements unclosed": (CALL, "<a>1</x>"),
    "elements half nested": (CALL, "<a><a></a>"),
    "sections": (CALL, "<a><![CDATA["),
    "sections in elements": (CALL, "<a><![CDATA[</a>"),
    "section ends": (CALL + "<![CDATA[", "]"),
    "entities": (CALL + "<a>", "&amp;&x;"),
    "declarations": (CALL, "<!DOCTYPE "),
    "brackets": (CALL + "<a>&", "["),
    "other markup": ("", "<__function=f>"),
    "categories": ("", "<category>D"),
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("stage", parsers.STAGES)
def test_a_long_reply_at_once(name: str, stage: str) -> None:
    head, repeated = REPLIES[name]
    parsed = parsers.parse(head + repeated * (SIZE // len(repeated)), stage)
    assert parsed.response["promptType"] == stage
    assert len(parsed.notes) < 50


@pytest.mark.parametrize("name", REPLIES)
def test_a_long_reply_in_many_pieces(name: str) -> None:
    head, repeated = REPLIES[name]
    text = head + repeated * (200_000 // len(repeated))
    parser = parsers.new("auto", "ORCHESTRATION")
    for start in range(0, len(text), 3):
        parser.feed(text[start : start + 3])
    assert parser.finish() == parsers.parse(text)
