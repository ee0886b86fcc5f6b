"""A flow's life, with boto3: it is created, prepared, versioned, aliased, invoked and deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bedrock_flow_support import create, invoke, model, prepare, ready
from botocore.exceptions import ClientError
from control_support import refused, served
from inline_snapshot import snapshot
from node_graphs import ROLE, chain, data, end, flow, node, outputs, prompt, start
from server_requests import ID, OTHER_ID, OTHER_SECRET, SECRET, write_keys

ASKS = prompt("Ask", "Write of {{topic}}", ("topic", "String"))
LETTER = chain(ASKS, "topic", "modelCompletion")


def fixed(members: dict[str, Any], id: str) -> Any:
    """Members without what differs from run to run."""
    found = json.loads(json.dumps(members, default=lambda it: "<time>").replace(id, "<id>"))
    for name in ("ResponseMetadata", "definition"):
        found.pop(name, None)
    return found


def test_a_flow_is_prepared_versioned_aliased_and_invoked() -> None:
    with served(model=model()) as server:
        control = server.control
        created = control.create_flow(
            name="letters", description="Writes.", executionRoleArn=ROLE, definition=LETTER
        )
        id = created["id"]
        assert fixed(created, id) == snapshot(
            {
                "name": "letters",
                "description": "Writes.",
                "executionRoleArn": "arn:aws:iam::123456789012:role/FlowRole",
                "id": "<id>",
                "arn": "arn:aws:bedrock:us-east-1:000000000000:flow/<id>",
                "status": "NotPrepared",
                "createdAt": "<time>",
                "updatedAt": "<time>",
                "version": "DRAFT",
            }
        )
        assert fixed(prepare(control, id), id) == snapshot(
            {
                "name": "letters",
                "description": "Writes.",
                "executionRoleArn": "arn:aws:iam::123456789012:role/FlowRole",
                "id": "<id>",
                "arn": "arn:aws:bedrock:us-east-1:000000000000:flow/<id>",
                "status": "Prepared",
                "createdAt": "<time>",
                "updatedAt": "<time>",
                "version": "DRAFT",
                "validations": [],
            }
        )
        version = control.create_flow_version(flowIdentifier=id, description="First.")
        assert fixed(version, id) == snapshot(
            {
                "name": "letters",
                "description": "First.",
                "executionRoleArn": "arn:aws:iam::123456789012:role/FlowRole",
                "id": "<id>",
                "arn": "arn:aws:bedrock:us-east-1:000000000000:flow/<id>",
                "status": "Prepared",
                "createdAt": "<time>",
                "version": "1",
            }
        )
        alias = control.create_flow_alias(
            flowIdentifier=id, name="live", routingConfiguration=[{"flowVersion": "1"}]
        )
        assert fixed({**alias, "id": "<alias>", "arn": ""}, id) == snapshot(
            {
                "name": "live",
                "routingConfiguration": [{"flowVersion": "1"}],
                "flowId": "<id>",
                "id": "<alias>",
                "arn": "",
                "createdAt": "<time>",
                "updatedAt": "<time>",
            }
        )
        events = invoke(server.runtime, id, "cats", alias["id"])
        assert events == snapshot(
            [
                {
                    "flowOutputEvent": {
                        "content": {"document": "<Write of cats>"},
                        "nodeName": "End",
                        "nodeType": "FlowOutputNode",
                    }
                },
                {"flowCompletionEvent": {"completionReason": "SUCCESS"}},
            ]
        )
        bare = control.get_flow(flowIdentifier=id, includedData="METADATA_ONLY")
        assert "definition" not in bare
        by_arn = server.runtime.invoke_flow(
            flowIdentifier=created["arn"],
            flowAliasIdentifier=alias["arn"],
            inputs=[{"nodeName": "Start", "content": {"document": "dogs"}}],
        )
        assert outputs(by_arn["responseStream"]) == [("End", "<Write of dogs>")]


def test_an_alias_keeps_its_version_while_the_draft_changes() -> None:
    with served(model=model()) as server:
        control = server.control
        id = ready(control, LETTER)
        control.create_flow_version(flowIdentifier=id)
        alias = control.create_flow_alias(
            flowIdentifier=id, name="live", routingConfiguration=[{"flowVersion": "1"}]
        )["id"]
        other = chain(
            prompt("Ask", "Sing of {{topic}}", ("topic", "String")), "topic", "modelCompletion"
        )
        control.update_flow(
            flowIdentifier=id, name="letters", executionRoleArn=ROLE, definition=other
        )
        assert control.get_flow(flowIdentifier=id)["status"] == "NotPrepared"
        # What was prepared runs until the change is prepared.
        assert outputs(invoke(server.runtime, id, "cats")) == [("End", "<Write of cats>")]
        with refused("ValidationException", "call PrepareFlow first"):
            control.create_flow_version(flowIdentifier=id)
        prepare(control, id)
        assert outputs(invoke(server.runtime, id, "cats")) == [("End", "<Sing of cats>")]
        assert outputs(invoke(server.runtime, id, "cats", alias)) == [("End", "<Write of cats>")]
        control.create_flow_version(flowIdentifier=id)
        control.update_flow_alias(
            flowIdentifier=id,
            aliasIdentifier=alias,
            name="live",
            routingConfiguration=[{"flowVersion": "2"}],
        )
        assert outputs(invoke(server.runtime, id, "cats", alias)) == [("End", "<Sing of cats>")]


def test_a_flow_that_is_wrong_is_not_prepared_and_says_why() -> None:
    wrong = flow(start(), ASKS, end("Array"), data("Start.document", "End.document"))
    with served(model=model()) as server:
        control = server.control
        id = create(control, wrong)
        with refused("ValidationException", "was never prepared"):
            invoke(server.runtime, id, "cats")
        found = prepare(control, id)
        assert found["status"] == "Failed"
        shown = [(it["severity"], it["details"], it["message"]) for it in found["validations"]]
        assert shown == [
            (
                "Error",
                {"incompatibleConnectionDataType": {"connection": "StartdocumentToEnddocument"}},
                "the connection 'StartdocumentToEnddocument' gives String, of which the input "
                "'document' of the node 'End' takes $.data as Array",
            ),
            (
                "Error",
                {"unfulfilledNodeInput": {"node": "Ask", "input": "topic"}},
                "no connection leads to the input 'topic' of the node 'Ask'",
            ),
            (
                "Warning",
                {"unreachableNode": {"node": "Ask"}},
                "no way leads from 'Start' to the node 'Ask', which never runs",
            ),
        ]
        said = control.validate_flow_definition(definition=wrong)["validations"]
        assert said == found["validations"]
        with refused("ValidationException", "could not be prepared"):
            invoke(server.runtime, id, "cats")


def test_names_are_unique_and_requests_with_a_token_are_carried_out_once() -> None:
    with served(model=model()) as server:
        control = server.control
        once = {"name": "letters", "executionRoleArn": ROLE, "clientToken": "t" * 33}
        assert control.create_flow(**once)["id"] == control.create_flow(**once)["id"]
        with refused("ConflictException", "already a flow with the name 'letters'"):
            create(control)
        id = ready(control, LETTER, "songs")
        control.create_flow_version(flowIdentifier=id)
        given = {"flowIdentifier": id, "routingConfiguration": [{"flowVersion": "1"}]}
        control.create_flow_alias(name="live", **given)
        with refused("ConflictException", "already has an alias with the name 'live'"):
            control.create_flow_alias(name="live", **given)


def test_flows_versions_and_aliases_are_listed_ten_a_page() -> None:
    with served(model=model()) as server:
        control = server.control
        ids = [create(control, name=f"f{count}") for count in range(12)]
        pages = control.get_paginator("list_flows").paginate()
        found = [[it["id"] for it in page["flowSummaries"]] for page in pages]
        assert found == [ids[:10], ids[10:]]
        id = ready(control, LETTER)
        for _ in range(2):
            control.create_flow_version(flowIdentifier=id)
        versions = control.list_flow_versions(flowIdentifier=id, maxResults=1)
        assert [it["version"] for it in versions["flowVersionSummaries"]] == ["1"]
        more = control.list_flow_versions(flowIdentifier=id, nextToken=versions["nextToken"])
        assert [it["version"] for it in more["flowVersionSummaries"]] == ["2"]
        control.create_flow_alias(
            flowIdentifier=id, name="live", routingConfiguration=[{"flowVersion": "2"}]
        )
        aliases = control.list_flow_aliases(flowIdentifier=id)["flowAliasSummaries"]
        routes = [(it["name"], it["routingConfiguration"][0]["flowVersion"]) for it in aliases]
        assert routes == [("FlowTestAlias", "DRAFT"), ("live", "2")]
        test = control.get_flow_alias(flowIdentifier=id, aliasIdentifier="TSTALIASID")
        assert test["routingConfiguration"] == [{"flowVersion": "DRAFT"}]


def test_what_is_in_use_is_deleted_only_when_that_is_asked_for() -> None:
    with served(model=model()) as server:
        control = server.control
        id = ready(control, LETTER)
        control.create_flow_version(flowIdentifier=id)
        alias = control.create_flow_alias(
            flowIdentifier=id, name="live", routingConfiguration=[{"flowVersion": "1"}]
        )["id"]
        with refused("ConflictException", f"used by the aliases {alias}"):
            control.delete_flow_version(flowIdentifier=id, flowVersion="1")
        with refused("ConflictException", "has aliases (1)"):
            control.delete_flow(flowIdentifier=id)
        with refused("ValidationException", "belongs to every flow"):
            control.delete_flow_alias(flowIdentifier=id, aliasIdentifier="TSTALIASID")
        control.delete_flow_alias(flowIdentifier=id, aliasIdentifier=alias)
        control.delete_flow_version(flowIdentifier=id, flowVersion="1")
        with refused("ResourceNotFoundException"):
            control.get_flow_version(flowIdentifier=id, flowVersion="1")
        control.delete_flow(flowIdentifier=id)
        with refused("ResourceNotFoundException"):
            control.get_flow(flowIdentifier=id)
        rows = server.world.documents._rows._file.rows("SELECT kind FROM document")
        assert [kind for (kind,) in rows] == []


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("get_flow", {}),
        ("prepare_flow", {}),
        ("delete_flow", {}),
        ("list_flow_versions", {}),
        ("list_flow_aliases", {}),
        ("create_flow_version", {}),
        ("get_flow_version", {"flowVersion": "1"}),
        ("get_flow_alias", {"aliasIdentifier": "ABCDEFGHIJ"}),
        ("create_flow_alias", {"name": "a", "routingConfiguration": [{"flowVersion": "1"}]}),
    ],
)
def test_an_unknown_flow_is_not_found(operation: str, params: dict[str, Any]) -> None:
    elsewhere = "arn:aws:bedrock:eu-west-1:000000000000:flow/NOWHERE123"
    with served(model=model()) as server:
        for identifier in ("NOWHERE123", elsewhere):
            with refused("ResourceNotFoundException"):
                getattr(server.control, operation)(flowIdentifier=identifier, **params)


def test_an_alias_leads_to_a_version_that_is_there() -> None:
    with served(model=model()) as server:
        id = ready(server.control, LETTER)
        given = {"flowIdentifier": id, "name": "live"}
        with refused("ResourceNotFoundException"):
            server.control.create_flow_alias(**given, routingConfiguration=[{"flowVersion": "7"}])
        with refused("ValidationException", "numbered version"):
            server.control.create_flow_alias(
                **given, routingConfiguration=[{"flowVersion": "DRAFT"}]
            )


def test_flows_and_aliases_are_tagged() -> None:
    with served(model=model()) as server:
        control = server.control
        made = control.create_flow(
            name="letters", executionRoleArn=ROLE, definition=LETTER, tags={"stage": "dev"}
        )
        prepare(control, made["id"])
        control.create_flow_version(flowIdentifier=made["id"])
        alias = control.create_flow_alias(
            flowIdentifier=made["id"],
            name="live",
            routingConfiguration=[{"flowVersion": "1"}],
            tags={"stage": "live"},
        )
        for arn, stage in ((made["arn"], "dev"), (alias["arn"], "live")):
            assert control.list_tags_for_resource(resourceArn=arn)["tags"] == {"stage": stage}
            control.tag_resource(resourceArn=arn, tags={"team": "a"})
            control.untag_resource(resourceArn=arn, tagKeys=["stage"])
            found = server.runtime.list_tags_for_resource(resourceArn=arn)["tags"]
            assert found == {"team": "a"}
        with refused("ResourceNotFoundException"):
            control.list_tags_for_resource(resourceArn=f"{made['arn']}/alias/NOWHERE123")


def test_tenants_do_not_see_each_others_flows(tmp_path: Path) -> None:
    with served(model=model(), keys=write_keys(tmp_path)) as server:
        ours, others = server.control_as(ID, SECRET), server.control_as(OTHER_ID, OTHER_SECRET)
        id = ready(ours, LETTER)
        assert others.list_flows()["flowSummaries"] == []
        with refused("ResourceNotFoundException"):
            others.get_flow(flowIdentifier=id)
        with refused("ResourceNotFoundException"):
            invoke(server.runtime_as(OTHER_ID, OTHER_SECRET), id, "cats")
        assert create(others, LETTER)  # their own name, too
        found = invoke(server.runtime_as(ID, SECRET), id, "cats")
        assert outputs(found) == [("End", "<Write of cats>")]


def test_a_server_that_starts_again_has_its_flows(tmp_path: Path) -> None:
    state = tmp_path / "sessions.sqlite"
    with served(model=model(), state=state) as server:
        id = ready(server.control, LETTER)
    with served(model=model(), state=state) as server:
        assert server.control.get_flow(flowIdentifier=id)["status"] == "Prepared"
        assert outputs(invoke(server.runtime, id, "cats")) == [("End", "<Write of cats>")]


def test_a_flow_larger_than_bedrocks_is_refused_at_once() -> None:
    many = [start(name=f"N{count}") for count in range(10_000)]
    with served(model=model()) as server:
        with refused("ValidationException", "less than or equal to 40"):
            create(server.control, flow(*many[:1_000]))
        with refused("SerializationException", "more than 200,000 JSON values"):
            create(server.control, flow(*many))
        deep = node("Once", "Loop", definition=flow(start()))
        for _ in range(40):
            deep = node("Once", "Loop", definition=flow(deep))
        with pytest.raises(ClientError) as found:
            create(server.control, flow(deep))
        assert found.value.response["Error"]["Code"] in (
            "ValidationException",
            "SerializationException",
        )
