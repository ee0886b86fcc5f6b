"""Data sources: where a knowledge base's documents come from."""

from __future__ import annotations

from orchestrator.errors import ValidationError
from orchestrator.server.access.permissions import check_access
from orchestrator.server.document_store import render_page
from orchestrator.server.ids import new_id, now
from orchestrator.server.knowledge_bases.chunking import build_chunker
from orchestrator.server.knowledge_bases.index import DocumentName
from orchestrator.server.knowledge_bases.jobs import check_idle, get_s3_location
from orchestrator.server.knowledge_bases.service import (
    DOCUMENT,
    JOB,
    SOURCE,
    Data,
    KnowledgeBaseService,
    check_holds_documents,
)
from orchestrator.server.operations import Caller, Request, check_quota, pick

# Bedrock: "Data sources per knowledge base".
_MOST = 5
_GIVEN = (
    *("name", "description", "dataSourceConfiguration", "serverSideEncryptionConfiguration"),
    *("vectorIngestionConfiguration", "dataDeletionPolicy"),
)
_CHUNKING = "chunkingConfiguration"


def create(bases: KnowledgeBaseService, request: Request) -> Data:
    """CreateDataSource."""
    params, tenant = request.params, request.caller.tenant
    _check_configuration(params, request.caller)
    base = params["knowledgeBaseId"]

    def make() -> Data:
        check_holds_documents(bases.record(tenant, base))
        count = bases.documents.count(tenant, SOURCE, base)
        check_quota(count, _MOST, f"data sources of the knowledge base {base!r}")
        time = now()
        source = {
            "knowledgeBaseId": base,
            "dataSourceId": new_id(),
            "status": "AVAILABLE",
            "dataDeletionPolicy": "DELETE",
            **pick(params, _GIVEN),
            "createdAt": time,
            "updatedAt": time,
        }
        _save(bases, tenant, source)
        return {"dataSource": source}

    return bases.documents.run_once(request, make)


def _save(bases: KnowledgeBaseService, tenant: str, source: Data) -> None:
    id, base, name = source["dataSourceId"], source["knowledgeBaseId"], source["name"]
    taken = f"the knowledge base {base!r} has a data source called {name!r} already"
    bases.documents.put(tenant, SOURCE, id, source, base, name=name, taken=taken)


def _check_configuration(params: Data, caller: Caller) -> None:
    config = params["dataSourceConfiguration"]
    if config["type"] not in ("S3", "CUSTOM"):
        raise ValidationError(
            f"dataSourceConfiguration.type: data sources of the type {config['type']} are not read "
            "here; those of the types S3 and CUSTOM are"
        )
    if config["type"] == "S3":
        if "s3Configuration" not in config:
            raise ValidationError("dataSourceConfiguration: the type S3 needs s3Configuration")
        bucket, prefix = get_s3_location(params)
        check_access(caller, f"s3://{bucket}/{prefix}")
    build_chunker(params.get("vectorIngestionConfiguration"))


def get(bases: KnowledgeBaseService, request: Request) -> Data:
    """GetDataSource."""
    params = request.params
    tenant, base = request.caller.tenant, params["knowledgeBaseId"]
    return {"dataSource": bases.source(tenant, base, params["dataSourceId"])}


def update(bases: KnowledgeBaseService, request: Request) -> Data:
    """UpdateDataSource: all that is sent replaces what was; how documents are cut must stay."""
    params, tenant = request.params, request.caller.tenant
    base, id = params["knowledgeBaseId"], params["dataSourceId"]
    _check_configuration(params, request.caller)
    with bases.documents.transaction():
        before = bases.source(tenant, base, id)
        _check_same(before, params)
        stays = {name: it for name, it in before.items() if name not in _GIVEN}
        policy = before["dataDeletionPolicy"]
        changed = {
            **stays,
            "dataDeletionPolicy": policy,
            **pick(params, _GIVEN),
            "updatedAt": now(),
        }
        _save(bases, tenant, changed)
    return {"dataSource": changed}


def _check_same(before: Data, params: Data) -> None:
    types = [it["dataSourceConfiguration"]["type"] for it in (before, params)]
    if types[0] != types[1]:
        raise ValidationError(
            f"dataSourceConfiguration.type is {types[0]} and cannot be changed; make another data "
            "source"
        )
    name = "vectorIngestionConfiguration"
    was, wanted = (it.get(name, {}).get(_CHUNKING) for it in (before, params))
    if was != wanted:
        raise ValidationError(
            f"{name}.{_CHUNKING} cannot be changed: give what GetDataSource tells, or make another "
            "data source"
        )


def delete(bases: KnowledgeBaseService, request: Request) -> Data:
    """DeleteDataSource: what it brought in goes with it, unless that is to be `RETAIN`ed."""
    params, tenant, documents = request.params, request.caller.tenant, bases.documents
    base, id = params["knowledgeBaseId"], params["dataSourceId"]
    with documents.transaction():
        check_idle(bases, tenant, bases.record(tenant, base))
        source = bases.source(tenant, base, id)
        for kind in (JOB, DOCUMENT):
            documents.clear(tenant, kind, f"{base}/{id}")
        documents.delete(tenant, SOURCE, id, base)
    if source["dataDeletionPolicy"] == "DELETE":
        index = bases.index(tenant, base)
        with index.lock:
            index.remove([DocumentName(name) for name in index.list_names(id)])
    return {"knowledgeBaseId": base, "dataSourceId": id, "status": "DELETING"}


def list_all(bases: KnowledgeBaseService, request: Request) -> Data:
    """ListDataSources, in the order in which they were made."""
    params, tenant = request.params, request.caller.tenant
    base = params["knowledgeBaseId"]
    if bases.in_folders.describe(base) is None:
        bases.record(tenant, base)
    found, token = bases.documents.page(
        tenant, SOURCE, base, params.get("maxResults"), params.get("nextToken")
    )
    names = ("knowledgeBaseId", "dataSourceId", "name", "status", "description", "updatedAt")
    return render_page("dataSourceSummaries", ([pick(it, names) for it in found], token))


HANDLERS = {
    "CreateDataSource": create,
    "GetDataSource": get,
    "UpdateDataSource": update,
    "DeleteDataSource": delete,
    "ListDataSources": list_all,
}
