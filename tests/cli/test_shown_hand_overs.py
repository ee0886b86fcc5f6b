"""What a chat says of who works and for what it waits, also without a terminal."""

import json

import pytest
from cli_support import CLAUDE, call

from orchestrator.cli.steps import describe_activity, describe_hand_over, format_call

TEAM = f"""
agentName: boss
instruction: You lead the agents of a shop, and answer its customers.
foundationModel: scripted:boss.jsonl@{CLAUDE}
agentCollaboration: SUPERVISOR
agentCollaborators:
  - collaboratorName: prices
    collaborationInstruction: Knows prices.
    agentDescriptor: {{folder: prices}}
"""
PRICES = f"""
agentName: prices
instruction: You know what everything costs, and tell it.
foundationModel: scripted:prices.jsonl@{CLAUDE}
"""


@pytest.fixture
def team(place):
    (place / "prices").mkdir()
    (place / "agent.yaml").write_text(TEAM)
    (place / "prices/agent.yaml").write_text(PRICES)
    message = call("AgentCommunication__sendMessage", recipient="prices", content="A pen?\x1b[2J")
    (place / "boss.jsonl").write_text(f'{json.dumps(message)}\n"<answer>3 euros."\n')
    (place / "prices/prices.jsonl").write_text('"<answer>3."\n')
    return place


def test_an_agent_that_hands_over_to_another_is_told_without_a_terminal(run, team):
    done = run("chat", team, input="How much is a pen?\n")
    assert (done.exit_code, done.stdout) == (0, "3 euros.\n")
    assert done.stderr == "boss hands over to prices: A pen?�[2J\n"


def test_the_steps_tell_it_themselves(run, team):
    done = run("chat", team, "--trace", input="How much is a pen?\n")
    assert "asks the agent prices" in done.stderr and "hands over" not in done.stderr


def test_with_json_there_is_nothing_but_json(run, team):
    done = run("chat", team, "--json", input="How much is a pen?\n")
    assert json.loads(done.stdout)["text"] == "3 euros." and done.stderr == ""


def invocation(value, **part):
    return {"trace": {"orchestrationTrace": {"invocationInput": value}}, **part}


def action(name, value, **members):
    called = {
        "actionGroupName": "orders",
        "parameters": [{"name": name, "type": "string", "value": value}],
    }
    return {"actionGroupInvocationInput": {**called, **members}}


API = {"apiPath": "/orders/{orderId}", "verb": "get"}


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (
            invocation(action("orderId", "1042", **API)),
            "calling GET /orders/{orderId} with orderId=1042",
        ),
        (
            invocation(action("day", "x" * 90, function="book"), collaboratorName="hr"),
            f"hr: calling book with day={'x' * 59}…",
        ),
        (
            invocation(action("password", "hunter2hunter2", function="login")),
            "calling login with password=[redacted]",
        ),
        (
            invocation(action("a", "1\u202e2\n3", function="f")),
            "calling f with a=1\\u202e2 3",
        ),
        (
            invocation(action("a", "1", function="f", executionType="RETURN_CONTROL")),
            "",
        ),
        (
            invocation({"knowledgeBaseLookupInput": {"knowledgeBaseId": "KB1", "text": "Dogs?"}}),
            "searching the knowledge base KB1 for 'Dogs?'",
        ),
        (
            invocation({"codeInterpreterInvocationInput": {"code": "print(1)\nprint(2)"}}),
            "running print(1) ⏎ print(2)",
        ),
        (
            {"trace": {"preProcessingTrace": {"modelInvocationInput": {}}}},
            "checking the input",
        ),
        ({"trace": {"orchestrationTrace": {"modelInvocationInput": {}}}}, "reading and thinking"),
        ({"trace": {"orchestrationTrace": {"observation": {}}}}, ""),
    ],
)
def test_the_line_of_what_happens_now(part, told):
    assert describe_activity(part) == told


def test_what_hides_in_a_call_is_seen_by_who_confirms_it():
    shown = format_call(
        action("to", "Bob\u202e\u200beve", function="pay")["actionGroupInvocationInput"]
    )
    assert shown == "orders::pay(to=Bob\\u202e\\u200beve)"


def test_a_collaborator_hands_over_too():
    asked = {"agentCollaboratorName": "stock", "input": {"type": "TEXT", "text": "y" * 300}}
    part = invocation({"agentCollaboratorInvocationInput": asked}, collaboratorName="prices")
    assert describe_hand_over(part, "boss") == f"prices hands over to stock: {'y' * 199}…"
    assert describe_hand_over(invocation(action("a", "1", function="f")), "boss") == ""
