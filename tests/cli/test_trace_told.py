"""A trace as steps, from this engine's parts and from recordings of the real service."""

import json
from pathlib import Path

import pytest
from cli_support import ANSWER, ORDER

from orchestrator.cli.steps import format_call, list_steps

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"


def verbs(name):
    file = GOLDEN / f"{name}.json"
    if not file.exists():
        pytest.skip("the recordings are not here")
    events = json.loads(file.read_text())["events"]
    parts = [event["payload"] for event in events if event["type"] == "trace"]
    return [step.verb for step in list_steps(parts)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tool_calls_with_input_params", ["thinks", "calls", "thinks", "answers"]),
        ("preprocessing_trace", ["accepts the input", "thinks", "answers"]),
        ("post_processing_trace", ["thinks", "answers", "rewrites the answer"]),
        ("knowledge_base_results", ["searches", "reads what was found", "answers"]),
        ("guardrail_intervention", ["is stopped by the guardrail"]),
        ("routing_classifier_trace", ["chooses no agent", "thinks", "answers"]),
    ],
)
def test_recordings_read_aloud(name, told):
    assert verbs(name) == told


def test_invocations_can_be_told_later(run, shop, script):
    reply = run("invoke", shop, "Where is 1042?", script(ORDER, ANSWER), "--json").stdout
    told = run("trace", input=reply)
    assert told.exit_code == 0
    lines = [line for line in told.stdout.splitlines() if not line[:2].isdigit()]
    assert [line.split("  ")[0].strip() for line in lines if ". " in line[:4]] == [
        "1. thinks",
        "2. calls orders::GET /orders/{orderId} (orderId=1042)",
        "3. thinks",
        "4. answers",
    ]
    assert lines[-1].startswith("2 model calls · 0 → ")


def test_steps_are_json_too(run, shop, script):
    reply = run("invoke", shop, "Where is 1042?", script(ORDER, ANSWER), "--json").stdout
    steps = json.loads(run("trace", "--json", input=reply).stdout)
    assert steps[1]["subject"] == "orders::GET /orders/{orderId} (orderId=1042)"
    assert steps[3] == {
        "verb": "answers",
        "subject": "",
        "text": "Emma will arrive on Thursday.",
        "facts": [],
        "agent": "",
    }


@pytest.mark.parametrize("text", ["", "{}", "[]", "no json", '{"trace": {}}'])
def test_what_is_no_trace_is_refused_or_empty(run, text):
    done = run("trace", input=text)
    assert done.exit_code in (0, 2)
    assert "Traceback" not in done.output


def part(**told):
    return {"trace": {"orchestrationTrace": told}}


def action(name, execution="LAMBDA"):
    called = {"actionGroupName": "g", "function": name, "executionType": execution}
    return part(invocationInput={"actionGroupInvocationInput": called})


def observed(text):
    output = {"text": text}
    return part(observation={"type": "ACTION_GROUP", "actionGroupInvocationOutput": output})


def test_parallel_calls_keep_their_results():
    steps = list_steps([action("a"), action("b"), observed("1"), observed("2")])
    assert [(step.subject, step.text) for step in steps] == [("g::a()", "1"), ("g::b()", "2")]


def test_a_call_without_an_outcome_is_told_last():
    waits, lost = list_steps([action("a", "RETURN_CONTROL"), action("b")])
    assert (waits.verb, waits.text) == ("hands over", "waits for the caller")
    assert (lost.verb, lost.text) == ("calls", "no result")


def test_a_collaborator_is_named():
    (step,) = list_steps([{**observed("1"), "collaboratorName": "billing"}])
    assert (step.agent, step.verb) == ("billing", "is given")


def test_a_body_is_part_of_a_call():
    properties = [{"name": "claimId", "type": "string", "value": "claim-857"}]
    call = {
        "actionGroup": "claims",
        "apiPath": "/reminders",
        "httpMethod": "POST",
        "requestBody": {"content": {"application/json": {"properties": properties}}},
    }
    assert format_call(call) == "claims::POST /reminders (claimId=claim-857)"
