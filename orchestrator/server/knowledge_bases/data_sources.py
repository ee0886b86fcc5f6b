"""Data sources: where a knowledge base's documents come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.server.access.permissions import check_access
from orchestrator.server.ids import new_id
from orchestrator.server.knowledge_bases.chunking import build_chunker
from orchestrator.server.knowledge_bases.index import DocumentName
from orchestrator.server.knowledge_bases.jobs import check_idle
from orchestrator.server.knowledge_bases.records import (
    DOCUMENT,
    JOB,
    SOURCE,
    get_base,
    get_s3_location,
    get_source,
    now,
)
from orchestrator.server.knowledge_bases.service import KnowledgeBaseService
from orchestrator.server.operations import Caller, Fault, Request

# Bedrock: "Data sources per knowledge base".
_MOST = 5
_GIVEN = (
    *("name", "description", "dataSourceConfiguration", "serverSideEncryptionConfiguration"),
    *("vectorIngestionConfiguration", "dataDeletionPolicy"),
)
_CHUNKING = "chunkingConfiguration"


def create(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """CreateDataSource."""
    params, tenant = request.params, request.caller.tenant
    _check_configuration(params, request.caller)
    base = params["knowledgeBaseId"]

    def make() -> Mapping[str, Any]:
        get_base(bases.documents, tenant, base)
        if bases.documents.count(tenant, SOURCE, base) >= _MOST:
            raise Fault(
                "ServiceQuotaExceededException",
                f"the knowledge base {base!r} has {_MOST} data sources already, the most there are",
            )
        _check_name(bases, tenant, base, params["name"], None)
        time = now()
        source = {
            "knowledgeBaseId": base,
            "dataSourceId": new_id(),
            "status": "AVAILABLE",
            "dataDeletionPolicy": "DELETE",
            **{name: params[name] for name in _GIVEN if name in params},
            "createdAt": time,
            "updatedAt": time,
        }
        _save(bases, tenant, source)
        return {"dataSource": source}

    token = params.get("clientToken")
    return bases.documents.run_once(tenant, request.operation, token, params, make)


def _save(bases: KnowledgeBaseService, tenant: str, source: Mapping[str, Any]) -> None:
    id, base = source["dataSourceId"], source["knowledgeBaseId"]
    bases.documents.put(tenant, SOURCE, id, source, base, name=source["name"])


def _check_configuration(params: Mapping[str, Any], caller: Caller) -> None:
    config = params["dataSourceConfiguration"]
    if config["type"] != "S3":
        raise ValidationError(
            f"dataSourceConfiguration.type: data sources of the type {config['type']} are not read "
            "here; those of the type S3 are"
        )
    if "s3Configuration" not in config:
        raise ValidationError("dataSourceConfiguration: the type S3 needs s3Configuration")
    bucket, prefix = get_s3_location(params)
    check_access(caller, f"s3://{bucket}/{prefix}")
    build_chunker(params.get("vectorIngestionConfiguration"))


def _check_name(
    bases: KnowledgeBaseService, tenant: str, base: str, name: str, id: str | None
) -> None:
    if bases.documents.find_id(tenant, SOURCE, name, base) not in (None, id):
        raise Fault(
            "ConflictException",
            f"the knowledge base {base!r} has a data source called {name!r} already",
        )


def get(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """GetDataSource."""
    params = request.params
    tenant, base = request.caller.tenant, params["knowledgeBaseId"]
    return {"dataSource": get_source(bases.documents, tenant, base, params["dataSourceId"])}


def update(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """UpdateDataSource: all that is sent replaces what was; how documents are cut must stay."""
    params, tenant = request.params, request.caller.tenant
    base, id = params["knowledgeBaseId"], params["dataSourceId"]
    _check_configuration(params, request.caller)
    with bases.documents.transaction():
        before = get_source(bases.documents, tenant, base, id)
        _check_same(before, params)
        _check_name(bases, tenant, base, params["name"], id)
        stays = {name: it for name, it in before.items() if name not in _GIVEN}
        config = {name: params[name] for name in _GIVEN if name in params}
        policy = before["dataDeletionPolicy"]
        changed = {**stays, "dataDeletionPolicy": policy, **config, "updatedAt": now()}
        _save(bases, tenant, changed)
    return {"dataSource": changed}


def _check_same(before: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    name = "vectorIngestionConfiguration"
    was, wanted = (it.get(name, {}).get(_CHUNKING) for it in (before, params))
    if was != wanted:
        raise ValidationError(
            f"{name}.{_CHUNKING} cannot be changed: give what GetDataSource tells, or make another "
            "data source"
        )


def delete(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """DeleteDataSource: what it brought in goes with it, unless that is to be `RETAIN`ed."""
    params, tenant, documents = request.params, request.caller.tenant, bases.documents
    base, id = params["knowledgeBaseId"], params["dataSourceId"]
    with documents.transaction():
        check_idle(bases, tenant, get_base(documents, tenant, base))
        source = get_source(documents, tenant, base, id)
        for kind in (JOB, DOCUMENT):
            documents.clear(tenant, kind, f"{base}/{id}")
        documents.delete(tenant, SOURCE, id, base)
    if source["dataDeletionPolicy"] == "DELETE":
        index = bases.index(tenant, base)
        with index.lock:
            index.remove([DocumentName(name) for name in index.list_names(id)])
    return {"knowledgeBaseId": base, "dataSourceId": id, "status": "DELETING"}


def list_all(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """ListDataSources, in the order in which they were made."""
    params, tenant = request.params, request.caller.tenant
    base = params["knowledgeBaseId"]
    if bases.in_folders.describe(base) is None:
        get_base(bases.documents, tenant, base)
    found, token = bases.documents.page(
        tenant, SOURCE, base, params.get("maxResults"), params.get("nextToken")
    )
    names = ("knowledgeBaseId", "dataSourceId", "name", "status", "description", "updatedAt")
    summaries = [{name: it[name] for name in names if name in it} for it in found]
    return {"dataSourceSummaries": summaries, **({"nextToken": token} if token else {})}


HANDLERS = {
    "CreateDataSource": create,
    "GetDataSource": get,
    "UpdateDataSource": update,
    "DeleteDataSource": delete,
    "ListDataSources": list_all,
}
