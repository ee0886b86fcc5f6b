"""The claims Lambda, driven with the events that Bedrock sends."""

import importlib.util
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1]


@pytest.fixture
def handler(tmp_path, monkeypatch):
    monkeypatch.setenv("REMINDERS_FILE", str(tmp_path / "reminders.jsonl"))
    path = FOLDER / "action_groups/claims/handler.py"
    spec = importlib.util.spec_from_file_location("insurance_handler", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def event(verb, path, *, body=None, **parameters):
    def listed(values):
        return [{"name": n, "type": "string", "value": v} for n, v in values.items()]

    made = {
        "messageVersion": "1.0",
        "agent": {"name": "insurance-claims", "id": "A", "alias": "T", "version": "DRAFT"},
        "inputText": "a question",
        "sessionId": "s-1",
        "actionGroup": "claims",
        "apiPath": path,
        "httpMethod": verb,
        "parameters": listed(parameters),
        "sessionAttributes": {"team": "motor"},
        "promptSessionAttributes": {},
    }
    if body is not None:
        made["requestBody"] = {"content": {"application/json": {"properties": listed(body)}}}
    return made


def call(handler, *args, **kwargs):
    """The HTTP status and the body of one call."""
    response = handler.lambda_handler(event(*args, **kwargs), None)["response"]
    body = response["responseBody"]["application/json"]["body"]
    return response["httpStatusCode"], json.loads(body)


def test_the_response_is_the_one_bedrock_expects(handler):
    reply = handler.lambda_handler(event("GET", "/claims", status="open"), None)
    assert reply["messageVersion"] == "1.0"
    assert reply["sessionAttributes"] == {"team": "motor"}
    response = reply["response"]
    assert response["actionGroup"] == "claims"
    assert (response["httpMethod"], response["apiPath"]) == ("GET", "/claims")
    assert isinstance(response["responseBody"]["application/json"]["body"], str)


def test_claims_are_narrowed_by_status_and_policy_holder(handler):
    status, claims = call(handler, "GET", "/claims", status="Open", policyHolder="okafor")
    assert status == 200
    assert [claim["claimId"] for claim in claims] == ["claim-334"]
    assert len(call(handler, "GET", "/claims")[1]) == 12


def test_an_unknown_status_says_which_there_are(handler):
    status, body = call(handler, "GET", "/claims", status="lost")
    assert status == 400
    assert "open, review, closed" in body["error"]


@pytest.mark.parametrize("said", ["claim-857", "857", "Claim 857", " #857 "])
def test_a_claim_is_found_however_its_id_is_said(handler, said):
    status, body = call(handler, "GET", "/claims/{claimId}", claimId=said)
    assert (status, body["policyHolder"]) == (200, "Elena Petrova")


def test_an_unknown_claim_is_a_404(handler):
    status, body = call(handler, "GET", "/claims/{claimId}", claimId="claim-000")
    assert status == 404
    assert "claim-000" in body["error"]


def test_a_missing_parameter_is_named(handler):
    status, body = call(handler, "GET", "/claims/{claimId}/missing-documents")
    assert status == 400
    assert "claimId" in body["error"]


def test_a_reminder_is_noted_in_the_reminders_file(handler, tmp_path):
    status, body = call(handler, "POST", "/reminders", body={"claimId": "claim-214"})
    assert status == 200
    assert body["documents"] == ["police report", "repair estimate"]
    noted = json.loads((tmp_path / "reminders.jsonl").read_text())
    assert noted["trackingId"] == body["trackingId"]
    assert noted["sentTo"] == "jonas.weber@example.com"


def test_nothing_is_sent_when_nothing_is_missing(handler, tmp_path):
    status, _ = call(handler, "POST", "/reminders", body={"claimId": "claim-623"})
    assert status == 409
    assert not (tmp_path / "reminders.jsonl").exists()
