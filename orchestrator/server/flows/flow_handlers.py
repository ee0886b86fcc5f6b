"""Flows: created, shown, changed, validated, prepared and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.flows.node_graph import (
    FlowValidation,
    read_definition,
    validate_definition,
)
from orchestrator.server.alias_rules import check_unused
from orchestrator.server.document_store import digest, render_page
from orchestrator.server.flows.store import FLOW, FlowStore
from orchestrator.server.ids import DRAFT, new_id, now
from orchestrator.server.operations import (
    Request,
    check_quota,
    check_tags,
    conflict_error,
    pick,
)

# Bedrock: "Flows per account".
_MOST = 100
# Bedrock: FlowSummaries, FlowVersionSummaries, FlowAliasSummaries.
_PAGE = 10
_GIVEN = ("name", "description", "executionRoleArn", "customerEncryptionKeyArn", "definition")
_SUMMARY = ("name", "description", "id", "arn", "status", "createdAt", "updatedAt", "version")

Data = Mapping[str, Any]


def page_size(params: Data) -> int:
    """How many results a page of flows, versions, aliases or executions has at most."""
    asked: int = params.get("maxResults", _PAGE)
    return min(asked, _PAGE)


def _create(store: FlowStore, request: Request) -> Data:
    params, caller = request.params, request.caller
    tags = params.get("tags") or {}
    check_tags(tags)

    def make() -> Data:
        check_quota(store.documents.count(caller.tenant, FLOW), _MOST, "flows")
        id, at = new_id(), now()
        flow = {
            **pick(params, _GIVEN),
            "id": id,
            "arn": store.arns.flow(id),
            "status": "NotPrepared",
            "version": DRAFT,
            "createdAt": at,
            "updatedAt": at,
        }
        store.save(caller, {"flow": flow, "latest": 0, "tags": tags})
        return flow

    return store.documents.run_once(request, make)


def _get(store: FlowStore, request: Request) -> Data:
    params = request.params
    flow = store.flow(request.caller, store.read_id(params["flowIdentifier"]))["flow"]
    return _without_data(params, flow)


def _without_data(params: Data, members: dict[str, Any]) -> dict[str, Any]:
    """The members that a request asks for."""
    if params.get("includedData") == "METADATA_ONLY":
        members.pop("definition", None)
    return members


def _list(store: FlowStore, request: Request) -> Data:
    params = request.params
    records, token = store.documents.page(
        request.caller.tenant, FLOW, "", page_size(params), params.get("nextToken")
    )
    return render_page("flowSummaries", ([pick(it["flow"], _SUMMARY) for it in records], token))


def _update(store: FlowStore, request: Request) -> Data:
    params, caller = request.params, request.caller
    with store.documents.transaction():
        record = store.flow(caller, store.read_id(params["flowIdentifier"]))
        stays = {
            name: it
            for name, it in record["flow"].items()
            if name not in _GIVEN and name != "validations"
        }
        flow = {**stays, **pick(params, _GIVEN), "status": "NotPrepared", "updatedAt": now()}
        store.save(caller, {**record, "flow": flow})
    return flow


def _delete(store: FlowStore, request: Request) -> Data:
    params, caller = request.params, request.caller
    id = store.read_id(params["flowIdentifier"])
    with store.documents.transaction():
        store.flow(caller, id)
        check_unused(f"the flow {id!r}", len(store.aliases(caller, id)), params)
        store.remove(caller, id)
    return {"id": id}


def _prepare(store: FlowStore, request: Request) -> Data:
    """PrepareFlow: it is `Preparing` in the answer, and `Prepared` or `Failed` ever after."""
    caller, id = request.caller, store.read_id(request.params["flowIdentifier"])
    flow = store.flow(caller, id)["flow"]
    findings = _validate(flow.get("definition") or {})
    failed = any(it["severity"] == "Error" for it in findings)
    with store.documents.transaction():
        record = store.flow(caller, id)
        if digest(record["flow"].get("definition")) != digest(flow.get("definition")):
            raise conflict_error(f"the flow {id!r} was changed while it was prepared; try again")
        flow = {**record["flow"], "validations": findings, "updatedAt": now()}
        flow["status"] = "Failed" if failed else "Prepared"
        store.save(caller, {**record, "flow": flow})
        if not failed:
            store.save_version(caller, id, build_version(flow, DRAFT))
    return {"id": id, "status": "Preparing"}


def build_version(flow: Data, version: str) -> dict[str, Any]:
    """What a version of a flow is: GetFlowVersion's members."""
    return {
        **pick(flow, (*_GIVEN, "id", "arn")),
        "status": "Prepared",
        "createdAt": now(),
        "version": version,
    }


def _validate(definition: Data) -> list[dict[str, Any]]:
    try:
        return [it.to_api() for it in validate_definition(read_definition(definition))]
    except ValidationError as error:
        # There is too much of it to be looked at.
        return [FlowValidation("Unspecified", error.message).to_api()]


def _validate_definition(store: FlowStore, request: Request) -> Data:
    return {"validations": _validate(request.params["definition"])}


HANDLERS = {
    "CreateFlow": _create,
    "GetFlow": _get,
    "ListFlows": _list,
    "UpdateFlow": _update,
    "DeleteFlow": _delete,
    "PrepareFlow": _prepare,
    "ValidateFlowDefinition": _validate_definition,
}
