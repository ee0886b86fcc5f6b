"""Replies of half a million characters made to take long: each is read in linear time.

There is no clock here: with a step that takes quadratic time these tests would run for hours.
"""

from __future__ import annotations

import pytest
from left_out import sampled

from orchestrator import parsers

SIZE = 500_000
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
    "function calls": ("", "<function_call>g::f(a=1)</function_call>"),
    "function calls opened": ("", "<function_call>g::f("),
    "function calls begun": ("<answer>", "<function_call>" + "a" * 127),
    "arguments": ("<function_call>g::f(", 'a="1", '),
    "arguments without values": ("<function_call>g::f(", "a=,"),
    "quotes": ("<function_call>g::f(a=", '"'),
    "quotes and commas": ("<function_call>g::f(a=", '",'),
    "quotes and names": ("<function_call>g::f(a=", '", ' + "b" * 256),
    "quotes and white space": ("<function_call>g::f(a=", '"' + " " * 128),
    "escapes": ("<function_call>g::f(a=", '\\"'),
    "backslashes": ("<function_call>g::f(a='", "\\"),
    "equal signs": ("<function_call>g::f(", "= "),
    "names": ("<function_call>g::f(", "a"),
    "commas": ("<function_call>g::f(", ", "),
    "fnCalls": ("", "<fnCall>{"),
    "fnCall objects": ("<fnCall>", '{"a":'),
    "fnCall lists": ("<fnCall>[", "{},"),
    "messages": (
        "<function_calls>",
        "<invoke><tool_name>AgentCommunication::sendMessage</tool_name><parameters>"
        "<recipient>User</recipient><content>Q</content></invoke>",
    ),
    "routes": ("", "<a>x</a>"),
    "routes opened": ("", "<a>"),
    "topics": ("<summary>", "<topic name='a'>x"),
    "topics opened": ("", "<topic name='" + "a" * 500),
    "summaries": ("", "<summary>"),
    "summaries closed": ("x", "</summary>"),
}


@pytest.mark.parametrize("name", sampled(REPLIES, 8))
@pytest.mark.parametrize("stage", parsers.STAGES)
def test_a_long_reply_at_once(name: str, stage: str) -> None:
    head, repeated = REPLIES[name]
    parsed = parsers.parse(head + repeated * (SIZE // len(repeated)), stage)
    assert parsed.response["promptType"] == stage
    assert len(parsed.notes) < 50


@pytest.mark.parametrize("name", sampled(REPLIES, 8))
def test_a_long_reply_in_many_pieces(name: str) -> None:
    head, repeated = REPLIES[name]
    text = head + repeated * (200_000 // len(repeated))
    for parser_name in ("auto", "function_call"):
        parser = parsers.new(parser_name, "ORCHESTRATION")
        for start in range(0, len(text), 7):
            parser.feed(text[start : start + 7])
        assert parser.finish() == parsers.parse(text, name=parser_name)


def test_notes_of_many_calls_are_bounded() -> None:
    call = '<invoke><tool_name>g::f</tool_name><parameters>{"a": 1}</parameters></invoke>'
    parsed = parsers.parse(f"<function_calls>{call * 50}</function_calls>")
    assert len(parsed.notes) == 20
