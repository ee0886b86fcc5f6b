"""Knowledge bases: created, shown, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.server.document_store import paginate
from orchestrator.server.ids import new_id
from orchestrator.server.knowledge_bases.jobs import check_idle
from orchestrator.server.knowledge_bases.records import (
    BASE,
    DOCUMENT,
    JOB,
    SOURCE,
    check_tags,
    get_base,
    now,
)
from orchestrator.server.knowledge_bases.service import KnowledgeBaseService
from orchestrator.server.operations import Fault, Request

# Bedrock: "Knowledge bases per account".
_MOST = 100
_GIVEN = ("name", "description", "roleArn", "knowledgeBaseConfiguration", "storageConfiguration")
_FIXED = ("knowledgeBaseConfiguration", "storageConfiguration")


def create(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """CreateKnowledgeBase: it is `CREATING` in the answer, and `ACTIVE` ever after."""
    params, tenant = request.params, request.caller.tenant
    if params["knowledgeBaseConfiguration"]["type"] != "VECTOR":
        raise ValidationError(
            "knowledgeBaseConfiguration.type: only knowledge bases of the type VECTOR are run here"
        )

    check_tags(params.get("tags", {}))

    def make() -> Mapping[str, Any]:
        if bases.documents.count(tenant, BASE) >= _MOST:
            raise Fault(
                "ServiceQuotaExceededException",
                f"there are already {_MOST} knowledge bases; delete one that is not needed",
            )
        _check_name(bases, tenant, params["name"], None)
        base = _build_base(bases, params)
        bases.save(tenant, {"knowledgeBase": base, "tags": params.get("tags", {})})
        return {"knowledgeBase": {**base, "status": "CREATING"}}

    token = params.get("clientToken")
    return bases.documents.run_once(tenant, request.operation, token, params, make)


def _build_base(bases: KnowledgeBaseService, params: Mapping[str, Any]) -> dict[str, Any]:
    id, time = new_id(), now()
    return {
        "knowledgeBaseId": id,
        "knowledgeBaseArn": bases.arns.knowledge_base(id),
        **{name: params[name] for name in _GIVEN if name in params},
        "status": "ACTIVE",
        "createdAt": time,
        "updatedAt": time,
    }


def _check_name(bases: KnowledgeBaseService, tenant: str, name: str, id: str | None) -> None:
    if bases.documents.find_id(tenant, BASE, name) not in (None, id):
        raise Fault("ConflictException", f"there is already a knowledge base called {name!r}")


def get(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """GetKnowledgeBase."""
    id = request.params["knowledgeBaseId"]
    in_folder = bases.in_folders.describe(id)
    if in_folder is not None and bases.documents.get(request.caller.tenant, BASE, id) is None:
        return {"knowledgeBase": in_folder}
    return {"knowledgeBase": get_base(bases.documents, request.caller.tenant, id)["knowledgeBase"]}


def _refuse_folder(bases: KnowledgeBaseService, tenant: str, id: str) -> None:
    if bases.documents.get(tenant, BASE, id) is None and bases.in_folders.describe(id) is not None:
        raise ValidationError(
            f"the knowledge base {id!r} is a folder of an agent that is defined on disk; change it "
            "there"
        )


def update(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """UpdateKnowledgeBase: all that is sent replaces what was; the configurations must stay."""
    params, tenant = request.params, request.caller.tenant
    _refuse_folder(bases, tenant, params["knowledgeBaseId"])
    with bases.documents.transaction():
        record = get_base(bases.documents, tenant, params["knowledgeBaseId"])
        before = record["knowledgeBase"]
        for name in _FIXED:
            if name in params and params[name] != before.get(name):
                raise ValidationError(
                    f"{name} cannot be changed: give what GetKnowledgeBase tells, or make another "
                    "knowledge base"
                )
        _check_name(bases, tenant, params["name"], before["knowledgeBaseId"])
        stays = {name: it for name, it in before.items() if name not in _GIVEN or name in _FIXED}
        members = {name: params[name] for name in _GIVEN if name in params}
        changed = {**stays, **members, "updatedAt": now()}
        bases.save(tenant, {**record, "knowledgeBase": changed})
    return {"knowledgeBase": {**changed, "status": "UPDATING"}}


def delete(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """DeleteKnowledgeBase: with its data sources; what one of them is to `RETAIN` stays on disk."""
    id, tenant = request.params["knowledgeBaseId"], request.caller.tenant
    documents = bases.documents
    _refuse_folder(bases, tenant, id)
    with documents.transaction():
        record = get_base(documents, tenant, id)
        check_idle(bases, tenant, record)
        sources = documents.all(tenant, SOURCE, id)
        for source in sources:
            for kind in (JOB, DOCUMENT):
                documents.clear(tenant, kind, f"{id}/{source['dataSourceId']}")
        documents.clear(tenant, SOURCE, id)
        documents.delete(tenant, BASE, id)
    if all(source["dataDeletionPolicy"] == "DELETE" for source in sources):
        bases.destroy(tenant, id)
    return {"knowledgeBaseId": id, "status": "DELETING"}


def list_all(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """ListKnowledgeBases, in the order in which they were made; those of agents' folders too."""
    params, tenant = request.params, request.caller.tenant
    record = (it["knowledgeBase"] for it in bases.documents.all(tenant, BASE))
    base = {it["knowledgeBaseId"]: it for it in record}
    in_folders = {it["knowledgeBaseId"]: it for it in bases.in_folders.all()}
    found, token = paginate(
        (((it["createdAt"].timestamp(), id), it) for id, it in {**in_folders, **base}.items()),
        *(params.get("maxResults"), params.get("nextToken")),
        f"{tenant}\0{BASE}",
    )
    names = ("knowledgeBaseId", "name", "description", "status", "updatedAt")
    summaries = [{name: it[name] for name in names if name in it} for it in found]
    return {"knowledgeBaseSummaries": summaries, **({"nextToken": token} if token else {})}


HANDLERS = {
    "CreateKnowledgeBase": create,
    "GetKnowledgeBase": get,
    "UpdateKnowledgeBase": update,
    "DeleteKnowledgeBase": delete,
    "ListKnowledgeBases": list_all,
}
