"""Documents that callers send, or name, one by one: put into a knowledge base in the background."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.errors import OrchestratorError, ValidationError
from orchestrator.knowledge.blocks import Unreadable
from orchestrator.knowledge.documents import Raw, is_document
from orchestrator.knowledge.metadata import Attributes, read_attributes
from orchestrator.server.access.permissions import check_access
from orchestrator.server.control.bases.buckets import read_uri
from orchestrator.server.control.bases.chunking import Chunker, build_chunker
from orchestrator.server.control.bases.data_sources import get_s3_location
from orchestrator.server.control.bases.index import DocumentName, Index
from orchestrator.server.control.bases.records import (
    DOCUMENT,
    get_source,
    make_document_key,
    now,
    parse_identifier,
)
from orchestrator.server.control.bases.service import KnowledgeBaseService
from orchestrator.server.control.bases.sync import MOST_BYTES, MOST_METADATA
from orchestrator.server.control.bases.work_status import WorkStopped, settle_document
from orchestrator.server.control.ids import new_id
from orchestrator.server.document_store import digest
from orchestrator.server.operations import Caller, Request
from orchestrator.server.wire.faults import log_failure

__all__ = ["delete", "get", "ingest", "list_all"]


_SUFFIXES = {
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
}


class _IgnoredDocument(Exception):
    """A document that is none that is read here; its text says why."""


class _Item(NamedTuple):
    kind: str
    id: str
    key: str
    document: Mapping[str, Any]


def _parent_key(params: Mapping[str, Any]) -> str:
    return f"{params['knowledgeBaseId']}/{params['dataSourceId']}"


def _get_source(bases: KnowledgeBaseService, request: Request) -> dict[str, Any]:
    params, tenant = request.params, request.caller.tenant
    return get_source(bases.documents, tenant, params["knowledgeBaseId"], params["dataSourceId"])


def _to_detail(params: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    names = ("identifier", "status", "statusReason", "updatedAt")
    ids = {name: params[name] for name in ("knowledgeBaseId", "dataSourceId")}
    return {**ids, **{name: kept[name] for name in names if name in kept}}


# -- putting in ----------------------------------------------------------------------------------


def ingest(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """IngestKnowledgeBaseDocuments: they are `STARTING`, and `INDEXED` by and by.

    Raises:
        AccessDenied: The caller may not have an object read.
        ValidationError: A document is of another kind than the data source, is outside of it, or
            has an access control list, which nobody would keep here.
        Fault: ServiceQuotaExceededException, when the documents of too many requests wait.
    """
    params, tenant = request.params, request.caller.tenant
    source = _get_source(bases, request)
    items = _read_items(params["documents"], source, request.caller)
    begun: list[str] = []

    def make() -> Mapping[str, Any]:
        _get_source(bases, request)
        batch = new_id()
        told = [_save_starting(bases, tenant, _parent_key(params), it, batch) for it in items]
        begun.append(batch)
        return {"documentDetails": [_to_detail(params, kept) for kept in told]}

    # Nobody else is to wait while megabytes are looked at.
    asked = {**params, "documents": digest(params["documents"])}
    give_back = bases.background.reserve(tenant)
    try:
        token = params.get("clientToken")
        answer = bases.documents.run_once(tenant, request.operation, token, asked, make)
    except BaseException:
        give_back()
        raise
    if not begun:  # it came before
        give_back()
    for batch in begun:
        work = _Batch(bases, request.caller, source, items, batch, give_back)
        bases.background.run(tenant, work.run)
    return answer


def _save_starting(
    bases: KnowledgeBaseService, tenant: str, parent: str, item: _Item, batch: str
) -> dict[str, Any]:
    kept = {
        "identifier": _build_identifier(item.kind, item.id),
        "status": "STARTING",
        "updatedAt": now(),
        "process": bases.living.me,
        "batch": batch,
    }
    bases.documents.put(tenant, DOCUMENT, item.key, kept, parent)
    return kept


def _build_identifier(kind: str, id: str) -> dict[str, Any]:
    return {
        "dataSourceType": kind,
        **({"s3": {"uri": id}} if kind == "S3" else {"custom": {"id": id}}),
    }


def _read_items(
    documents: Sequence[Mapping[str, Any]], source: Mapping[str, Any], caller: Caller
) -> list[_Item]:
    items = [_read_item(it, f"documents[{index}]", source) for index, it in enumerate(documents)]
    if len({it.key for it in items}) < len(items):
        raise ValidationError("documents: one of them is given twice")
    for it in items:
        for uri in _uris(it.document):
            check_access(caller, uri)
    return items


def _read_item(document: Mapping[str, Any], at: str, source: Mapping[str, Any]) -> _Item:
    content = document["content"]
    kind, wanted = content["dataSourceType"], source["dataSourceConfiguration"]["type"]
    if kind != wanted:
        raise ValidationError(
            f"{at}.content.dataSourceType is {kind}, but the data source "
            f"{source['dataSourceId']!r} is of the type {wanted}"
        )
    if (document.get("metadata") or {}).get("accessControlList"):
        raise ValidationError(
            f"{at}.metadata.accessControlList: nothing here keeps what is found from users; leave "
            "it out only if all who search may find the document"
        )
    if kind == "S3":
        id = _require_member(content, "s3", f"{at}.content")["s3Location"]["uri"]
        bucket, prefix = get_s3_location(source)
        if not id.startswith(f"s3://{bucket}/{prefix}"):
            raise ValidationError(f"{at}: {id!r} is not in the data source's bucket and prefix")
    else:
        id = _require_member(content, "custom", f"{at}.content")["customDocumentIdentifier"]["id"]
        _check_custom(content["custom"], f"{at}.content.custom")
    _check_metadata(document.get("metadata"), f"{at}.metadata")
    return _Item(kind, id, make_document_key(kind, id), document)


def _require_member(given: Mapping[str, Any], name: str, at: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = given.get(name)
    if found is None:
        raise ValidationError(f"{at}.{name} is missing")
    return found


def _check_custom(custom: Mapping[str, Any], at: str) -> None:
    if custom["sourceType"] == "S3_LOCATION":
        _require_member(custom, "s3Location", at)
        return
    inline = _require_member(custom, "inlineContent", at)
    name = "byteContent" if inline["type"] == "BYTE" else "textContent"
    _require_member(inline, name, f"{at}.inlineContent")


def _check_metadata(metadata: Mapping[str, Any] | None, at: str) -> None:
    if metadata is not None:
        inline = metadata["type"] == "IN_LINE_ATTRIBUTE"
        _require_member(metadata, "inlineAttributes" if inline else "s3Location", at)


def _uris(document: Mapping[str, Any]) -> Iterator[str]:
    """The addresses that are read for a document."""
    content, metadata = document["content"], document.get("metadata") or {}
    if content["dataSourceType"] == "S3":
        yield content["s3"]["s3Location"]["uri"]
    elif content["custom"]["sourceType"] == "S3_LOCATION":
        yield content["custom"]["s3Location"]["uri"]
    if metadata.get("type") == "S3_LOCATION":
        yield metadata["s3Location"]["uri"]


class _Batch:
    """The documents of one request, as they are put in."""

    def __init__(
        self,
        bases: KnowledgeBaseService,
        caller: Caller,
        source: Mapping[str, Any],
        items: Sequence[_Item],
        batch: str,
        done: Callable[[], None],
    ) -> None:
        self.done = done
        self.bases = bases
        self.caller = caller
        self.source = source
        self.items = items
        self.batch = batch
        self.parent = _parent_key(source)

    def run(self) -> None:
        """Puts all in, each as well as it goes."""
        waiting = list(self.items)
        try:
            index = self.bases.index(self.caller.tenant, self.source["knowledgeBaseId"])
            cutting = build_chunker(self.source.get("vectorIngestionConfiguration"))
            with index.lock:
                waiting = [it for it in self.items if self._ingest(it, index, cutting)]
                index.embed(self._check_stop)
            for item in waiting:
                self._save_status(item, "INDEXED")
        except WorkStopped:
            self._fail(waiting, "the server was stopped; send it again")
        except OrchestratorError as error:
            self._fail(waiting, self.bases.world.places.redact(error.message))
        except Exception as error:
            log_failure(error, f"for documents of {self.source['dataSourceId']!r}")
            self._fail(waiting, "an internal error; the server's log has more")
        finally:
            self.done()

    def _check_stop(self) -> None:
        if self.bases.closing.is_set():
            raise WorkStopped

    def _ingest(self, item: _Item, index: Index, cutting: Chunker) -> bool:
        """Puts a document in; whether it is, and is still wanted."""
        self._check_stop()
        if not self._save_status(item, "IN_PROGRESS"):
            return False
        place = DocumentName.of(self.source["dataSourceId"], item.kind, item.id)
        try:
            self._put(item, place, index, cutting)
        except _IgnoredDocument as error:
            self._save_status(item, "IGNORED", str(error))
            return False
        except (OrchestratorError, Unreadable) as error:
            self._save_status(item, "FAILED", str(error))
            return False
        if self.bases.documents.get(self.caller.tenant, DOCUMENT, item.key, self.parent) is None:
            index.remove([place])  # it was deleted meanwhile
            return False
        return True

    def _put(self, item: _Item, place: DocumentName, index: Index, cutting: Chunker) -> None:
        content = item.document["content"]
        if item.kind == "CUSTOM" and content["custom"]["sourceType"] == "IN_LINE":
            name, data, uri = *_read_inline(content["custom"]["inlineContent"]), item.id
        else:
            (uri, *_) = _uris(item.document)
            name, data = uri.rsplit("/", 1)[-1], self._read(uri, MOST_BYTES)
        if not is_document(name):
            raise _IgnoredDocument(f"files as {name!r} are not read here")
        index.put(place, Raw(name, data), self._attributes(item), uri, cutting)

    def _read(self, uri: str, most: int) -> bytes:
        data = read_uri(uri, self.caller, self.bases.folders, most)
        if len(data) > most:
            raise Unreadable(f"{uri} has more than {most:,} bytes")
        return data

    def _attributes(self, item: _Item) -> Attributes:
        metadata = item.document.get("metadata")
        if metadata is None:
            return Attributes()
        if metadata["type"] == "S3_LOCATION":
            return read_attributes(self._read(metadata["s3Location"]["uri"], MOST_METADATA))
        given = {it["key"]: {"value": it["value"]} for it in metadata["inlineAttributes"]}
        return read_attributes(json.dumps({"metadataAttributes": given}).encode())

    def _fail(self, items: Sequence[_Item], reason: str) -> None:
        for item in items:
            self._save_status(item, "FAILED", reason)

    def _save_status(self, item: _Item, status: str, reason: str = "") -> bool:
        """Keeps a document's state; not of one that was deleted, or sent anew, meanwhile."""
        documents, tenant = self.bases.documents, self.caller.tenant
        with documents.transaction():
            kept = documents.get(tenant, DOCUMENT, item.key, self.parent)
            if kept is None or kept.get("batch") != self.batch:
                return False
            changed = {**kept, "status": status, "updatedAt": now()}
            if reason:
                changed["statusReason"] = reason
            documents.put(tenant, DOCUMENT, item.key, changed, self.parent)
        return True


def _read_inline(content: Mapping[str, Any]) -> tuple[str, bytes]:
    """A file name that says of which kind an inline document is, and its content."""
    if content["type"] == "TEXT":
        return "text.txt", content["textContent"]["data"].encode("utf-8", "replace")
    given = content["byteContent"]
    mime = given["mimeType"].partition(";")[0].strip().lower()
    if mime not in _SUFFIXES:
        raise _IgnoredDocument(f"documents of the type {mime!r} are not read here")
    return f"document{_SUFFIXES[mime]}", given["data"]


# -- telling and deleting ------------------------------------------------------------------------


def _find_documents(
    bases: KnowledgeBaseService, request: Request, identifiers: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, DocumentName, Mapping[str, Any] | None]]:
    """Each document's key and name, and what is kept of it."""
    source = _get_source(bases, request)
    tenant, parent = request.caller.tenant, _parent_key(request.params)
    for index, it in enumerate(identifiers):
        member = "s3" if it["dataSourceType"] == "S3" else "custom"
        _require_member(it, member, f"documentIdentifiers[{index}]")
        kind, id = parse_identifier(it)
        key = make_document_key(kind, id)
        kept = bases.documents.get(tenant, DOCUMENT, key, parent)
        place = DocumentName.of(source["dataSourceId"], kind, id)
        yield key, place, kept and settle_document(bases, kept)


def get(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """GetKnowledgeBaseDocuments."""
    identifiers = request.params["documentIdentifiers"]
    found = list(_find_documents(bases, request, identifiers))
    told = [
        _to_detail(request.params, kept or {"identifier": identifier, "status": "NOT_FOUND"})
        for identifier, (_, _, kept) in zip(identifiers, found, strict=True)
    ]
    return {"documentDetails": told}


def list_all(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """ListKnowledgeBaseDocuments, in the order in which they were put in first."""
    params = request.params
    _get_source(bases, request)
    found, token = bases.documents.page(
        *(request.caller.tenant, DOCUMENT, _parent_key(params)),
        *(params.get("maxResults"), params.get("nextToken")),
    )
    told = [_to_detail(params, settle_document(bases, kept)) for kept in found]
    return {"documentDetails": told, **({"nextToken": token} if token else {})}


def delete(bases: KnowledgeBaseService, request: Request) -> Mapping[str, Any]:
    """DeleteKnowledgeBaseDocuments: they are `DELETING` in the answer, and gone."""
    params, tenant = request.params, request.caller.tenant
    gone: list[DocumentName] = []

    def make() -> Mapping[str, Any]:
        identifiers = params["documentIdentifiers"]
        found = list(_find_documents(bases, request, identifiers))
        told = []
        for identifier, (key, place, kept) in zip(identifiers, found, strict=True):
            gone.append(place)
            bases.documents.delete(tenant, DOCUMENT, key, _parent_key(params))
            status = "NOT_FOUND" if kept is None else "DELETING"
            told.append({"identifier": identifier, "status": status, "updatedAt": now()})
        return {"documentDetails": [_to_detail(params, it) for it in told]}

    token = params.get("clientToken")
    answer = bases.documents.run_once(tenant, request.operation, token, params, make)
    if gone:
        bases.index(tenant, params["knowledgeBaseId"]).remove(gone)
    return answer
