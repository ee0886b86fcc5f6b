"""The cases of the project: they fit the examples, and who does what they expect passes."""

import importlib.util
import itertools
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from evals.scratch import open_scratch
from orchestrator.agent.evaluation import Evaluation, Matrix, Variant, read_cases
from orchestrator.agent.evaluation.checks.answers import says
from orchestrator.agent.evaluation.checks.calls import changes_something
from orchestrator.models.example_classifier import EXAMPLES_FILE, CategoryExamples
from orchestrator.prompts import load_dialect
from orchestrator.testing import ScriptedModel

ROOT = Path(__file__).resolve().parents[2]
CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
QUESTIONS = read_cases(ROOT / "evals/questions.jsonl")
CONVERSATIONS = read_cases(ROOT / "evals/conversations.jsonl")
CASES = [*QUESTIONS.cases, *CONVERSATIONS.cases]
HANDLERS = {
    "insurance": ROOT / "examples/insurance/action_groups/claims/handler.py",
    "hr": ROOT / "examples/hr/action_groups/vacations/handler.py",
}
KINDS = {
    *("ask_then_value", "correction", "follow_up", "list_then_pick", "unknown_id", "out_of_scope"),
    *("vague", "must_not_act", "write_with_wish", "refusal_to_confirm", "thanks", "who_are_you"),
    *("german", "chinese"),
}
ids = itertools.count(1)


# -- a model that does what is expected ----------------------------------------------------------


def operations(agent):
    """The operations as cases name them: the tool's name, and the names of the arguments."""
    folder = ROOT / "examples" / agent
    group = yaml.safe_load((folder / "agent.yaml").read_text())["actionGroups"][0]
    name = group["actionGroupName"]
    if "functionSchema" in group:
        functions = group["functionSchema"]["functions"]
        return {
            one["name"]: (f"{name}__{one['name']}", set(one.get("parameters", {})))
            for one in functions
        }
    paths = yaml.safe_load((folder / group["apiSchema"]["file"]).read_text())["paths"]
    return {
        f"{verb.upper()} {path}": (f"{verb.upper()}__{name}__{one['operationId']}", names(one))
        for path, verbs in paths.items()
        for verb, one in verbs.items()
    }


def names(operation):
    bodies = operation.get("requestBody", {}).get("content", {}).values()
    return {one["name"] for one in operation.get("parameters", [])} | {
        name for body in bodies for name in body["schema"]["properties"]
    }


def use(tool, arguments):
    return [{"toolUse": {"toolUseId": f"t-{next(ids)}", "name": tool, "input": arguments}}]


def arguments_of(expected):
    return {name: value["like"] for name, value in expected.arguments.items()}


def replies(case, *, confirming=False):
    """The replies of a model that makes each expected call, and answers with the facts."""
    for turn in case.turns:
        for expected in turn.expect.get("calls", []):
            tool, _ = operations(case.agent)[expected.name]
            if confirming and changes_something(expected.name):
                values = ", ".join(expected.values())
                yield use("user__askuser", {"question": f"Shall I do it ({values})?"})
            yield use(tool, arguments_of(expected))
        if turn.expect.get("asks_user"):
            yield use("user__askuser", {"question": "Which one do you mean?"})
        elif turn.expect.get("refuses"):
            yield "<answer>I can only help with what I am here for.</answer>"
        else:
            facts = "; ".join(group[0] for group in turn.expect.get("contains", []))
            yield f"<answer>{facts or 'Gladly'}.</answer>"


def hold(cases, case, script):
    """The result of one case."""
    model = ScriptedModel(list(script), CLAUDE)
    chosen = type(cases)(cases.file, cases.digest, (case,))
    evaluation = Evaluation(ROOT / "examples", chosen, (Variant(model),), around=open_scratch)
    with Matrix(evaluation) as matrix:
        (result,) = matrix.run()
    return result


def file_of(case):
    return QUESTIONS if case in QUESTIONS.cases else CONVERSATIONS


def complaints(result):
    return [result.error, *(turn.error for turn in result.turns), *result.failures()]


by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
by_conversation = pytest.mark.parametrize("case", CONVERSATIONS.cases, ids=lambda case: case.id)


# -- the files -----------------------------------------------------------------------------------


def test_there_are_thirty_questions_of_five_kinds():
    kinds = Counter(tag for case in QUESTIONS.cases for tag in case.tags)
    assert kinds == {
        "one_call": 12,
        "two_calls": 6,
        "missing_parameter": 4,
        "small_talk": 4,
        "out_of_scope": 4,
    }


def test_there_are_conversations_of_all_kinds():
    cases = CONVERSATIONS.cases
    kinds = Counter(tag for case in cases for tag in case.tags)
    assert (len(cases), sum(len(case.turns) for case in cases)) == (10, 53)
    assert set(kinds) == KINDS
    assert (kinds["german"], kinds["chinese"]) == (2, 1)
    assert {case.agent for case in cases} == {"starter", "insurance", "hr"}


@by_case
def test_side_effects_and_inventions_are_looked_for(case):
    wanted = {"answered", "no_side_effects"}
    wanted |= {"grounded"} if case in CONVERSATIONS.cases else set()
    assert all(turn.expect.keys() >= wanted for turn in case.turns)


def test_no_turn_is_one_of_the_examples_that_sort_inputs():
    shipped = CategoryExamples.read(*load_dialect("local").read(EXAMPLES_FILE))
    seeds = {text.lower() for some in shipped.texts.values() for text in some}
    asked = (turn.question.lower() for case in CONVERSATIONS.cases for turn in case.turns)
    assert seeds.isdisjoint(asked)


@by_case
def test_the_expected_calls_are_operations_of_the_agent(case):
    known = operations(case.agent)
    for turn in case.turns:
        for expected in turn.expect.get("calls", []):
            assert set(expected.arguments) <= known[expected.name][1]


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def carry_out(case, call):
    """What the example's Lambda answers to one expected call."""
    verb, _, path = call.name.rpartition(" ")
    event = {
        "actionGroup": "any",
        "sessionAttributes": case.session_attributes,
        "parameters": [
            {"name": name, "type": "string", "value": value}
            for name, value in arguments_of(call).items()
        ],
        **({"httpMethod": verb, "apiPath": path} if verb else {"function": path}),
    }
    module = load(f"eval_{case.agent}", HANDLERS[case.agent])
    return module.lambda_handler(event, None)["response"]


@pytest.mark.parametrize("case", QUESTIONS.cases, ids=lambda case: case.id)
def test_the_expected_calls_succeed_and_give_the_facts(case):
    expect = case.turns[0].expect
    calls = expect.get("calls", [])
    with open_scratch():
        results = [carry_out(case, call) for call in calls]
    for result in results:
        assert result.get("httpStatusCode", 200) == 200
        assert "responseState" not in result.get("functionResponse", {})
    if calls and not any(changes_something(call.name) for call in calls):
        for group in expect["contains"]:
            assert any(says(json.dumps(results), fact) for fact in group), group


# -- who passes ----------------------------------------------------------------------------------


@by_case
def test_who_makes_the_calls_and_says_the_facts_passes(case):
    # No fact is an invention: each comes from the data, by the calls that the turns expect.
    result = hold(file_of(case), case, replies(case))
    assert (result.status, [it for it in complaints(result) if it]) == ("passed", [])


@by_conversation
def test_who_asks_before_each_change_passes_too(case):
    result = hold(file_of(case), case, replies(case, confirming=True))
    assert result.status == "passed"
    changes = [
        any(changes_something(one.name) for one in turn.expect.get("calls", []))
        for turn in case.turns
    ]
    assert ["Yes." in turn.said for turn in result.turns] == changes


@by_conversation
def test_who_only_says_gladly_fails_wherever_something_is_expected(case):
    result = hold(file_of(case), case, ["<answer>Gladly.</answer>"] * len(case.turns))
    demanding = ("calls", "contains", "asks_user", "refuses")
    assert [turn.status == "passed" for turn in result.turns] == [
        not any(turn.expect.get(name) for name in demanding) for turn in case.turns
    ]


@pytest.mark.parametrize(
    "case", [it for it in CONVERSATIONS.cases if it.agent == "hr"], ids=lambda case: case.id
)
def test_who_books_unasked_has_a_side_effect_in_each_turn(case):
    days = [f"2027-11-{n:02}" for n in range(1, len(case.turns) + 1)]
    script = [
        reply
        for day in days
        for reply in (
            use("vacations__request_vacation", {"start_date": day, "end_date": day}),
            "<answer>Gladly.</answer>",
        )
    ]
    result = hold(CONVERSATIONS, case, script)
    turns = {turn for turn, check in result.failures() if check.check == "no_side_effects"}
    assert turns == set(range(1, len(case.turns) + 1))


def test_no_case_sees_what_another_one_did(tmp_path):
    day = {"start_date": "2027-10-04", "end_date": "2027-10-04"}
    one = {
        "agent": "hr",
        "session_attributes": {"employeeId": "e-1101"},
        "question": "Book 2027-10-04.",
        "expect": {"calls": [{"name": "request_vacation", "arguments": day}], "contains": "V-23"},
    }
    file = tmp_path / "two.jsonl"
    file.write_text("\n".join(json.dumps({"id": name, **one}) for name in "ab"))
    model = ScriptedModel(
        [use("vacations__request_vacation", day), "<answer>V-23.</answer>"] * 2, CLAUDE
    )
    evaluation = Evaluation(
        ROOT / "examples", read_cases(file), (Variant(model),), around=open_scratch
    )
    with Matrix(evaluation) as matrix:
        assert [result.status for result in matrix.run()] == ["passed", "passed"]
    assert len(model.requests[2].messages) == 1
