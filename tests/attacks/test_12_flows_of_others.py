"""Attack 12: a flow of one tenant is neither read, changed nor run by another."""

from __future__ import annotations

from pathlib import Path

from control_support import refused, served, write_keys
from node_graphs import ROLE, data, end, flow, node, start

SECRET = "s" * 40
GIVEN = [{"nodeName": "Start", "nodeOutputName": "document", "content": {"document": "?"}}]


def read_key() -> dict[str, object]:
    """A flow that reads the object whose key it is given."""
    bucket = {"s3": {"bucketName": "their-letters"}}
    return flow(
        start(),
        node(
            "Letter",
            "Retrieval",
            [("objectKey", "String")],
            [("s3Content", "String")],
            serviceConfiguration=bucket,
        ),
        end(),
        data("Start.document", "Letter.objectKey"),
        data("Letter.s3Content", "End.document"),
    )


def test_anothers_flow_is_not_there(tmp_path: Path) -> None:
    keys = write_keys(tmp_path / "keys.json", SECRET, one=["*"], two=["*"])
    letters = tmp_path / "letters"
    letters.mkdir()
    (letters / "a.txt").write_text("Dear you")
    with served(keys=keys, buckets={"their-letters": letters}) as server:
        one, two = (server.control_as(f"AKID{name}", SECRET) for name in ("ONE", "TWO"))
        flows, theirs = (
            server.client("bedrock-agent-runtime", f"AKID{name}", SECRET) for name in ("ONE", "TWO")
        )
        made = one.create_flow(name="mine", executionRoleArn=ROLE, definition=read_key())
        id, arn = made["id"], made["arn"]
        one.prepare_flow(flowIdentifier=id)
        version = one.create_flow_version(flowIdentifier=id)["version"]
        routing = [{"flowVersion": version}]
        alias = one.create_flow_alias(flowIdentifier=id, name="a", routingConfiguration=routing)
        execution = flows.start_flow_execution(
            flowIdentifier=id,
            flowAliasIdentifier=alias["id"],
            inputs=[{**GIVEN[0], "content": {"document": "a.txt"}}],
        )["executionArn"]
        assert two.list_flows()["flowSummaries"] == []
        changed = {"name": "x", "executionRoleArn": ROLE}
        aliased = {"aliasIdentifier": alias["id"]}
        for identifier in (id, arn):
            for call, given in (
                (two.get_flow, {}),
                (two.update_flow, changed),
                (two.prepare_flow, {}),
                (two.create_flow_version, {}),
                (two.list_flow_versions, {}),
                (two.get_flow_version, {"flowVersion": version}),
                (two.delete_flow_version, {"flowVersion": version}),
                (two.create_flow_alias, {"name": "b", "routingConfiguration": routing}),
                (two.list_flow_aliases, {}),
                (two.get_flow_alias, aliased),
                (two.update_flow_alias, {**aliased, "name": "b", "routingConfiguration": routing}),
                (two.delete_flow_alias, aliased),
                (two.delete_flow, {}),
            ):
                with refused("ResourceNotFoundException"):
                    call(flowIdentifier=identifier, **given)
            run = {"flowIdentifier": identifier, "flowAliasIdentifier": alias["id"]}
            ran = {**run, "executionIdentifier": execution}
            for call, given in (
                (theirs.invoke_flow, {**run, "inputs": GIVEN}),
                (theirs.start_flow_execution, {**run, "inputs": GIVEN}),
                (theirs.list_flow_executions, {"flowIdentifier": identifier}),
                (theirs.get_flow_execution, ran),
                (theirs.list_flow_execution_events, {**ran, "eventType": "Flow"}),
                (theirs.get_execution_flow_snapshot, ran),
                (theirs.stop_flow_execution, ran),
            ):
                with refused("ResourceNotFoundException"):
                    call(**given)
        for tagged in (arn, alias["arn"]):
            with refused("ResourceNotFoundException"):
                two.list_tags_for_resource(resourceArn=tagged)
        assert one.get_flow(flowIdentifier=id)["name"] == "mine"
