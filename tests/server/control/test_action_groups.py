"""Action groups over the API: what they may be, and what they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from control_support import (
    FUNCTIONS,
    LAMBDA,
    OPENAPI,
    Served,
    by_caller,
    by_lambda,
    calls,
    refused,
    says,
    served,
)
from moto import mock_aws

from orchestrator.server.operations import Caller

S3 = {"s3": {"s3BucketName": "schemas", "s3ObjectKey": "hr/api.json"}}


def with_schema(schema: dict[str, Any], name: str = "hr") -> dict[str, Any]:
    group = by_caller(name, apiSchema=schema)
    del group["functionSchema"]
    return group


def test_a_group_is_told_as_it_was_given(server: Served) -> None:
    id = server.create()
    given = by_caller("hr", description="About people.", actionGroupState="DISABLED")
    group = server.add(id, **given)
    found = server.control.get_agent_action_group(
        agentId=id, agentVersion="DRAFT", actionGroupId=group
    )["agentActionGroup"]
    for name, value in given.items():
        assert found[name] == value
    assert (found["agentId"], found["agentVersion"]) == (id, "DRAFT")
    (summary,) = server.control.list_agent_action_groups(agentId=id, agentVersion="DRAFT")[
        "actionGroupSummaries"
    ]
    assert summary == {
        "actionGroupId": group,
        "actionGroupName": "hr",
        "actionGroupState": "DISABLED",
        "description": "About people.",
        "updatedAt": found["updatedAt"],
    }


def test_a_built_in_group_has_its_signature(server: Served) -> None:
    id = server.create()
    signature = "AMAZON.UserInput"
    made = server.control.create_agent_action_group(
        agentId=id,
        agentVersion="DRAFT",
        actionGroupName="UserInputAction",
        parentActionGroupSignature=signature,
    )["agentActionGroup"]
    assert made["parentActionSignature"] == signature
    assert made["actionGroupState"] == "ENABLED"
    assert server.prepare(id)["agentStatus"] == "PREPARED"
    with refused("ValidationException", "has no description"):
        server.add(
            id,
            actionGroupName="other",
            parentActionGroupSignature=signature,
            description="no",
        )
    with refused("ValidationException", "has no functionSchema"):
        server.add(id, parentActionGroupSignature=signature, **by_caller("other"))


def test_an_agent_that_may_ask_its_user_asks() -> None:
    script = [calls("user__askuser", {"question": "Which claim?"}), says("no")]
    with served(script) as server:
        id = server.create()
        server.add(id, actionGroupName="ask", parentActionGroupSignature="AMAZON.UserInput")
        server.prepare(id)
        assert server.ask(id) == "Which claim?"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"apiSchema": {"payload": OPENAPI}}, "both apiSchema and functionSchema"),
        ({"functionSchema": None}, "no schema"),
        ({"actionGroupExecutor": None}, "no actionGroupExecutor"),
        ({"functionSchema": {"functions": []}}, "there is no function"),
        ({"functionSchema": {"functions": FUNCTIONS * 2}}, "second function"),
    ],
)
def test_a_group_that_cannot_be_is_refused(
    server: Served, change: dict[str, Any], text: str
) -> None:
    id = server.create()
    group = {**by_caller(), **change}
    with refused("ValidationException", text):
        server.add(id, **{key: it for key, it in group.items() if it is not None})


@pytest.mark.parametrize("payload", ["{", "openapi: 3.0.0", '{"openapi": "3.0.0", "paths": 1}'])
def test_a_broken_schema_is_refused(server: Served, payload: str) -> None:
    with refused("ValidationException"):
        server.add(server.create(), **with_schema({"payload": payload}))


def test_names_of_groups_are_an_agents_own(server: Served) -> None:
    id, other = server.create("one"), server.create("two")
    first = server.add(id, **by_caller("hr"))
    second = server.add(id, **by_caller("pay"))
    server.add(other, **by_caller("hr"))
    with refused("ConflictException", "'hr'"):
        server.add(id, **by_caller("hr"))
    where = {"agentId": id, "agentVersion": "DRAFT"}
    with refused("ConflictException", "'hr'"):
        server.control.update_agent_action_group(**where, actionGroupId=second, **by_caller("hr"))
    server.control.update_agent_action_group(**where, actionGroupId=first, **by_caller("hr"))
    with refused("ResourceNotFoundException"):
        server.control.update_agent_action_group(
            agentId=other, agentVersion="DRAFT", actionGroupId=first, **by_caller("x")
        )


def test_an_agent_has_as_many_groups_as_in_aws(server: Served) -> None:
    id = server.create()
    for n in range(15):
        server.add(id, **by_caller(f"g{n}"))
    with refused("ServiceQuotaExceededException", "15"):
        server.add(id, **by_caller("more"))
    for n in range(15, 20):
        server.add(id, **by_caller(f"g{n}", actionGroupState="DISABLED"))
    with refused("ServiceQuotaExceededException", "20"):
        server.add(id, **by_caller("more", actionGroupState="DISABLED"))
    pages = server.control.get_paginator("list_agent_action_groups").paginate(
        agentId=id, agentVersion="DRAFT", PaginationConfig={"PageSize": 8}
    )
    names = [it["actionGroupName"] for page in pages for it in page["actionGroupSummaries"]]
    assert names == [f"g{n}" for n in range(20)]
    functions = [{**FUNCTIONS[0], "name": f"f{n}"} for n in range(12)]
    with refused("ServiceQuotaExceededException", "12 operations"):
        server.add(server.create("two"), **by_caller(functionSchema={"functions": functions}))


def test_a_disabled_group_is_not_the_agents() -> None:
    with served(lambda request: says(str(len(request.tools)))) as server:
        id = server.create()
        group = server.add(id, **by_caller())
        server.prepare(id)
        assert server.ask(id, sessionId="s-1") == "1"
        server.control.update_agent_action_group(
            agentId=id,
            agentVersion="DRAFT",
            actionGroupId=group,
            **by_caller(actionGroupState="DISABLED"),
        )
        server.prepare(id)
        assert server.ask(id, sessionId="s-2") == "0"


def test_a_schema_in_s3_is_that_of_a_local_folder(tmp_path: Path) -> None:
    (tmp_path / "hr").mkdir()
    file = tmp_path / "hr" / "api.json"
    file.write_text(OPENAPI)
    script = [calls("GET__hr__getDays", {}), says("no")] * 2
    with served(script, buckets={"schemas": tmp_path}) as server:
        id = server.create()
        group = server.add(id, **with_schema(S3))
        server.prepare(id)
        file.write_text(OPENAPI.replace("getDays", "other"))  # what was prepared stays
        (asked,) = json.loads(server.ask(id))
        assert asked[0]["apiInvocationInput"]["apiPath"] == "/days"
        found = server.control.get_agent_action_group(
            agentId=id, agentVersion="DRAFT", actionGroupId=group
        )["agentActionGroup"]
        assert found["apiSchema"] == S3


def test_a_schema_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with served(buckets={"schemas": tmp_path}) as server:
        id = server.create()
        for key in ("none.json", "../secret"):
            schema = {"s3": {"s3BucketName": "schemas", "s3ObjectKey": key}}
            with refused("ResourceNotFoundException"):
                server.add(id, **with_schema(schema))


def test_a_schema_in_amazons_s3_is_read_when_the_key_allows_it(tmp_path: Path) -> None:
    with mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        s3.create_bucket(Bucket="schemas")
        s3.put_object(Bucket="schemas", Key="hr/api.json", Body=OPENAPI.encode())
        with served() as server:
            handler = server.world.operations()["bedrock-agent"]["CreateAgentActionGroup"]
            id = server.create()
            from orchestrator.errors import AccessDenied
            from orchestrator.server.operations import Request

            def create(caller: Caller) -> Any:
                params = {"agentId": id, "agentVersion": "DRAFT", **with_schema(S3)}
                return handler(Request("bedrock-agent", "CreateAgentActionGroup", params, caller))

            with pytest.raises(AccessDenied, match="may not use"):
                create(Caller(allow=("s3://other/*",)))
            assert create(Caller(allow=("s3://schemas/*",)))["agentActionGroup"]


def test_a_lambda_function_that_the_key_does_not_allow_is_not_prepared() -> None:
    from orchestrator.server.operations import Request

    with served() as server:
        id = server.create()
        server.add(id, **by_lambda())
        handler = server.world.operations()["bedrock-agent"]["PrepareAgent"]
        caller = Caller(allow=("anthropic.*",))
        handler(Request("bedrock-agent", "PrepareAgent", {"agentId": id}, caller))  # type: ignore[arg-type]
        agent = server.control.get_agent(agentId=id)["agent"]
        assert agent["agentStatus"] == "FAILED"
        assert LAMBDA in agent["failureReasons"][0]


def test_a_lambda_function_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hr.py"
    file.write_text(
        "def answer(event, context):\n"
        "    body = {'TEXT': {'body': event['function'] + ' done'}}\n"
        "    return {'messageVersion': '1.0', 'response': {\n"
        "        'actionGroup': event['actionGroup'], 'function': event['function'],\n"
        "        'functionResponse': {'responseBody': body}}}\n"
    )
    script = [calls("hr__get_days", {"employee": "Ann"}), says("told")]
    with served(script, files={"vacations": f"{file}:answer"}) as server:
        id = server.create()
        server.add(id, **by_lambda())
        assert server.prepare(id)["agentStatus"] == "PREPARED"
        assert server.ask(id) == "told"
        assert "get_days done" in str(server.model.requests[-1].messages)


def test_an_update_that_does_not_say_whether_a_group_is_enabled_leaves_that(
    server: Served,
) -> None:
    id = server.create()
    group = server.add(id, **by_caller(actionGroupState="DISABLED"))
    updated = server.control.update_agent_action_group(
        agentId=id, agentVersion="DRAFT", actionGroupId=group, **by_caller("other")
    )["agentActionGroup"]
    assert (updated["actionGroupName"], updated["actionGroupState"]) == ("other", "DISABLED")
