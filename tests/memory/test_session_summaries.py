"""Summaries: made of topics, bounded, told to models as data and to callers as Bedrock does."""

from __future__ import annotations

import json

import pytest
from botocore.parsers import create_parser
from botocore_shapes import problems, service

from orchestrator.memory import (
    SessionSummary,
    build_summary,
    memory_contents,
    summary_text,
    to_prompt_summaries,
)
from orchestrator.memory.summaries import DAY, MAX_PROMPTED, MAX_SUMMARY

NOW = 1_755_127_258_141_453_390
TOPICS = [
    {"topic": "Order 1042", "summary": "It arrives on Thursday."},
    {"topic": "", "summary": "The user is called Ana."},
]


def kept(session="s-1", text="Ana likes tea.", expires=NOW + DAY):
    return SessionSummary("ana", session, NOW, expires, [], text)


def test_a_summary_is_made_of_its_topics():
    made = build_summary("ana", "s-1", TOPICS, started=NOW - 5, now=NOW, storage_days=7)
    assert made == SessionSummary(
        "ana", "s-1", NOW - 5, NOW + 7 * DAY, TOPICS, summary_text(TOPICS)
    )
    assert made.text == "Order 1042: It arrives on Thursday.\nThe user is called Ana."


@pytest.mark.parametrize("topics", [[], [{"topic": "Nothing", "summary": ""}], [{}]])
def test_without_topics_the_reply_itself_is_kept(topics):
    made = build_summary(
        "ana", "s-1", topics, started=1, now=1, text="<thinking>Hm.</thinking> Ana likes tea. "
    )
    assert (made.topics, made.text) == ([], "Ana likes tea.")


def test_topics_that_are_none_are_left_out():
    topics = [None, "Nothing", 7, ["topic", "summary"], TOPICS[0]]
    made = build_summary("ana", "s-1", topics, started=1, now=1)
    assert (made.topics, made.text) == ([TOPICS[0]], summary_text([TOPICS[0]]))


def test_a_summary_is_bounded():
    topics = [{"topic": str(number), "summary": "x" * 15_000} for number in range(5)]
    made = build_summary("ana", "s-1", topics, started=1, now=1)
    assert sum(len(it["topic"]) + len(it["summary"]) for it in made.topics) <= MAX_SUMMARY
    assert len(made.topics) == 2 and len(made.text) <= MAX_SUMMARY
    assert len(build_summary("a", "s", [], started=1, now=1, text="x" * 10**6).text) == MAX_SUMMARY


def test_what_a_prompt_is_told_is_bounded_and_the_newest_counts():
    many = [kept(f"s-{number}", "x" * 9_999 + str(number)) for number in range(9)]
    told = to_prompt_summaries(many)
    assert sum(len(it["text"]) for it in told) <= MAX_PROMPTED
    assert [it["text"][-1] for it in told] == ["0", "1", "2", "3", "4", "5"]
    assert len(to_prompt_summaries([kept(text="x" * (MAX_PROMPTED + 1))])) == 1
    assert to_prompt_summaries([]) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("<thinking>noise</thinking><answer>Thursday.</answer>", "Thursday."),
        ("<thinking>noise</thinking>\n<answer>Thursday.", "Thursday."),
        ("Thursday.<thinking>noise", "Thursday."),
        ("<answer><answer_part><text>Thursday.</text><sources><source>noise</source></sources>"
         "</answer_part></answer>", "Thursday."),
        ("Wait.<function_calls><invoke>noise</invoke></function_calls>", "Wait."),
        ("<function_call>noise", ""),
        ("<function_results><result>noise</result></function_results>", ""),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        (" <b>bold</b> ", "<b>bold</b>"),
    ],
)  # fmt: skip
def test_a_reply_is_kept_without_noise(said, told):
    assert build_summary("ana", "s-1", [], started=1, now=1, text=said).text == told


def test_memory_contents_are_bedrocks():
    contents = memory_contents([kept(), kept("s-2", expires=None)])
    assert problems({"memoryContents": contents}, "GetAgentMemoryResponse") == []
    shape = service().operation_model("GetAgentMemory").output_shape
    body = json.dumps({"memoryContents": contents}).encode()
    parsed = create_parser("rest-json").parse(
        {"body": body, "headers": {}, "status_code": 200}, shape
    )
    first, second = (it["sessionSummary"] for it in parsed["memoryContents"])
    assert first["sessionExpiryTime"] - first["sessionStartTime"] == (
        first["sessionExpiryTime"].resolution * 86_400_000_000
    )
    assert (first["memoryId"], first["sessionId"], first["summaryText"]) == (
        *("ana", "s-1"),
        "Ana likes tea.",
    )
    assert "sessionExpiryTime" not in second
    assert contents[0]["sessionSummary"]["sessionStartTime"] == "2025-08-13T23:20:58.141453390Z"
