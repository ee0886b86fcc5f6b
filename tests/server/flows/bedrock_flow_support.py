"""What tests of flows on a server share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from control_support import Answering, Served
from node_graphs import ROLE

from orchestrator.models import ModelRequest


def model(answer: Callable[[str], str] = lambda text: f"<{text}>") -> Answering:
    """A model that answers the last text of each request."""

    def reply(request: ModelRequest) -> str:
        return answer(request.messages[-1]["content"][0]["text"])

    return Answering(reply)


def create(control: Any, definition: Mapping[str, Any] | None = None, name: str = "letters") -> str:
    """The id of a new flow."""
    members = {} if definition is None else {"definition": definition}
    id: str = control.create_flow(name=name, executionRoleArn=ROLE, **members)["id"]
    return id


def prepare(control: Any, id: str) -> dict[str, Any]:
    """The flow after it was prepared, or could not be."""
    assert control.prepare_flow(flowIdentifier=id)["status"] == "Preparing"
    found: dict[str, Any] = control.get_flow(flowIdentifier=id)
    return found


def ready(control: Any, definition: Mapping[str, Any], name: str = "letters") -> str:
    """The id of a new flow that is prepared."""
    id = create(control, definition, name)
    flow = prepare(control, id)
    assert flow["status"] == "Prepared", flow["validations"]
    return id


def invoke(
    runtime: Any, id: str, document: Any, alias: str = "TSTALIASID", **params: Any
) -> list[dict[str, Any]]:
    """The events of InvokeFlow."""
    given = {"nodeName": "Start", "nodeOutputName": "document", "content": {"document": document}}
    answer = runtime.invoke_flow(
        flowIdentifier=id, flowAliasIdentifier=alias, inputs=[given], **params
    )
    assert answer["executionId"]
    with closing(answer["responseStream"]) as stream:
        return list(stream)


def run(server: Served, definition: dict[str, Any], document: Any, **params: Any) -> list[Any]:
    """The events of a new flow."""
    id = ready(server.control, definition)
    return invoke(server.runtime, id, document, **params)
