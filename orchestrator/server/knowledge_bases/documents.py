"""Documents that are put into a knowledge base one by one, without an ingestion job.

They are read in the background, as those of a job are: a document is `STARTING`, then `INDEXED` or
`FAILED`. What is told of a document is stored beside what jobs know of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import OrchestratorError, ValidationError
from orchestrator.knowledge.blocks import Unreadable
from orchestrator.knowledge.documents import SUFFIXES, Raw, is_document
from orchestrator.server.access.permissions import check_access
from orchestrator.server.buckets import read_uri
from orchestrator.server.document_store import render_page
from orchestrator.server.ids import now
from orchestrator.server.knowledge_bases.chunking import build_chunker
from orchestrator.server.knowledge_bases.index import DocumentName, Index
from orchestrator.server.knowledge_bases.jobs import (
    WorkStopped,
    check_idle,
    get_document_key,
    get_s3_location,
)
from orchestrator.server.knowledge_bases.service import DOCUMENT, Data, KnowledgeBaseService
from orchestrator.server.knowledge_bases.sync import MOST_BYTES, MOST_METADATA
from orchestrator.server.operations import Caller, Request, check_quota
from orchestrator.server.wire.faults import log_failure

# Bedrock: "Concurrent IngestKnowledgeBaseDocuments and DeleteKnowledgeBaseDocuments requests per
# account".
_MOST_BATCHES = 10
_RUNNING = frozenset(("STARTING", "IN_PROGRESS"))
_ENDED = "the server was stopped before this was done; send it again"


def ingest(bases: KnowledgeBaseService, request: Request) -> Data:
    """IngestKnowledgeBaseDocuments."""
    params, caller = request.params, request.caller
    base, source = params["knowledgeBaseId"], params["dataSourceId"]
    described = bases.source(caller.tenant, base, source)
    contents = {_read_name(described, it["content"]): it for it in params["documents"]}
    _check_distinct(contents, params["documents"])
    for document in params["documents"]:
        _check_document(caller, document)
    started: list[_Batch] = []

    def make() -> Data:
        check_idle(bases, caller.tenant, bases.record(caller.tenant, base))
        running = bases.count_batches(caller.tenant)
        check_quota(running, _MOST_BATCHES, "batches of documents being read")
        batch = _Batch(bases, caller, base, source, contents)
        for name in contents:
            batch.note(name, "STARTING")
        started.append(batch)
        return {"documentDetails": [batch.describe(name) for name in contents]}

    answer = bases.documents.run_once(request, make)
    for batch in started:
        bases.count_batches(caller.tenant, 1)
        bases.run_in_background(batch.run)
    return answer


def _check_distinct(names: Mapping[DocumentName, Any], documents: Sequence[Any]) -> None:
    if len(names) < len(documents):
        raise ValidationError("two documents of the request have the same identifier; send one")


def _read_name(source: Data, content: Data) -> DocumentName:
    """The name of a document by its `content` or its identifier, which is of the source's type."""
    id, kind = source["dataSourceId"], content["dataSourceType"]
    own = source["dataSourceConfiguration"]["type"]
    if kind != own:
        raise ValidationError(
            f"a document is of the dataSourceType {kind}, and the data source {id!r} of {own}"
        )
    if kind == "CUSTOM":
        custom: Data = content.get("custom") or {}
        found = _get_identifier(custom, "customDocumentIdentifier").get("id")
        if found is None:
            raise ValidationError("a document of the dataSourceType CUSTOM needs custom")
        return DocumentName.of_custom(id, found)
    part: Data = content.get("s3") or {}
    uri = _get_identifier(part, "s3Location").get("uri")
    if uri is None:
        raise ValidationError("a document of the dataSourceType S3 needs s3")
    bucket, prefix = get_s3_location(source)
    if not uri.startswith(f"s3://{bucket}/{prefix}"):
        raise ValidationError(f"{uri!r} is not in the data source: s3://{bucket}/{prefix}…")
    return DocumentName.of(id, uri)


def _get_identifier(part: Data, name: str) -> Data:
    """The identifier in a document's content; one that stands alone is it already."""
    found: Data = part.get(name, part)
    return found


def _check_document(caller: Caller, document: Data) -> None:
    """Refuses what could not be read, and what the caller may not have read."""
    metadata = document.get("metadata") or {}
    if "accessControlList" in metadata:
        raise ValidationError("metadata.accessControlList has no effect here; leave it out")
    for uri in _list_uris(document):
        check_access(caller, uri)
    if metadata and _METADATA[metadata["type"]] not in metadata:
        kind = metadata["type"]
        raise ValidationError(f"metadata of the type {kind} needs {_METADATA[kind]}")
    custom = document["content"].get("custom")
    if custom is not None:
        _check_custom(custom)


_METADATA = {"IN_LINE_ATTRIBUTE": "inlineAttributes", "S3_LOCATION": "s3Location"}


def _list_uris(document: Data) -> Iterator[str]:
    content = document["content"]
    parts = [content.get("s3") or {}, content.get("custom") or {}, document.get("metadata") or {}]
    yield from (it["s3Location"]["uri"] for it in parts if "s3Location" in it)


def _check_custom(custom: Data) -> None:
    id = custom["customDocumentIdentifier"]["id"]
    member = "s3Location" if custom["sourceType"] == "S3_LOCATION" else "inlineContent"
    inline = custom.get("inlineContent") or {}
    inside = f"{inline.get('type', '').lower()}Content"
    if member not in custom or (inline and inside not in inline):
        missing = inside if member in custom else member
        raise ValidationError(f"the document {id!r} needs {missing}")
    media_type = (inline.get("byteContent") or {}).get("mimeType")
    if media_type is not None and _get_suffix(media_type) is None:
        raise ValidationError(
            f"the document {id!r} has the mimeType {media_type!r}; read are {', '.join(SUFFIXES)}"
        )


def _get_suffix(media_type: str) -> str | None:
    return SUFFIXES.get(media_type.partition(";")[0].strip().lower())


@dataclass(slots=True)
class _Batch:
    """The documents of one request, as they are read."""

    bases: KnowledgeBaseService
    caller: Caller
    base: str
    source: str
    contents: Mapping[DocumentName, Data]  # the members of `KnowledgeBaseDocument`

    @property
    def parent(self) -> str:
        return f"{self.base}/{self.source}"

    def note(self, name: DocumentName, status: str, reason: str = "") -> None:
        """Stores what is told of a document."""
        record = {
            "uri": name.place,
            # Whatever a job finds is another content.
            "content": "one by one" if status == "INDEXED" else "",
            "metadata": "",
            "status": status,
            "updatedAt": now(),
            "process": self.bases.living.me,
            **({"reason": self.bases.redactor.redact(reason)} if reason else {}),
        }
        key = get_document_key(name)
        self.bases.documents.put(self.caller.tenant, DOCUMENT, key, record, self.parent)

    def describe(self, name: DocumentName) -> Data:
        """What is told of a document."""
        return _describe(self.bases, self.caller.tenant, self.base, self.source, name)

    def run(self) -> None:
        """Reads the documents; nothing that goes wrong is raised."""
        try:
            self._work()
        except WorkStopped:
            self._fail(_ENDED)
        except OrchestratorError as error:
            self._fail(error.message)
        except Exception as error:
            log_failure(error, f"for documents of the data source {self.source!r}")
            self._fail("an internal error; the server's log has more")
        finally:
            self.bases.count_batches(self.caller.tenant, -1)

    def _work(self) -> None:
        tenant = self.caller.tenant
        described = self.bases.source(tenant, self.base, self.source)
        chunker = build_chunker(described.get("vectorIngestionConfiguration"))
        index = self.bases.index(tenant, self.base)
        read = []
        for name, document in self.contents.items():
            self._check_stop()
            self._update(name, "IN_PROGRESS")
            try:
                raw = self._read(document)
                index.put(name, raw, raw.attributes(), chunker)
                read.append(name)
            except (OrchestratorError, Unreadable) as error:
                self._update(name, "FAILED", str(error))
        self._end(index, read)

    def _end(self, index: Index, read: Sequence[DocumentName]) -> None:
        with index.lock:
            note = index.embed(self._check_stop)
        for name in read:
            if not self._update(name, "INDEXED", note or ""):
                # It was deleted meanwhile.
                index.remove([name])

    def _check_stop(self) -> None:
        if self.bases.closing.is_set():
            raise WorkStopped

    def _update(self, name: DocumentName, status: str, reason: str = "") -> bool:
        """Stores a document's status, unless it was deleted; whether it is there."""
        with self.bases.documents.transaction():
            record = self._get(name)
            if record is not None:
                self.note(name, status, reason)
            return record is not None

    def _get(self, name: DocumentName) -> Data | None:
        key = get_document_key(name)
        return self.bases.documents.get(self.caller.tenant, DOCUMENT, key, self.parent)

    def _fail(self, reason: str) -> None:
        for name in self.contents:
            record = self._get(name)
            if record is not None and record.get("status") in _RUNNING:
                self._update(name, "FAILED", reason)

    def _read(self, document: Data) -> Raw:
        content, metadata = document["content"], self._read_metadata(document.get("metadata"))
        part = content.get("s3") or content["custom"]
        if "s3Location" in part:
            uri = part["s3Location"]["uri"]
            if not is_document(uri):
                raise Unreadable("its format is not read here: give Markdown, text, HTML or PDF")
            return Raw(uri.rsplit("/", 1)[-1], self._read_object(uri, MOST_BYTES), metadata)
        inline = part["inlineContent"]
        if "textContent" in inline:
            return Raw("document.txt", inline["textContent"]["data"].encode(), metadata)
        suffix = _get_suffix(inline["byteContent"]["mimeType"])
        return Raw(f"document{suffix}", inline["byteContent"]["data"], metadata)

    def _read_metadata(self, metadata: Data | None) -> bytes:
        if not metadata:
            return b""
        if metadata["type"] == "S3_LOCATION":
            return self._read_object(metadata["s3Location"]["uri"], MOST_METADATA)
        attributes = {it["key"]: {"value": it["value"]} for it in metadata["inlineAttributes"]}
        return json.dumps({"metadataAttributes": attributes}).encode()

    def _read_object(self, uri: str, most: int) -> bytes:
        data = read_uri(uri, self.caller, self.bases.buckets, most)
        if len(data) > most:
            raise Unreadable(f"{uri} has more than {most:,} bytes")
        return data


def _describe(
    bases: KnowledgeBaseService, tenant: str, base: str, source: str, name: DocumentName
) -> Data:
    record = bases.documents.get(tenant, DOCUMENT, get_document_key(name), f"{base}/{source}")
    status, reason = "NOT_FOUND", ""
    if record is not None:
        status = record.get("status") or ("INDEXED" if record["content"] else "FAILED")
        reason = record.get("reason", "")
        if status in _RUNNING and not bases.living.is_alive(record["process"]):
            status, reason = "FAILED", _ENDED
    return {
        "knowledgeBaseId": base,
        "dataSourceId": source,
        "status": status,
        "identifier": _render_identifier(name),
        **({"statusReason": reason} if reason else {}),
        **({"updatedAt": record["updatedAt"]} if record and "updatedAt" in record else {}),
    }


def _render_identifier(name: DocumentName) -> Data:
    if name.custom_id is not None:
        return {"dataSourceType": "CUSTOM", "custom": {"id": name.custom_id}}
    return {"dataSourceType": "S3", "s3": {"uri": name.uri}}


def _read_identifiers(bases: KnowledgeBaseService, request: Request) -> list[DocumentName]:
    params = request.params
    source = bases.source(request.caller.tenant, params["knowledgeBaseId"], params["dataSourceId"])
    return [_read_name(source, it) for it in params["documentIdentifiers"]]


def get(bases: KnowledgeBaseService, request: Request) -> Data:
    """GetKnowledgeBaseDocuments: of each identifier what became of the document."""
    params, tenant = request.params, request.caller.tenant
    ids = params["knowledgeBaseId"], params["dataSourceId"]
    names = _read_identifiers(bases, request)
    return {"documentDetails": [_describe(bases, tenant, *ids, name) for name in names]}


def list_all(bases: KnowledgeBaseService, request: Request) -> Data:
    """ListKnowledgeBaseDocuments, in the order in which they came; those of jobs, too."""
    params, tenant = request.params, request.caller.tenant
    base, source = params["knowledgeBaseId"], params["dataSourceId"]
    bases.source(tenant, base, source)
    found, token = bases.documents.page(
        tenant, DOCUMENT, f"{base}/{source}", params.get("maxResults"), params.get("nextToken")
    )
    names = [DocumentName.of(source, it["uri"]) for it in found]
    details = [_describe(bases, tenant, base, source, name) for name in names]
    return render_page("documentDetails", (details, token))


def delete(bases: KnowledgeBaseService, request: Request) -> Data:
    """DeleteKnowledgeBaseDocuments: they are found no more when this is answered."""
    params, tenant, documents = request.params, request.caller.tenant, bases.documents
    base, source = params["knowledgeBaseId"], params["dataSourceId"]
    names = _read_identifiers(bases, request)
    index = bases.index(tenant, base)

    def make() -> Data:
        check_idle(bases, tenant, bases.record(tenant, base))
        details = []
        for name in names:
            described = _describe(bases, tenant, base, source, name)
            gone = documents.delete(tenant, DOCUMENT, get_document_key(name), f"{base}/{source}")
            details.append({**described, "status": "DELETING"} if gone else described)
        return {"documentDetails": details}

    answer = documents.run_once(request, make)
    # Without the lock of whoever embeds meanwhile: that takes long, and is no harm.
    index.remove(names)
    return answer


HANDLERS: Mapping[str, Callable[[KnowledgeBaseService, Request], Data]] = {
    "IngestKnowledgeBaseDocuments": ingest,
    "GetKnowledgeBaseDocuments": get,
    "ListKnowledgeBaseDocuments": list_all,
    "DeleteKnowledgeBaseDocuments": delete,
}
