"""A handler that uses DynamoDB, unchanged, under moto."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from action_support import run
from moto import mock_aws
from test_lambda_handlers import handler

from orchestrator.actions import ActionGroup

CODE = """
import os
import boto3
table = boto3.resource("dynamodb").Table(os.environ["TABLE"])

def lambda_handler(event, context):
    given = {p["name"]: p["value"] for p in event.get("parameters", [])}
    if event["function"] == "book":
        table.put_item(Item={"id": given["id"], "seats": int(given["seats"])})
        body = "booked"
    else:
        body = table.get_item(Key={"id": given["id"]}).get("Item")
    return {"response": {"actionGroup": event["actionGroup"], "function": event["function"],
            "functionResponse": {"responseBody": {"TEXT": {"body": body}}}}}
"""


def test_a_dynamodb_handler_runs_with_its_own_region_and_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    text, number = {"type": "string", "required": True}, {"type": "integer", "required": True}
    functions = [
        {"name": "book", "parameters": {"id": text, "seats": number}},
        {"name": "get", "parameters": {"id": text}},
    ]
    environment = {"TABLE": "bookings", "AWS_DEFAULT_REGION": "eu-central-1"}
    made = ActionGroup(
        "bookings", functions=functions, executor=handler(tmp_path, CODE, environment=environment)
    )
    with mock_aws():
        boto3.client("dynamodb", region_name="eu-central-1").create_table(
            TableName="bookings",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        assert run(made, "book", id="b-1", seats="4").text == "booked"
        result = run(made, "get", id="b-1")
    assert result.text in ('{"id": "b-1", "seats": 4}', '{"seats": 4, "id": "b-1"}')
    assert "the body is a dict, not a text; made into JSON" in result.notes
