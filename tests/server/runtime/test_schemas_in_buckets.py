"""`serve --bucket` and agents in folders: a schema in S3 is a file of the bucket's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from runtime_servers import CLAUDE, calls, definition, running, says, write_agent

from orchestrator.testing import ScriptedModel

BUCKET = "schemas-of-the-house"
KEY = "rooms/openapi.yaml"
OPENAPI = """openapi: 3.0.0
info: {title: Rooms, version: "1"}
paths:
  /rooms/{floor}:
    get:
      operationId: findRooms
      description: The free rooms of a floor.
      parameters:
        - {name: floor, in: path, required: true, schema: {type: string}}
      responses: {"200": {description: The rooms.}}
"""
GROUP = {
    "actionGroupName": "rooms",
    "actionGroupExecutor": {"lambda": "rooms.py"},
    "apiSchema": {"s3": {"s3BucketName": BUCKET, "s3ObjectKey": KEY}},
}
HANDLER = """
import json
def lambda_handler(event, context):
    body = {"application/json": {"body": json.dumps(event["parameters"])}}
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "apiPath": event["apiPath"],
        "httpMethod": event["httpMethod"], "httpStatusCode": 200, "responseBody": body}}
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    write_agent(tmp_path / "agents", definition(actionGroups=[GROUP]), **{"rooms.py": HANDLER})
    (tmp_path / "bucket" / "rooms").mkdir(parents=True)
    return tmp_path


def turn(operation: str = "findRooms") -> list[Any]:
    return [calls(f"GET__rooms__{operation}", {"floor": "3"}), says("Room 31.")]


def test_a_schema_in_a_folder_that_stands_for_the_bucket(house: Path) -> None:
    file = house / "bucket" / KEY
    file.write_text(OPENAPI)
    model = ScriptedModel([*turn(), *turn("listRooms")], CLAUDE)
    with running(model, house / "agents", buckets={BUCKET: house / "bucket"}) as server:
        assert server.invoke("A room on the third floor?")["text"] == "Room 31."
        (result,) = model.requests[1].messages[-1]["content"]
        shown = json.loads(result["toolResult"]["content"][0]["text"])
        assert shown == [{"name": "floor", "type": "string", "value": "3"}]
        # A changed schema is read again, as a changed file of the agent is.
        file.write_text(OPENAPI.replace("findRooms", "listRooms"))
        assert server.invoke("And on the third?", "s-2")["text"] == "Room 31."
        (tool,) = model.requests[2].tools
        assert tool["toolSpec"]["name"] == "GET__rooms__listRooms"


def test_an_agent_is_right_again_when_its_schema_is_there(house: Path) -> None:
    model = ScriptedModel(turn(), CLAUDE)
    with running(model, house / "agents", buckets={BUCKET: house / "bucket"}) as server:
        with pytest.raises(ClientError, match="there is no object"):
            server.invoke("A room?")
        (house / "bucket" / KEY).write_text(OPENAPI)
        assert server.invoke("A room?")["text"] == "Room 31."


@pytest.mark.parametrize(
    "key", ["../agents/rooms.py", "/etc/passwd", "rooms/../../agents/rooms.py"]
)
def test_a_key_stays_in_the_folder(house: Path, key: str) -> None:
    group = {**GROUP, "apiSchema": {"s3": {"s3BucketName": BUCKET, "s3ObjectKey": key}}}
    write_agent(house / "agents", definition(actionGroups=[group]))
    with running(None, house / "agents", buckets={BUCKET: house / "bucket"}) as server:
        with pytest.raises(ClientError, match="there is no object"):
            server.invoke("A room?")


def test_other_buckets_are_amazons(house: Path) -> None:
    import boto3

    model = ScriptedModel(turn(), CLAUDE)
    with mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key=KEY, Body=OPENAPI.encode())
        s3.close()
        with running(model, house / "agents", buckets={"another": house / "bucket"}) as server:
            agent = server.world.agents.folders.all()[0].agent()
    assert [one.name for one in agent.plan.catalog.operations] == ["findRooms"]
