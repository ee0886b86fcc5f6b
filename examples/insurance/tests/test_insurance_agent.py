"""The whole claims agent, with a model whose replies are written beforehand."""

import json
from pathlib import Path

import pytest

from orchestrator import Agent
from orchestrator.testing import ScriptedModel

FOLDER = Path(__file__).resolve().parents[1]
TOOL_USE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
XML = "anthropic.claude-3-sonnet-20240229-v1:0"


@pytest.fixture(autouse=True)
def reminders(tmp_path, monkeypatch):
    path = tmp_path / "reminders.jsonl"
    monkeypatch.setenv("REMINDERS_FILE", str(path))
    return path


def tool(name, id="t-1", **values):
    return {"toolUse": {"toolUseId": id, "name": name, "input": values}}


def said_to(model, request=-1):
    """All that the model was told in one request."""
    return json.dumps(model.requests[request].messages)


def test_claims_are_found_then_their_documents_then_a_reminder_goes_out(reminders):
    model = ScriptedModel(
        [
            [tool("GET__claims__listClaims", status="open")],
            [tool("GET__claims__listMissingDocuments", claimId="claim-857")],
            [tool("POST__claims__sendReminder", claimId="claim-857")],
            "<answer>Elena Petrova was reminded of three documents of claim-857.</answer>",
        ],
        model_id=TOOL_USE,
    )
    reply = Agent.load(FOLDER, model=model).invoke("Remind Elena Petrova", session_id="s-1")
    assert reply.text == "Elena Petrova was reminded of three documents of claim-857."
    assert "claim-857" in said_to(model, 1) and "claim-101" not in said_to(model, 1)
    assert "driving licence" in said_to(model, 2)
    assert "rem-" in said_to(model, 3)
    assert json.loads(reminders.read_text())["sentTo"] == "elena.petrova@example.com"


def test_the_same_agent_runs_with_a_model_that_calls_in_xml():
    call = (
        "<thinking>I look.</thinking><function_calls><invoke>"
        "<tool_name>GET::claims::/claims/{claimId}</tool_name>"
        "<parameters><claimId>claim-902</claimId></parameters></invoke></function_calls>"
    )
    model = ScriptedModel([call, "<answer>23,800 euros"], model_id=XML)
    reply = Agent.load(FOLDER, model=model).invoke("How much is claim-902?", session_id="s-1")
    assert reply.text == "23,800 euros"
    assert "23800" in said_to(model)


def test_an_unknown_claim_goes_back_to_the_model():
    model = ScriptedModel(
        [
            [tool("GET__claims__getClaimDetails", claimId="claim-1")],
            "<answer>There is no claim-1.</answer>",
        ],
        model_id=TOOL_USE,
    )
    reply = Agent.load(FOLDER, model=model).invoke("What is claim-1?", session_id="s-1")
    assert reply.text == "There is no claim-1."
    assert "There is no claim 'claim-1'" in said_to(model)


def test_the_user_is_asked_for_the_claim():
    model = ScriptedModel([[tool("user__askuser", question="Which claim?")]], model_id=TOOL_USE)
    reply = Agent.load(FOLDER, model=model).invoke("Send a reminder", session_id="s-1")
    assert reply.text == "Which claim?"
    assert reply.stop_reason == "ask_user"


def test_the_prompt_can_be_seen_without_a_model():
    model = ScriptedModel([], model_id=TOOL_USE)
    prompt = Agent.load(FOLDER, model=model).render("ORCHESTRATION", "Which claims are open?")
    assert "Which claims are open?" in json.dumps(prompt.messages)
    assert "insurance company" in prompt.system
    assert [tool["toolSpec"]["name"] for tool in prompt.tools] == [
        "GET__claims__listClaims",
        "GET__claims__getClaimDetails",
        "GET__claims__listMissingDocuments",
        "POST__claims__sendReminder",
        "user__askuser",
    ]
    assert model.requests == []
