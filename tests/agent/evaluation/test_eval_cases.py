"""Files of cases: what they may hold, and mistakes with their places."""

import json
from pathlib import Path

import pytest

from orchestrator import DefinitionError
from orchestrator.agent.evaluation import read_cases
from orchestrator.errors import ResourceNotFound


def test_a_question_is_a_case(write_cases):
    (case,) = read_cases(write_cases({"id": "a", "question": "Who are you?"})).cases
    assert (case.id, [turn.question for turn in case.turns], case.tags) == (
        "a",
        ["Who are you?"],
        (),
    )


def test_yaml_json_and_jsonl_say_the_same(tmp_path, write_cases):
    case = {"id": "a", "tags": ["x"], "turns": [{"question": "Hi", "expect": {"lacks": ["no"]}}]}
    defaults = {"expect": {"answered": True}}
    lines = write_cases({"defaults": defaults}, case)
    one = tmp_path / "cases.json"
    one.write_text(json.dumps({"defaults": defaults, "cases": [case]}))
    other = tmp_path / "cases.yaml"
    other.write_text(
        "defaults: {expect: {answered: true}}\n"
        "cases:\n"
        "  - id: a\n    tags: [x]\n"
        "    turns: [{question: Hi, expect: {lacks: [no]}}]\n"
    )
    assert read_cases(lines).cases == read_cases(one).cases == read_cases(other).cases


def test_a_turn_may_change_or_take_away_a_default(write_cases):
    defaults = {"expect": {"answered": True, "max_steps": 3, "lacks": "no"}}
    expect = {"answered": None, "max_steps": 9}
    file = write_cases({"defaults": defaults}, {"id": "a", "question": "Hi", "expect": expect})
    (case,) = read_cases(file).cases
    assert case.turns[0].expect == {"max_steps": 9, "lacks": ["no"]}


MISTAKES = {
    '{"id": "a"}': "1:1: there is no 'question'",
    '{"question": "Hi"}': "1:1: there is no 'id'",
    '{"id": "a", "question": ""}': "1:25: 'question' is a text that is not empty",
    '{"id": "a", "question": "Hi", "expext": {}}': "no 'expext'; did you mean 'expect'?",
    '{"id": "a", "question": "Hi", "expect": {"cals": []}}': "no 'cals'; did you mean 'calls'?",
    '{"id": "a", "question": "Hi", "expect": {"calls": []}}': "1:51: the check 'calls' is a list",
    '{"id": "a", "question": "Hi", "expect": {"regex": "(?=a)"}}': "the expression '(?=a)' cannot",
    '{"id": "a", "question": "Hi", "expect": {"json": {"type": 7}}}': "the JSON Schema is wrong",
    '{"id": "a", "question": "Hi", "expect": {"no_calls": false}}': "leave the check out instead",
    '{"id": "a", "question": "Hi", "expect": {"python": "none.py:f"}}': "is not a Python file",
    '{"id": "a", "question": "Hi", "expect": {"max_cost": -1}}': "is not a number from 0",
    '{"id": "a", "question": "Hi", "expect": {"calls": ["f"], "no_calls": true}}': "both 'calls'",
    '{"id": "a", "question": "Hi", "expect": {"calls": [{"name": "f", "arguments": '
    '{"x": {"regexp": "a"}}}]}}': "did you mean 'regex'?",
    '{"id": "a", "turns": [{"says": "Hi"}]}': "the turn has no 'says'",
    '{"id": "a", "turns": []}': "turns are a list of 1 to 200",
    '{"id": "a", "question": "Hi", "turns": []}': "a case with 'turns' has no 'question'",
    '{"id": "a", "question": "Hi"': "this is not JSON",
    "[]": "this is no case",
    "": "there is no case in it",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_named_with_its_place(tmp_path, line):
    file = tmp_path / "cases.jsonl"
    file.write_text(line)
    with pytest.raises(DefinitionError) as raised:
        read_cases(file)
    assert MISTAKES[line] in str(raised.value)
    assert str(raised.value).startswith(str(file))


def test_the_place_is_that_of_the_line(write_cases):
    file = write_cases({"id": "a", "question": "Hi"}, {"id": "a", "question": "Ho"})
    with pytest.raises(DefinitionError, match=r"cases\.jsonl:2:8: the id 'a' is used twice"):
        read_cases(file)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ResourceNotFound, match="cannot be read: No such file"):
        read_cases(tmp_path / "none.jsonl")


def test_a_file_has_bounds(tmp_path):
    file = tmp_path / "cases.jsonl"
    with file.open("wb") as stream:
        stream.truncate(16_000_001)
    with pytest.raises(DefinitionError, match="larger than 16,000,000 bytes"):
        read_cases(file)


GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden" / "conversations.jsonl"
OLDER = {
    "id": "a",
    "agent": "desk",
    "kinds": ["vague"],
    "attributes": {"who": "e7"},
    "turns": [
        {"say": "Hi", "no_calls": True, "asks": True, "no_refusal": True},
        {
            "say": "Book",
            "calls": [{"name": "book_days", "arguments": {"id": "emp-7"}}],
            "contains": [["17", "seventeen"]],
            "lacks": ["18"],
        },
    ],
}


def test_an_older_conversation_is_a_case(write_cases):
    always = {"answered": True, "no_side_effects": True, "grounded": True}
    calls = [{"name": "book_days", "arguments": {"id": {"like": "emp-7"}}}]
    now = {
        "id": "a",
        "agent": "desk",
        "tags": ["vague"],
        "session_attributes": {"who": "e7"},
        "turns": [
            {
                "question": "Hi",
                "expect": {**always, "no_calls": True, "asks_user": True, "refuses": False},
            },
            {
                "question": "Book",
                "expect": {
                    **always,
                    "calls": calls,
                    "contains": [["17", "seventeen"]],
                    "lacks": ["18"],
                },
            },
        ],
    }
    (older,) = read_cases(write_cases(OLDER)).cases
    (case,) = read_cases(write_cases(now)).cases
    # The digest is of all that is said and expected; how arguments are compared are functions.
    assert older.digest == case.digest
    assert (older.id, older.agent, older.tags) == ("a", "desk", ("vague",))
    assert [list(turn.expect) for turn in older.turns] == [list(it.expect) for it in case.turns]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"kindz": []}, "the conversation has no 'kindz'"),
        ({"turns": [{"say": "Hi", "ask": True}]}, "a turn with 'say' has no 'ask'"),
        ({"turns": [{"say": "Hi", "refuses": True, "no_refusal": True}]}, "is no 'refuses'"),
        ({"turns": [{"say": "Hi", "asks": 1}]}, "'asks_user' is true or false"),
    ],
)
def test_a_mistake_in_an_older_conversation(write_cases, members, message):
    with pytest.raises(DefinitionError, match=message):
        read_cases(write_cases({**OLDER, **members}))


@pytest.mark.skipif(not GOLDEN.is_file(), reason="there are no golden conversations here")
def test_the_golden_conversations_are_read():
    cases = read_cases(GOLDEN).cases
    assert {case.agent for case in cases} == {"starter", "insurance", "hr"}
    assert all(turn.expect["grounded"] for case in cases for turn in case.turns)
