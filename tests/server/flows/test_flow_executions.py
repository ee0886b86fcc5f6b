"""Executions in the background: started, watched by their events, listed and stopped."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from bedrock_flow_support import model, ready
from control_support import LAMBDA, Served, refused, served
from inline_snapshot import snapshot
from node_graphs import chain, node, prompt
from server_requests import ID, OTHER_ID, OTHER_SECRET, SECRET, write_keys
from waiting import until

LETTER = chain(prompt("Ask", "Of {{topic}}", ("topic", "String")), "topic", "modelCompletion")
CALLS = chain(
    node(
        "Call",
        "LambdaFunction",
        [("codeHookInput", "String")],
        [("functionResponse", "String")],
        lambdaArn=LAMBDA,
    ),
    "codeHookInput",
    "functionResponse",
)


def begin(runtime: Any, id: str, document: Any = "cats", **params: Any) -> dict[str, str]:
    """What names a new execution."""
    arn = runtime.start_flow_execution(
        flowIdentifier=id,
        flowAliasIdentifier="TSTALIASID",
        inputs=[{"nodeName": "Start", "content": {"document": document}}],
        **params,
    )["executionArn"]
    return {"flowIdentifier": id, "flowAliasIdentifier": "TSTALIASID", "executionIdentifier": arn}


def finish(runtime: Any, execution: dict[str, str]) -> dict[str, Any]:
    """An execution that has ended."""
    until(lambda: runtime.get_flow_execution(**execution)["status"] != "Running")
    found: dict[str, Any] = runtime.get_flow_execution(**execution)
    found.pop("ResponseMetadata")
    return found


def events(runtime: Any, execution: dict[str, str], type: str) -> list[Any]:
    pages = runtime.get_paginator("list_flow_execution_events").paginate(
        **execution, eventType=type
    )
    found = [event for page in pages for event in page["flowExecutionEvents"]]
    for event in found:
        for members in event.values():
            members.pop("timestamp")
            members.pop("requestId", None)
    return found


def test_an_execution_runs_and_its_events_say_how(server: Served) -> None:
    id = ready(server.control, LETTER)
    execution = begin(server.runtime, id, flowExecutionName="first")
    found = finish(server.runtime, execution)
    assert found.pop("startedAt") <= found.pop("endedAt")
    arn = found.pop("executionArn")
    assert arn == server.world.flows.store.arns.flow_execution(id, "TSTALIASID", "first")
    assert json.loads(json.dumps(found).replace(id, "<id>")) == snapshot(
        {
            "flowAliasIdentifier": "TSTALIASID",
            "flowIdentifier": "<id>",
            "flowVersion": "DRAFT",
            "status": "Succeeded",
        }
    )
    assert events(server.runtime, execution, "Flow") == snapshot(
        [
            {
                "flowInputEvent": {
                    "fields": [{"content": {"document": "cats"}, "name": "document"}],
                    "nodeName": "Start",
                }
            },
            {
                "flowOutputEvent": {
                    "fields": [{"content": {"document": "<Of cats>"}, "name": "document"}],
                    "nodeName": "End",
                }
            },
        ]
    )
    assert events(server.runtime, execution, "Node") == snapshot(
        [
            {
                "nodeOutputEvent": {
                    "fields": [
                        {
                            "content": {"document": "cats"},
                            "name": "document",
                            "next": [{"inputFieldName": "topic", "nodeName": "Ask"}],
                            "type": "String",
                        }
                    ],
                    "nodeName": "Start",
                }
            },
            {
                "nodeInputEvent": {
                    "fields": [
                        {
                            "content": {"document": "cats"},
                            "name": "topic",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Start",
                                "outputFieldName": "document",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeActionEvent": {
                    "nodeName": "Ask",
                    "operationName": "Converse",
                    "operationRequest": {
                        "modelId": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                        "system": [],
                        "messages": [{"role": "user", "content": [{"text": "Of cats"}]}],
                        "inferenceConfig": {},
                        "additionalModelRequestFields": {},
                    },
                    "operationResponse": {
                        "output": {
                            "message": {"role": "assistant", "content": [{"text": "<Of cats>"}]}
                        },
                        "stopReason": "end_turn",
                        "usage": {"inputTokens": 0, "outputTokens": 2, "totalTokens": 2},
                    },
                    "serviceName": "bedrock",
                }
            },
            {
                "nodeOutputEvent": {
                    "fields": [
                        {
                            "content": {"document": "<Of cats>"},
                            "name": "modelCompletion",
                            "next": [{"inputFieldName": "document", "nodeName": "End"}],
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeInputEvent": {
                    "fields": [
                        {
                            "content": {"document": "<Of cats>"},
                            "name": "document",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Ask",
                                "outputFieldName": "modelCompletion",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "End",
                }
            },
        ]
    )
    kept = server.runtime.get_execution_flow_snapshot(**execution)
    assert json.loads(kept["definition"])["nodes"][1]["name"] == "Ask"
    assert kept["flowVersion"] == "DRAFT"


def test_an_execution_that_fails_says_in_which_node() -> None:
    def fail(event: Any, context: Any) -> Any:
        raise KeyError("secret")

    with served(model=model(), lambdas={LAMBDA: fail}) as server:
        execution = begin(server.runtime, ready(server.control, CALLS))
        assert finish(server.runtime, execution)["status"] == "Failed"
        (failure,) = [
            it["nodeFailureEvent"]
            for it in events(server.runtime, execution, "Node")
            if "nodeFailureEvent" in it
        ]
        assert (failure["nodeName"], failure["errorCode"]) == ("Call", "DEPENDENCY_FAILED")
        assert "secret" not in failure["errorMessage"]
        last = events(server.runtime, execution, "Flow")[-1]
        assert last["flowFailureEvent"]["errorCode"] == "NODE_EXECUTION_FAILED"


def test_an_execution_is_stopped_before_its_next_node() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def wait(event: Any, context: Any) -> Any:
        begun.set()
        goes_on.wait(60)
        return "late"

    with served(model=model(), lambdas={LAMBDA: wait}) as server:
        execution = begin(server.runtime, ready(server.control, CALLS))
        assert begun.wait(60)
        stopped = server.runtime.stop_flow_execution(**execution)
        assert stopped["status"] == "Aborted"
        goes_on.set()
        with refused("ConflictException", "is Aborted; it runs no more"):
            server.runtime.stop_flow_execution(**execution)
        until(lambda: not server.world.flows._stops)
        assert finish(server.runtime, execution)["status"] == "Aborted"
        kinds = [next(iter(it)) for it in events(server.runtime, execution, "Node")]
        assert kinds == ["nodeOutputEvent", "nodeInputEvent"]


def test_executions_are_listed_the_newest_first(server: Served) -> None:
    id = ready(server.control, LETTER)
    started = [begin(server.runtime, id)["executionIdentifier"] for _ in range(3)]
    pages = server.runtime.get_paginator("list_flow_executions").paginate(
        flowIdentifier=id, PaginationConfig={"PageSize": 2}
    )
    found = [[it["executionArn"] for it in page["flowExecutionSummaries"]] for page in pages]
    assert found == [started[:0:-1], started[:1]]
    with refused("ConflictException", "has an execution 'twice' already"):
        for _ in range(2):
            begin(server.runtime, id, flowExecutionName="twice")


def test_inline_code_is_not_part_of_an_execution(server: Served) -> None:
    code = node(
        "Code",
        "InlineCode",
        [("text", "String")],
        [("response", "String")],
        code="text",
        language="Python_3",
    )
    id = ready(server.control, chain(code, "text", "response"))
    with refused("ValidationException", "the node 'Code' of the type InlineCode cannot be part"):
        begin(server.runtime, id)


def test_an_execution_is_its_tenants(tmp_path: Path) -> None:
    with served(model=model(), keys=write_keys(tmp_path)) as server:
        ours, others = server.runtime_as(ID, SECRET), server.runtime_as(OTHER_ID, OTHER_SECRET)
        id = ready(server.control_as(ID, SECRET), LETTER)
        execution = begin(ours, id)
        assert finish(ours, execution)["status"] == "Succeeded"
        for operation in ("get_flow_execution", "stop_flow_execution"):
            with refused("ResourceNotFoundException"):
                getattr(others, operation)(**execution)


def test_an_execution_whose_server_has_stopped_has_failed(tmp_path: Path) -> None:
    state = tmp_path / "sessions.sqlite"
    with served(model=model(), state=state) as server:
        id = ready(server.control, LETTER)
        execution = begin(server.runtime, id)
        finish(server.runtime, execution)
        # As a process leaves it that was killed in the middle.
        name = execution["executionIdentifier"].rpartition("/")[2]
        documents = server.world.documents
        record = documents.get("", "flow-execution", name, id)
        assert record is not None
        record |= {"status": "Running", "process": "gone"}
        documents.put("", "flow-execution", name, record, id)
    with served(model=model(), state=state) as server:
        assert server.runtime.get_flow_execution(**execution)["status"] == "Failed"
        last = events(server.runtime, execution, "Flow")[-1]["flowFailureEvent"]
        assert "start it again" in last["errorMessage"]


@pytest.mark.parametrize("operation", ["get_flow_execution", "get_execution_flow_snapshot"])
def test_an_unknown_execution_is_not_found(server: Served, operation: str) -> None:
    id = ready(server.control, LETTER)
    with refused("ResourceNotFoundException"):
        getattr(server.runtime, operation)(
            flowIdentifier=id, flowAliasIdentifier="TSTALIASID", executionIdentifier="nothing"
        )
