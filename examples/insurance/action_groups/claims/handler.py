"""The claims API as an AWS Lambda function for an Amazon Bedrock agent.

Runs unchanged in AWS Lambda and inside `orchestrator`. Two environment variables:

    DATA_FILE       the claims, relative to the agent's folder (default data/claims.json)
    REMINDERS_FILE  where sent reminders are noted, one JSON object a line
                    (default: insurance-reminders.jsonl in the system's temporary folder)
"""

import json
import os
import tempfile
import uuid
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path

AGENT_FOLDER = Path(__file__).resolve().parents[2]
STATUSES = ("open", "review", "closed")
SUMMARY = ("claimId", "policyHolder", "status", "kind", "amountEUR")


class ApiError(Exception):
    """Becomes a response with this HTTP status; its text tells the model what to do."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def load_claims():
    path = AGENT_FOLDER / os.environ.get("DATA_FILE", "data/claims.json")
    return json.loads(path.read_text(encoding="utf-8"))


def find_claim(claim_id):
    """The claim with this id; people also say "857" or "Claim 857"."""
    number = str(claim_id).strip().lower().removeprefix("claim").strip(" -#")
    for claim in load_claims():
        if claim["claimId"] == f"claim-{number}":
            return claim
    raise ApiError(404, f"There is no claim {claim_id!r}. List the claims to see their ids.")


def list_claims(status="", policyHolder=""):
    status, name = status.strip().lower(), policyHolder.strip().lower()
    if status and status not in STATUSES:
        raise ApiError(400, f"Unknown status {status!r}. Use one of: {', '.join(STATUSES)}.")
    found = [
        {field: claim[field] for field in SUMMARY}
        for claim in load_claims()
        if (not status or claim["status"] == status)
        and (not name or name in claim["policyHolder"].lower())
    ]
    return sorted(found, key=lambda claim: claim["claimId"], reverse=True)


def get_claim_details(claimId):
    claim = dict(find_claim(claimId))
    del claim["missingDocuments"]
    return claim


def list_missing_documents(claimId):
    claim = find_claim(claimId)
    return {"claimId": claim["claimId"], "missingDocuments": claim["missingDocuments"]}


def send_reminder(claimId):
    claim = find_claim(claimId)
    if not claim["missingDocuments"]:
        raise ApiError(409, f"No document is missing for {claim['claimId']}; nothing was sent.")
    reminder = {
        "trackingId": f"rem-{uuid.uuid4().hex[:8]}",
        "claimId": claim["claimId"],
        "sentTo": claim["contact"]["email"],
        "documents": claim["missingDocuments"],
    }
    note = {**reminder, "sentAt": datetime.now(UTC).isoformat(timespec="seconds")}
    with open(reminders_file(), "a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")
    return reminder


def reminders_file():
    default = Path(tempfile.gettempdir()) / "insurance-reminders.jsonl"
    return Path(os.environ.get("REMINDERS_FILE") or default)


ROUTES = {
    ("GET", "/claims"): list_claims,
    ("GET", "/claims/{claimId}"): get_claim_details,
    ("GET", "/claims/{claimId}/missing-documents"): list_missing_documents,
    ("POST", "/reminders"): send_reminder,
}


def arguments(event):
    """Path and query parameters, and the properties of the request body, as one dictionary."""
    body = event.get("requestBody", {}).get("content", {}).get("application/json", {})
    given = [*event.get("parameters", []), *body.get("properties", [])]
    return {parameter["name"]: parameter["value"] for parameter in given}


def answer(event):
    """The HTTP status and the result of the operation that the event asks for."""
    operation = ROUTES.get((event["httpMethod"].upper(), event["apiPath"]))
    if operation is None:
        return 404, {"error": f"No operation {event['httpMethod']} {event['apiPath']}"}
    try:
        call = signature(operation).bind(**arguments(event))
    except TypeError as error:  # a parameter is missing, or is not one of the operation's
        return 400, {"error": str(error)}
    try:
        return 200, operation(*call.args, **call.kwargs)
    except ApiError as error:
        return error.status, {"error": str(error)}


def lambda_handler(event, context):
    status, result = answer(event)
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "apiPath": event["apiPath"],
            "httpMethod": event["httpMethod"],
            "httpStatusCode": status,
            "responseBody": {"application/json": {"body": json.dumps(result)}},
        },
        "sessionAttributes": event.get("sessionAttributes", {}),
        "promptSessionAttributes": event.get("promptSessionAttributes", {}),
    }
