"""The evaluation itself: its questions fit the examples' data, and its judge can be failed."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import yaml

from evals import checks
from evals.run import load_questions, main

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
ROOT = Path(__file__).resolve().parents[2]
HANDLERS = {
    "insurance": ROOT / "examples/insurance/action_groups/claims/handler.py",
    "hr": ROOT / "examples/hr/action_groups/vacations/handler.py",
}


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


QUESTIONS = load_questions()


@pytest.fixture(autouse=True)
def own_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HR_DATABASE", str(tmp_path / "hr.sqlite"))
    monkeypatch.setenv("REMINDERS_FILE", str(tmp_path / "reminders.jsonl"))


def operations(agent):
    definition = yaml.safe_load((ROOT / "examples" / agent / "agent.yaml").read_text())
    group = definition["actionGroups"][0]
    if "functionSchema" in group:
        return {function["name"] for function in group["functionSchema"]["functions"]}
    schema = ROOT / "examples" / agent / group["apiSchema"]["file"]
    paths = yaml.safe_load(schema.read_text())["paths"]
    return {f"{verb.upper()} {path}" for path, verbs in paths.items() for verb in verbs}


def carry_out(question, call):
    """What the example's Lambda answers to one expected call."""
    verb, _, path = call["name"].rpartition(" ")
    event = {
        "actionGroup": "any",
        "sessionAttributes": question.get("session_attributes", {}),
        "parameters": [
            {"name": name, "type": "string", "value": value}
            for name, value in call.get("arguments", {}).items()
        ],
        **({"httpMethod": verb, "apiPath": path} if verb else {"function": path}),
    }
    module = load(f"eval_{question['agent']}", HANDLERS[question["agent"]])
    return module.lambda_handler(event, None)["response"]


def test_there_are_thirty_questions_of_five_kinds():
    kinds = [question["kind"] for question in QUESTIONS]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "one_call": 12,
        "two_calls": 6,
        "missing_parameter": 4,
        "small_talk": 4,
        "out_of_scope": 4,
    }
    assert len({question["id"] for question in QUESTIONS}) == 30


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_the_expected_calls_succeed_and_give_the_facts(question):
    calls = question["expect"].get("calls", [])
    assert {call["name"] for call in calls} <= operations(question["agent"])
    replies = [carry_out(question, call) for call in calls]
    for reply in replies:
        assert reply.get("httpStatusCode", 200) == 200
        assert "responseState" not in reply.get("functionResponse", {})
    if calls and not any(checks.is_writing(call["name"]) for call in calls):
        told = json.dumps(replies)
        for group in question["expect"]["contains"]:
            assert any(checks.says(told, fact) for fact in group), group


@pytest.mark.parametrize(
    ("text", "fact", "held"),
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
def test_facts_are_found_as_people_write_them(text, fact, held):
    assert checks.says(text, fact) is held


def judged(expect, calls=(), answer="Done.", asked=False):
    return [*checks.judge_calls(expect, list(calls)), *checks.judge_answer(expect, answer, asked)]


REMINDER = {"name": "POST /reminders", "arguments": {"claimId": "claim-741"}}
LIST = {"name": "GET /claims", "arguments": {}}


@pytest.mark.parametrize(
    ("expect", "calls", "answer", "asked"),
    [
        ({"calls": [REMINDER]}, [], "Sent.", False),
        ({"calls": [REMINDER]}, [{**REMINDER, "arguments": {"claimId": "1"}}], "Sent.", False),
        ({"calls": [LIST]}, [LIST, REMINDER], "Sent.", False),
        ({"no_calls": True}, [LIST], "Hello.", False),
        ({"contains": [["13"]]}, [], "Twelve.", False),
        ({"lacks": ["101"]}, [], "claim-101", False),
        ({"asks": True}, [], "I sent it.", False),
        ({"asks": True}, [], "Please ask for the dates.", False),
        ({}, [], " ", False),
    ],
)
def test_the_judge_finds_what_is_wrong(expect, calls, answer, asked):
    assert judged(expect, calls, answer, asked)


@pytest.mark.parametrize(
    ("expect", "calls", "answer", "asked"),
    [
        ({"calls": [REMINDER]}, [LIST, {**REMINDER, "arguments": {"claimId": "741"}}], "ok", False),
        ({"asks": True}, [], "The dates, please", True),
        ({"asks": True}, [LIST], "Which claim?", False),
        ({"asks": True}, [], "Please provide both dates.", False),
        ({"contains": [["a", "b"]]}, [], "only B", False),
    ],
)
def test_the_judge_lets_right_replies_pass(expect, calls, answer, asked):
    assert judged(expect, calls, answer, asked) == []


def test_calls_and_rationales_are_read_from_the_trace():
    group = {"actionGroupName": "claims", "verb": "post", "apiPath": "/reminders"}
    body = {"content": {"application/json": [{"name": "claimId", "value": "claim-1"}]}}
    function = {
        "actionGroupName": "v",
        "function": "f",
        "parameters": [{"name": "a", "value": "1"}],
    }
    parts = [
        {"rationale": {"text": "Think."}},
        {"invocationInput": {"actionGroupInvocationInput": {**group, "requestBody": body}}},
        {"invocationInput": {"actionGroupInvocationInput": function}},
        {"observation": {"type": "ASK_USER"}},
    ]
    trace = [{"trace": {"orchestrationTrace": part}} for part in parts]
    assert checks.calls_of(trace) == [
        {"name": "POST /reminders", "arguments": {"claimId": "claim-1"}},
        {"name": "f", "arguments": {"a": "1"}},
    ]
    assert checks.rationales(trace) == ["Think."]
    assert checks.asked(trace)
    assert not checks.asked(trace[:3])


@pytest.mark.parametrize(
    ("name", "writing"),
    [
        *(("GET /claims", False), ("POST /reminders", True), ("DELETE /claims/{id}", True)),
        *(("get_days", False), ("listClaims", False), ("FindClaim", False)),
        *(("cancel_vacation", True), ("getaway_booking", True), ("sendReminder", True)),
    ],
)
def test_the_first_word_tells_whether_a_call_changes_something(name, writing):
    assert checks.is_writing(name) is writing


@pytest.mark.parametrize(
    ("wanted", "given", "same"),
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
def test_ids_are_the_same_in_every_spelling(wanted, given, same):
    expected = {"name": "f", "arguments": {"id": wanted}}
    assert checks.is_same_call(expected, {"name": "f", "arguments": {"id": given}}) is same


def test_a_question_is_asked_and_its_outcome_written(tmp_path, capsys):
    script, result = tmp_path / "script.jsonl", tmp_path / "result.json"
    script.write_text('"<answer>Good morning!</answer>"\n"<answer>I sent it.</answer>"\n')
    given = ["--model", f"scripted:{script}", "--json", str(result)]
    assert main([*given, "--only", "hello", "--min", "1"]) == 0
    assert json.loads(result.read_text())["questions"][0]["answer"] == "Good morning!"
    assert main([*given, "--only", "which-claim-remind", "--min", "1"]) == 1
    (outcome,) = json.loads(result.read_text())["questions"]
    assert outcome["problems"] == ["the user was not asked"]
    assert "wrong which-claim-remind" in capsys.readouterr().out


def test_the_user_says_yes_once_to_a_call_that_is_expected(tmp_path, capsys):
    script, result = tmp_path / "script.jsonl", tmp_path / "result.json"
    ask, sent = "<answer>Shall I send it (claim-741)?</answer>", "<answer>I sent it.</answer>"
    use = {"name": "POST__claims__sendReminder", "input": {"claimId": "claim-741"}}
    call = [{"toolUse": {"toolUseId": "t-1", **use}}]
    script.write_text("".join(json.dumps(reply) + "\n" for reply in (ask, call, sent)))
    given = ["--model", f"scripted:{script}@{CLAUDE}", "--json", str(result)]
    assert main([*given, "--only", "reminder-741", "--min", "1"]) == 0, capsys.readouterr().out
    (outcome,) = json.loads(result.read_text())["questions"]
    assert (outcome["asked"], outcome["answer"]) == (False, "I sent it.")
