"""Policies and claims of the signed-in customer, as an AWS Lambda function for a Bedrock agent.

Runs unchanged in AWS Lambda and inside `orchestrator`. One environment variable:

    CLAIMS_FILE     where opened claims are kept, one JSON object a line
                    (default: home-claims.jsonl in the system's temporary folder)
"""

import json
import os
import tempfile
from pathlib import Path

AGENT_FOLDER = Path(__file__).resolve().parents[2]
FIRST = 1001


class Reprompt(Exception):
    """The call makes no sense as it is; the text tells the model what to do better."""


def claims_file():
    default = Path(tempfile.gettempdir()) / "home-claims.jsonl"
    return Path(os.environ.get("CLAIMS_FILE") or default)


def all_claims():
    file = claims_file()
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def get_policy(policy):
    return {name: value for name, value in policy.items() if name != "id"}


def open_claim(policy, damage="", description=""):
    kind = damage.strip().lower()
    if kind not in policy["covers"]:
        covered = ", ".join(policy["covers"])
        raise Reprompt(f"The policy does not cover {damage!r}; it covers {covered}. Tell so.")
    claim = {
        "claim_id": f"H-{FIRST + len(all_claims())}",
        "policy": policy["id"],
        "damage": kind,
        "description": description,
        "status": "open",
    }
    with claims_file().open("a", encoding="utf-8") as file:
        file.write(json.dumps(claim) + "\n")
    return {**shown(claim), "customerPaysEUR": policy["customerPaysEUR"]}


def get_claim(policy, claim_id=""):
    number = "H-" + claim_id.strip().upper().removeprefix("H-")
    for claim in all_claims():
        if (claim["claim_id"], claim["policy"]) == (number, policy["id"]):
            return shown(claim)
    raise Reprompt(f"The customer has no claim {claim_id!r}. Ask for its number.")


def shown(claim):
    return {name: value for name, value in claim.items() if name != "policy"}


FUNCTIONS = {function.__name__: function for function in (get_policy, open_claim, get_claim)}


def run(event, attributes):
    """The state and the text of the response: who is asking, then what is asked."""
    policies = json.loads((AGENT_FOLDER / "data/policies.json").read_text(encoding="utf-8"))
    policy_id = attributes.get("policyId")
    policy = policies.get(policy_id)
    if policy is None and policy_id:
        return "FAILURE", f"There is no policy {policy_id!r}: see the session attribute policyId."
    if policy is None:
        return "FAILURE", "No customer is signed in: set the session attribute policyId."
    parameters = {one["name"]: one["value"] for one in event.get("parameters", [])}
    try:
        result = FUNCTIONS[event["function"]](
            {"id": attributes["policyId"], **policy}, **parameters
        )
    except Reprompt as problem:
        return "REPROMPT", str(problem)
    if "claim_id" in result:
        attributes["claimId"] = result["claim_id"]  # for the actions of the other agents, too
    return "", json.dumps(result)


def lambda_handler(event, context):
    """Answers one call of the agent."""
    attributes = dict(event["sessionAttributes"])
    state, text = run(event, attributes)
    response = {"responseBody": {"TEXT": {"body": text}}}
    if state:
        response["responseState"] = state
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "function": event["function"],
            "functionResponse": response,
        },
        "sessionAttributes": attributes,
        "promptSessionAttributes": event["promptSessionAttributes"],
    }
