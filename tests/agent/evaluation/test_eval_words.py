"""What checks and the user of a case make of words: facts, refusals, questions, ids, names."""

from pathlib import Path

import pytest
from evaluation_support import answer, call, failing

from orchestrator.agent.evaluation.checks.answers import says
from orchestrator.agent.evaluation.checks.calls import changes_something, read_calls
from orchestrator.agent.evaluation.trace_reading import asks_user, list_calls, list_steps


@pytest.mark.parametrize(
    ("text", "fact", "holds"),
    [
        ("It is about €23,800.", "23800", True),
        ("Call +498955501214 now", "+49 89 5550 1214", True),
        ("You have 13 days.", "13", True),
        ("You have 130 days.", "13", False),
        ("Since 2013.", "13", False),
        ("Claims 214, 334 and 857", "334", True),
        ("I can\u2019t do that", "can't", True),
        ("REPAIR ESTIMATE", "estimate", True),
    ],
)
def test_facts_are_found_as_people_write_them(text, fact, holds):
    assert says(text, fact) is holds


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *(("GET /claims", False), ("POST /reminders", True), ("DELETE /claims/{id}", True)),
        *(("get_days", False), ("listClaims", False), ("FindClaim", False)),
        *(("cancel_vacation", True), ("getaway_booking", True), ("sendReminder", True)),
    ],
)
def test_the_first_word_says_whether_a_call_changes_something(name, changes):
    assert changes_something(name) is changes


@pytest.mark.parametrize(
    ("wanted", "made", "same"),
    [
        ("claim-857", "Claim #857", True),
        ("claim-857", "857", True),
        ("V-15", "15", True),
        ("claim-857", "claim-858", False),
        ("2027-03-08", "08", False),
        ("V-15", "X-15", False),
        ("V-15", "", False),
    ],
)
def test_ids_are_alike_in_every_spelling(wanted, made, same):
    (expected,) = read_calls([{"name": "f", "arguments": {"id": {"like": wanted}}}], Path())
    assert expected.fits({"name": "f", "arguments": {"id": made}}) is same


@pytest.mark.parametrize(
    ("expect", "text"),
    [
        ({"refuses": True}, "Sorry, that is not my line."),
        ({"refuses": True}, "I’m not able to tell jokes."),
        ({"refuses": True}, "Ich kann Ihnen nur bei Schadensfällen helfen."),
        ({"refuses": True}, "抱歉，我只能帮助您处理理赔。"),
        ({"refuses": False}, "I'm sorry to hear that. Which claim is it?"),
        ({"refuses": False}, "Hello! I help with claims."),
        ({"asks_user": True}, "Bitte nennen Sie mir die Nummer."),
        ({"asks_user": True}, "请提供编号。"),
        ({"contains": "13"}, "That makes 13, or 1042?"),
    ],
)
def test_a_right_answer_passes_in_other_words(hold, expect, text):
    assert failing(hold({"question": "Hello 13", "expect": expect}, answer(text))) == []


@pytest.mark.parametrize(
    ("question", "yes"),
    [
        ("Shall I go ahead with booking days (12)?", True),
        ("Do you want to book it?", True),
        ("Twelve days, then. Is it 12?", True),
        ("Soll ich sie buchen?", True),
        ("要我预订吗？", True),
        ("Please confirm the booking.", True),
        ("Should I book the days which you named?", True),
        ("Which days do you want to book?", False),
        ("Please confirm which days they are.", False),
        ("Which days are they?", False),
        ("Could you tell me how many days?", False),
        ("Would you like me to do anything else?", False),
        ("I will book it.", False),
    ],
)
def test_the_user_says_yes_once_to_an_expected_call(hold, question, yes):
    wanted = {"calls": [{"name": "book_days", "arguments": {"days": "12"}}]}
    replies = [answer(question), call("days__book_days", days="12"), answer("Booked.")]
    result = hold({"question": "Book 12 days.", "expect": wanted}, *replies)
    (turn,) = result.turns
    assert ("Yes." in turn.said) is yes
    assert turn.answer == ("Booked." if yes else question)
    assert (result.status == "passed") is yes


def test_nobody_says_yes_to_a_call_that_is_not_expected(hold):
    result = hold({"question": "12"}, answer("Shall I book 12 days?"))
    assert result.turns[0].said == ["12"]


PARTS = [
    {"rationale": {"text": "Think."}},
    {
        "invocationInput": {
            "actionGroupInvocationInput": {
                "actionGroupName": "claims",
                "verb": "post",
                "apiPath": "/reminders",
                "requestBody": {
                    "content": {"application/json": [{"name": "claimId", "value": "claim-1"}]}
                },
            }
        }
    },
    {
        "invocationInput": {
            "actionGroupInvocationInput": {
                "actionGroupName": "v",
                "function": "f",
                "parameters": [{"name": "a", "value": "1"}],
            }
        }
    },
    {"observation": {"actionGroupInvocationOutput": {"text": "done"}}},
    {"observation": {"type": "ASK_USER"}},
]


def test_a_trace_of_the_service_is_read():
    trace = [{"trace": {"orchestrationTrace": part}} for part in PARTS]
    assert list_calls(trace) == [
        {"name": "POST /reminders", "arguments": {"claimId": "claim-1"}},
        {"name": "f", "arguments": {"a": "1"}},
    ]
    assert asks_user(trace)
    assert not asks_user(trace[:4])
    assert [(step["kind"], step["text"]) for step in list_steps(trace)] == [
        ("thought", "Think."),
        ("call", "POST /reminders(claimId='claim-1')"),
        ("call", "f(a='1')"),
        ("result", "done"),
    ]
