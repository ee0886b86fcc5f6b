"""Knowledge bases: created, shown, changed and deleted."""

from __future__ import annotations

from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.server.document_store import paginate, render_page
from orchestrator.server.ids import new_id, now
from orchestrator.server.knowledge_bases.jobs import check_idle
from orchestrator.server.knowledge_bases.service import (
    BASE,
    DOCUMENT,
    JOB,
    POLICY,
    SOURCE,
    Data,
    KnowledgeBaseService,
)
from orchestrator.server.operations import Request, check_quota, check_tags, pick

# Bedrock: "Knowledge bases per account".
_MOST = 100
_GIVEN = ("name", "description", "roleArn", "knowledgeBaseConfiguration", "storageConfiguration")
_FIXED = ("knowledgeBaseConfiguration", "storageConfiguration")


def create(bases: KnowledgeBaseService, request: Request) -> Data:
    """CreateKnowledgeBase: it is `CREATING` in the answer, and `ACTIVE` ever after."""
    params, tenant = request.params, request.caller.tenant
    _check_type(params["knowledgeBaseConfiguration"])
    check_tags(params.get("tags", {}))

    def make() -> Data:
        check_quota(bases.documents.count(tenant, BASE), _MOST, "knowledge bases")
        base = _build_base(bases, params)
        bases.save(tenant, {"knowledgeBase": base, "tags": params.get("tags", {})})
        return {"knowledgeBase": {**base, "status": "CREATING"}}

    return bases.documents.run_once(request, make)


def _check_type(configuration: Data) -> None:
    if configuration["type"] == "VECTOR":
        return
    sql = configuration.get("sqlKnowledgeBaseConfiguration") or {}
    if configuration["type"] != "SQL" or "redshiftConfiguration" not in sql:
        raise ValidationError(
            "knowledgeBaseConfiguration: only knowledge bases of the types VECTOR and, for "
            "GenerateQuery, SQL with sqlKnowledgeBaseConfiguration.redshiftConfiguration are run "
            "here"
        )


def _build_base(bases: KnowledgeBaseService, params: Data) -> dict[str, Any]:
    id, time = new_id(), now()
    return {
        "knowledgeBaseId": id,
        "knowledgeBaseArn": bases.arns.knowledge_base(id),
        **pick(params, _GIVEN),
        "status": "ACTIVE",
        "createdAt": time,
        "updatedAt": time,
    }


def get(bases: KnowledgeBaseService, request: Request) -> Data:
    """GetKnowledgeBase."""
    id = request.params["knowledgeBaseId"]
    in_folder = bases.in_folders.describe(id)
    if in_folder is not None and bases.documents.get(request.caller.tenant, BASE, id) is None:
        return {"knowledgeBase": in_folder}
    return {"knowledgeBase": bases.record(request.caller.tenant, id)["knowledgeBase"]}


def _refuse_folder(bases: KnowledgeBaseService, tenant: str, id: str) -> None:
    if bases.documents.get(tenant, BASE, id) is None and bases.in_folders.describe(id) is not None:
        raise ValidationError(
            f"the knowledge base {id!r} is a folder of an agent that is defined on disk; change it "
            "there"
        )


def update(bases: KnowledgeBaseService, request: Request) -> Data:
    """UpdateKnowledgeBase: all that is sent replaces what was; the configurations must stay."""
    params, tenant = request.params, request.caller.tenant
    _refuse_folder(bases, tenant, params["knowledgeBaseId"])
    with bases.documents.transaction():
        record = bases.record(tenant, params["knowledgeBaseId"])
        before = record["knowledgeBase"]
        for name in _FIXED:
            if name in params and params[name] != before.get(name):
                raise ValidationError(
                    f"{name} cannot be changed: give what GetKnowledgeBase tells, or make another "
                    "knowledge base"
                )
        stays = {name: it for name, it in before.items() if name not in _GIVEN or name in _FIXED}
        changed = {**stays, **pick(params, _GIVEN), "updatedAt": now()}
        bases.save(tenant, {**record, "knowledgeBase": changed})
    return {"knowledgeBase": {**changed, "status": "UPDATING"}}


def delete(bases: KnowledgeBaseService, request: Request) -> Data:
    """DeleteKnowledgeBase: with its data sources; what one of them is to `RETAIN` stays on disk."""
    id, tenant = request.params["knowledgeBaseId"], request.caller.tenant
    documents = bases.documents
    _refuse_folder(bases, tenant, id)
    with documents.transaction():
        record = bases.record(tenant, id)
        check_idle(bases, tenant, record)
        sources = documents.all(tenant, SOURCE, id)
        for source in sources:
            for kind in (JOB, DOCUMENT):
                documents.clear(tenant, kind, f"{id}/{source['dataSourceId']}")
        documents.clear(tenant, SOURCE, id)
        documents.delete(tenant, POLICY, id)
        documents.delete(tenant, BASE, id)
    if all(source["dataDeletionPolicy"] == "DELETE" for source in sources):
        bases.destroy(tenant, id)
    return {"knowledgeBaseId": id, "status": "DELETING"}


def list_all(bases: KnowledgeBaseService, request: Request) -> Data:
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
    return render_page("knowledgeBaseSummaries", ([pick(it, names) for it in found], token))


HANDLERS = {
    "CreateKnowledgeBase": create,
    "GetKnowledgeBase": get,
    "UpdateKnowledgeBase": update,
    "DeleteKnowledgeBase": delete,
    "ListKnowledgeBases": list_all,
}
