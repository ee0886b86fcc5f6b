"""What these tests share: an agent that tells prices, whose Lambda looks them up in DynamoDB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
LAMBDA = "arn:aws:lambda:us-east-1:123456789012:function:prices"
INSTRUCTION = "You tell people the prices of the things that are sold in our shop."
PRICES = {
    "functions": [
        {
            "name": "get_price",
            "description": "The price of a thing.",
            "parameters": {"item": {"type": "string", "description": "What.", "required": True}},
        }
    ]
}
CALL = [{"toolUse": {"toolUseId": "t-1", "name": "shop__get_price", "input": {"item": "pen"}}}]
ANSWER = "<answer>3 euros.</answer>"
BY_LAMBDA = {
    "actionGroupName": "shop",
    "functionSchema": PRICES,
    "actionGroupExecutor": {"lambda": LAMBDA},
}
BY_CALLER = {**BY_LAMBDA, "actionGroupExecutor": {"customControl": "RETURN_CONTROL"}}


def definition(**members: Any) -> dict[str, Any]:
    return {
        "agentName": "shop",
        "foundationModel": CLAUDE,
        "instruction": INSTRUCTION,
        "actionGroups": [BY_LAMBDA],
        **members,
    }


def folder(where: Path, **members: Any) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    (where / "agent.yaml").write_text(json.dumps(definition(**members)))
    return where


def tells(price: str) -> Any:
    """A Lambda function that knows one price."""

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return response(event, price)

    return handler


def response(event: dict[str, Any], body: str) -> dict[str, Any]:
    told = {"responseBody": {"TEXT": {"body": body}}}
    action = {"actionGroup": event["actionGroup"], "function": event["function"]}
    return {"messageVersion": "1.0", "response": {**action, "functionResponse": told}}


def of_table(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """A Lambda function that asks DynamoDB, and writes a note to S3."""
    (item,) = [it["value"] for it in event["parameters"] if it["name"] == "item"]
    table = boto3.resource("dynamodb").Table("prices")
    found = table.get_item(Key={"item": item})["Item"]
    boto3.client("s3").put_object(Bucket="asked", Key=item, Body=b"asked")
    return response(event, str(found["price"]))
