"""Denied topics and words: found however they are spelled, and only where they are meant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import DefinitionError
from orchestrator.guardrails import LocalGuardrail, Topic, Word

ADVICE = Topic(
    "Investment advice", "Recommending what to buy.", ("which stock to buy", "insider trading")
)


@pytest.mark.parametrize(
    "text",
    [
        "Tell me which stock to buy!",
        "INVESTMENT ADVICE please",
        "I heard of insider-trading.",
        "insider\n\ttrading",
        "insider **trading**",
        "“Insider” trading",
        "in\u200bsi\u00adder trad\u2060ing",
        "ｉｎｓｉｄｅｒ　ｔｒａｄｉｎｇ",
        "ⓘⓝⓢⓘⓓⓔⓡ 𝐭𝐫𝐚𝐝𝐢𝐧𝐠",
        "ínsidér trâding",
        "i\u0301nsider trading",
        "іnѕіdеr trаdіng",  # Cyrillic letters that look like Latin ones
        "ιnsider trading",  # a Greek one
    ],
)
def test_a_topic_is_found_by_its_name_and_its_phrases(text):
    verdict = LocalGuardrail(topics=[ADVICE]).check(text, "INPUT")
    assert verdict.blocked and verdict.action == "INTERVENED"
    assert verdict.text == "Sorry, the model cannot answer this question."
    topics = [{"name": "Investment advice", "type": "DENY", "action": "BLOCKED"}]
    assert verdict.assessments == [{"topicPolicy": {"topics": topics}}]


@pytest.mark.parametrize(
    "text",
    ["", "insider information", "trading insider", "insider. We like trading", "insiders trading",
     "insider ***** trading"],
)  # fmt: skip
def test_other_words_are_no_topic(text):
    verdict = LocalGuardrail(topics=[ADVICE]).check(text, "INPUT")
    assert (verdict.action, verdict.text, verdict.blocked) == ("NONE", text, False)
    assert list(verdict.assessments) == []


@pytest.mark.parametrize(
    ("word", "said", "not_said"),
    [
        ("C++", "I love C++.", "I love C."),
        ("C#", "(c#)", "c"),
        ("内幕交易", "关于内幕交易的问题", "内幕"),
        ("สวัสดี", "เขาพูดสวัสดีครับ", "สวัส"),
        ("naïve", "a NAIVE idea", "naiveté"),
        ("f*ck", "what the F*CK", "f ck"),
        ("don't", "Don’t!", "dont"),
    ],
)
def test_words_are_whole_words(word, said, not_said):
    guardrail = LocalGuardrail(words=[word])
    assert guardrail.check(said, "OUTPUT").blocked
    assert not guardrail.check(not_said, "OUTPUT").blocked


def test_a_word_is_reported_as_it_was_written_and_once():
    verdict = LocalGuardrail(words=["darn"], profanity=["drat"]).check(
        "Darn, dárn and Darn: DRAT", "INPUT"
    )
    assert verdict.assessments == [
        {
            "wordPolicy": {
                "customWords": [
                    {"match": "Darn", "action": "BLOCKED"},
                    {"match": "dárn", "action": "BLOCKED"},
                ],
                "managedWordLists": [{"match": "DRAT", "type": "PROFANITY", "action": "BLOCKED"}],
            }
        }
    ]


def test_input_and_output_have_their_own_lists_and_messages():
    guardrail = LocalGuardrail(
        words=[Word("asked", output=False), Word("told", input=False)],
        blocked_input_messaging="Not asked.",
        blocked_outputs_messaging="Not told.",
    )
    assert guardrail.check("asked", "INPUT").text == "Not asked."
    assert guardrail.check("told", "OUTPUT").text == "Not told."
    assert guardrail.check("told", "INPUT").action == "NONE"
    assert guardrail.check("asked", "OUTPUT").action == "NONE"


def test_the_longest_phrase_counts_at_a_place():
    guardrail = LocalGuardrail(words=["stock", "stock tip"])
    (found,) = guardrail.check("a stock tip", "INPUT").assessments
    assert [item["match"] for item in found["wordPolicy"]["customWords"]] == ["stock tip"]


@pytest.mark.parametrize("wrong", [{"words": ["..."]}, {"topics": [Topic("-- !")]}])
def test_a_phrase_without_words_is_refused(wrong):
    with pytest.raises(DefinitionError, match="has no word in it"):
        LocalGuardrail(**wrong)


MONEY = Topic("Finance", "How money is made.", ("which stock to buy",))


class Directions:
    """An embedder that knows two directions, and counts what it was asked."""

    id = "directions"
    dimensions = 2

    def __init__(self):
        self.asked = []

    def embed(self, texts):
        self.asked.append(list(texts))
        rows = [(1.0, 0.0) if "money" in it or "stock" in it else (0.0, 1.0) for it in texts]
        return np.array(rows, dtype=np.float32)


def test_a_topic_is_found_by_meaning():
    embedder = Directions()
    guardrail = LocalGuardrail(topics=[MONEY], embedder=embedder, threshold=0.9)
    assert embedder.asked == []
    assert guardrail.check("Hello. How do I grow my money? Thanks.", "INPUT").blocked
    assert embedder.asked[-1] == ["Hello.", "How do I grow my money?", "Thanks."]
    assert guardrail.check("Where is Emma?", "INPUT").action == "NONE"
    assert sum(MONEY.definition in texts for texts in embedder.asked) == 1  # embedded once


def test_every_sentence_of_a_long_text_is_looked_at():
    guardrail = LocalGuardrail(topics=[MONEY], embedder=Directions(), threshold=0.9)
    text = "Where is Emma? " * 200 + "word " * 500 + "money"
    assert guardrail.check(text, "INPUT").blocked


@given(st.text(), st.text())
def test_a_word_is_found_in_any_company(before, after):
    guardrail = LocalGuardrail(words=["insider trading"])
    text = f"{before} . insider trading . {after}"
    assert guardrail.check(text, "INPUT").blocked


@given(st.text())
def test_any_text_gets_a_verdict(text):
    verdict = LocalGuardrail(words=["insider trading"]).check(text, "INPUT")
    assert verdict.action == "NONE" and verdict.text == text
