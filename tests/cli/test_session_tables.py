"""`orchestrator sessions create-table`."""

import json

import pytest

from orchestrator.support.dynamodb import DynamoTable
from orchestrator.support.store_urls import parse_store


@pytest.fixture
def url(dynamodb_url):
    endpoint = parse_store(dynamodb_url).endpoint_url
    return f"dynamodb://made-by-command?region=eu-central-1&endpoint_url={endpoint}"


def test_the_table_is_made_once(run, url):
    assert run("sessions", "create-table", "--state", url).stdout == (
        "made dynamodb://made-by-command\n"
    )
    again = run("sessions", "create-table", "--state", url, "--json")
    assert json.loads(again.stdout) == {"table": "made-by-command", "created": False}
    table = DynamoTable(parse_store(url), "the table")
    found = table.client.describe_table(TableName=table.name)["Table"]
    assert found["KeySchema"][0] == {"AttributeName": "pk", "KeyType": "HASH"}
    lifetime = table.client.describe_time_to_live(TableName=table.name)
    assert lifetime["TimeToLiveDescription"]["TimeToLiveStatus"] == "ENABLED"


def test_the_definition_is_that_of_the_table_and_asks_nobody(run):
    done = run("sessions", "create-table", "--state", "dynamodb://agents", "--print")
    printed = json.loads(done.stdout)
    assert printed["Type"] == "AWS::DynamoDB::Table"
    properties = printed["Properties"]
    assert properties["TableName"] == "agents" and properties["BillingMode"] == "PAY_PER_REQUEST"
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}
    keys = {it["AttributeName"] for it in properties["AttributeDefinitions"]}
    used = [properties, *properties["GlobalSecondaryIndexes"]]
    assert keys == {it["AttributeName"] for one in used for it in one["KeySchema"]}


@pytest.mark.parametrize("state", ["s.sqlite", "memory:", "postgresql://u:canary@h/d", "x://y"])
def test_other_stores_have_no_table(run, state):
    done = run("sessions", "create-table", "--state", state)
    assert done.exit_code == 2 and "canary" not in done.stderr
