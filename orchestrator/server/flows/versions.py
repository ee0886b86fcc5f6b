"""Versions of flows, and the aliases that lead to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.server.alias_rules import check_version_unused, refuse_test_alias
from orchestrator.server.document_store import paginate, render_page
from orchestrator.server.flows.flow_handlers import build_version, page_size
from orchestrator.server.flows.store import ALIAS, VERSION, FlowStore
from orchestrator.server.ids import DRAFT, TEST_ALIAS, new_id, now
from orchestrator.server.operations import (
    Caller,
    Request,
    check_quota,
    check_tags,
    pick,
)

# Bedrock: "Versions per flow", "Flow aliases per flow".
_MOST_VERSIONS = 10
_MOST_ALIASES = 10
_TEST_NAME = "FlowTestAlias"
_GIVEN = ("name", "description", "routingConfiguration", "concurrencyConfiguration")
_SUMMARY = ("id", "arn", "status", "createdAt", "version")

Data = Mapping[str, Any]


def _create_version(store: FlowStore, request: Request) -> Data:
    caller, params = request.caller, request.params
    id = store.read_id(params["flowIdentifier"])

    def make() -> Data:
        record = store.flow(caller, id)
        flow = record["flow"]
        if flow["status"] != "Prepared":
            raise ValidationError(
                f"no version can be made of the flow {id!r}, whose status is {flow['status']!r}; "
                "call PrepareFlow first"
            )
        check_quota(len(store.versions(caller, id)), _MOST_VERSIONS, "versions of the flow")
        latest = record["latest"] + 1
        members = build_version({**flow, **pick(params, ("description",))}, str(latest))
        store.save_version(caller, id, members)
        store.save(caller, {**record, "latest": latest})
        return members

    return store.documents.run_once(request, make)


def _get_version(store: FlowStore, request: Request) -> Data:
    params = request.params
    id = store.read_id(params["flowIdentifier"])
    members = store.version(request.caller, id, params["flowVersion"])
    if params.get("includedData") == "METADATA_ONLY":
        members.pop("definition", None)
    return members


def _list_versions(store: FlowStore, request: Request) -> Data:
    id = store.read_id(request.params["flowIdentifier"])
    store.flow(request.caller, id)
    found = [
        ((int(it["version"]),), pick(it, _SUMMARY)) for it in store.versions(request.caller, id)
    ]
    return _build_page(request, id, found, "flowVersionSummaries")


def _build_page(
    request: Request, id: str, found: Sequence[tuple[Sequence[Any], Data]], member: str
) -> dict[str, Any]:
    params = request.params
    scope = "\0".join((request.caller.tenant, request.operation, id))
    return render_page(member, paginate(found, page_size(params), params.get("nextToken"), scope))


def _delete_version(store: FlowStore, request: Request) -> Data:
    caller, params = request.caller, request.params
    id, version = store.read_id(params["flowIdentifier"]), params["flowVersion"]
    with store.documents.transaction():
        store.version(caller, id, version)
        users = [
            it["id"]
            for it in store.aliases(caller, id)
            if it["routingConfiguration"][0]["flowVersion"] == version
        ]
        check_version_unused(version, f"the flow {id!r}", users, params)
        store.documents.delete(caller.tenant, VERSION, version, id)
    return {"id": id, "version": version}


def _create_alias(store: FlowStore, request: Request) -> Data:
    caller, params = request.caller, request.params
    id, tags = store.read_id(params["flowIdentifier"]), params.get("tags") or {}
    check_tags(tags)

    def make() -> Data:
        store.flow(caller, id)
        check_quota(len(store.aliases(caller, id)), _MOST_ALIASES, "aliases of the flow")
        _check_routing(store, caller, id, params)
        alias = {**_build_alias(store, id, new_id()), **pick(params, _GIVEN)}
        store.save_alias(caller, {"alias": alias, "tags": tags})
        return alias

    return store.documents.run_once(request, make)


def _build_alias(store: FlowStore, flow_id: str, id: str) -> dict[str, Any]:
    at = now()
    return {
        "flowId": flow_id,
        "id": id,
        "arn": store.arns.flow_alias(flow_id, id),
        "createdAt": at,
        "updatedAt": at,
    }


def _check_routing(store: FlowStore, caller: Caller, id: str, params: Data) -> None:
    version = params["routingConfiguration"][0].get("flowVersion")
    if version is None or version == DRAFT:
        raise ValidationError(
            f"an alias leads to a numbered version, and {DRAFT} is invoked with the alias "
            f"{TEST_ALIAS}: give the flowVersion that CreateFlowVersion returned"
        )
    store.version(caller, id, version)
    concurrency = params.get("concurrencyConfiguration") or {}
    if concurrency.get("type") == "Manual" and "maxConcurrency" not in concurrency:
        raise ValidationError("a concurrencyConfiguration of the type Manual has a maxConcurrency")


def _find_ids(store: FlowStore, request: Request) -> tuple[str, str]:
    params = request.params
    id = store.read_id(params["flowIdentifier"])
    return id, store.read_id(params["aliasIdentifier"], "alias")


def _build_test_alias(store: FlowStore, caller: Caller, id: str) -> dict[str, Any]:
    """The alias of `DRAFT`, which every flow has."""
    flow = store.flow(caller, id)["flow"]
    return {
        **_build_alias(store, id, TEST_ALIAS),
        "name": _TEST_NAME,
        "routingConfiguration": [{"flowVersion": DRAFT}],
        **pick(flow, ("createdAt", "updatedAt")),
    }


def _get_alias(store: FlowStore, request: Request) -> Data:
    id, alias_id = _find_ids(store, request)
    if alias_id == TEST_ALIAS:
        return _build_test_alias(store, request.caller, id)
    alias: Data = store.alias(request.caller, id, alias_id)["alias"]
    return alias


def _list_aliases(store: FlowStore, request: Request) -> Data:
    id = store.read_id(request.params["flowIdentifier"])
    test = _build_test_alias(store, request.caller, id)
    aliases = [((0, 0.0, ""), test)]
    aliases += [
        ((1, it["createdAt"].timestamp(), it["id"]), it) for it in store.aliases(request.caller, id)
    ]
    return _build_page(request, id, aliases, "flowAliasSummaries")


def _update_alias(store: FlowStore, request: Request) -> Data:
    caller, params = request.caller, request.params
    id, alias_id = _find_ids(store, request)
    refuse_test_alias(alias_id, "flow")
    with store.documents.transaction():
        record = store.alias(caller, id, alias_id)
        _check_routing(store, caller, id, params)
        stays = {name: it for name, it in record["alias"].items() if name not in _GIVEN}
        alias = {**stays, **pick(params, _GIVEN), "updatedAt": now()}
        store.save_alias(caller, {**record, "alias": alias})
    return alias


def _delete_alias(store: FlowStore, request: Request) -> Data:
    id, alias_id = _find_ids(store, request)
    refuse_test_alias(alias_id, "flow")
    with store.documents.transaction():
        store.alias(request.caller, id, alias_id)
        store.documents.delete(request.caller.tenant, ALIAS, alias_id, id)
    return {"flowId": id, "id": alias_id}


HANDLERS = {
    "CreateFlowVersion": _create_version,
    "GetFlowVersion": _get_version,
    "ListFlowVersions": _list_versions,
    "DeleteFlowVersion": _delete_version,
    "CreateFlowAlias": _create_alias,
    "GetFlowAlias": _get_alias,
    "ListFlowAliases": _list_aliases,
    "UpdateFlowAlias": _update_alias,
    "DeleteFlowAlias": _delete_alias,
}
