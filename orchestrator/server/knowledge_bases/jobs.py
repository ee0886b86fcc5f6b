"""Ingestion jobs: a bucket's documents into a knowledge base, in the background."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from orchestrator.errors import OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.server.access.permissions import check_access
from orchestrator.server.buckets import open_bucket
from orchestrator.server.document_store import paginate, render_page
from orchestrator.server.ids import new_id, now
from orchestrator.server.knowledge_bases.chunking import build_chunker, list_ignored_settings
from orchestrator.server.knowledge_bases.index import DocumentName
from orchestrator.server.knowledge_bases.service import (
    BASE,
    DOCUMENT,
    JOB,
    Data,
    KnowledgeBaseService,
)
from orchestrator.server.knowledge_bases.sync import DocumentFingerprint, Sync, new_statistics
from orchestrator.server.operations import Caller, Fault, Request, conflict_error, pick
from orchestrator.server.wire.faults import log_failure

# Bedrock: "Concurrent ingestion jobs per account".
_MOST_RUNNING = 5
_MOST_KEPT = 1000
_STATES = ("STARTING", "IN_PROGRESS", "COMPLETE", "FAILED", "STOPPING", "STOPPED")
_PRIVATE = ("process",)


def _strip_private(job: Data) -> dict[str, Any]:
    return {name: it for name, it in job.items() if name not in _PRIVATE}


def _parent_key(params: Data) -> str:
    return f"{params['knowledgeBaseId']}/{params['dataSourceId']}"


def start(bases: KnowledgeBaseService, request: Request) -> Data:
    """StartIngestionJob."""
    params, tenant = request.params, request.caller.tenant
    base, source = params["knowledgeBaseId"], params["dataSourceId"]
    bucket, prefix = get_s3_location(bases.source(tenant, base, source))
    check_access(request.caller, f"s3://{bucket}/{prefix}")
    started: list[str] = []

    def make() -> Data:
        record = bases.record(tenant, base)
        check_idle(bases, tenant, record)
        _check_quota(bases, tenant)
        _delete_oldest(bases, tenant, _parent_key(params))
        job = _build_job(bases, params)
        bases.documents.put(tenant, JOB, job["ingestionJobId"], job, _parent_key(params))
        bases.save(tenant, {**record, "job": [_parent_key(params), job["ingestionJobId"]]})
        started.append(job["ingestionJobId"])
        return {"ingestionJob": _strip_private(job)}

    answer = bases.documents.run_once(request, make)
    for id in started:
        bases.run_in_background(_Job(bases, request.caller, base, source, id).run)
    return answer


def _build_job(bases: KnowledgeBaseService, params: Data) -> dict[str, Any]:
    time = now()
    return {
        "knowledgeBaseId": params["knowledgeBaseId"],
        "dataSourceId": params["dataSourceId"],
        "ingestionJobId": new_id(),
        **pick(params, ("description",)),
        "status": "STARTING",
        "statistics": new_statistics(),
        "startedAt": time,
        "updatedAt": time,
        "process": bases.living.me,
    }


def _delete_oldest(bases: KnowledgeBaseService, tenant: str, parent: str) -> None:
    """Deletes the oldest job when there are too many."""
    if bases.documents.count(tenant, JOB, parent) >= _MOST_KEPT:
        (oldest, *_) = bases.documents.all(tenant, JOB, parent)
        bases.documents.delete(tenant, JOB, oldest["ingestionJobId"], parent)


def _check_quota(bases: KnowledgeBaseService, tenant: str) -> None:
    running = 0
    for record in bases.documents.all(tenant, BASE):
        job = settle_job(bases, tenant, *record["job"]) if "job" in record else None
        running += job is not None and job["status"] in RUNNING
    if running >= _MOST_RUNNING:
        raise Fault(
            "ServiceQuotaExceededException",
            f"{running} ingestion jobs run already, as many as may at once: wait for one's end",
        )


def _get_job(bases: KnowledgeBaseService, request: Request) -> dict[str, Any]:
    params, tenant = request.params, request.caller.tenant
    bases.source(tenant, params["knowledgeBaseId"], params["dataSourceId"])
    found = settle_job(bases, tenant, _parent_key(params), params["ingestionJobId"])
    if found is None:
        raise ResourceNotFound(
            f"the data source {params['dataSourceId']!r} has no ingestion job "
            f"{params['ingestionJobId']!r}"
        )
    return found


def get(bases: KnowledgeBaseService, request: Request) -> Data:
    """GetIngestionJob."""
    return {"ingestionJob": _strip_private(_get_job(bases, request))}


def stop(bases: KnowledgeBaseService, request: Request) -> Data:
    """StopIngestionJob: it is `STOPPING` until it has stopped; what it did stays."""
    with bases.documents.transaction():
        job = _get_job(bases, request)
        if job["status"] not in RUNNING:
            raise conflict_error(
                f"the ingestion job {job['ingestionJobId']!r} is {job['status']}; it runs no more"
            )
        job = {**job, "status": "STOPPING", "updatedAt": now()}
        parent = _parent_key(request.params)
        bases.documents.put(request.caller.tenant, JOB, job["ingestionJobId"], job, parent)
    return {"ingestionJob": _strip_private(job)}


def list_all(bases: KnowledgeBaseService, request: Request) -> Data:
    """ListIngestionJobs, the last begun first unless `sortBy` says otherwise."""
    params, tenant, parent = request.params, request.caller.tenant, _parent_key(request.params)
    bases.source(tenant, params["knowledgeBaseId"], params["dataSourceId"])
    asked, by = (params.get("maxResults"), params.get("nextToken")), params.get("sortBy", {})
    if params.get("filters") or by.get("attribute") == "STATUS":
        jobs = _settle_jobs(bases, tenant, parent, bases.documents.all(tenant, JOB, parent))
        wanted = [set(it["values"]) for it in params.get("filters", ())]
        chosen = [job for job in jobs if all(job["status"] in values for values in wanted)]
        found, token = paginate(_add_sort_keys(chosen, by), *asked, f"{tenant}\0{parent}\0{by}")
    else:
        newest = by.get("order") != "ASCENDING"
        record, token = bases.documents.page(tenant, JOB, parent, *asked, newest=newest)
        found = _settle_jobs(bases, tenant, parent, record)
    left_out = (*_PRIVATE, "failureReasons")
    summaries = [{name: it for name, it in job.items() if name not in left_out} for job in found]
    return render_page("ingestionJobSummaries", (summaries, token))


def _settle_jobs(
    bases: KnowledgeBaseService, tenant: str, parent: str, jobs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    settled = (settle_job(bases, tenant, parent, it["ingestionJobId"]) for it in jobs)
    return [job for job in settled if job is not None]


def _add_sort_keys(
    jobs: list[dict[str, Any]], by: Mapping[str, str]
) -> Iterator[tuple[tuple[float, float, str], dict[str, Any]]]:
    sign = 1 if by.get("order") == "ASCENDING" else -1
    for job in jobs:
        first = 0
        if by.get("attribute") == "STATUS":
            first = sign * _STATES.index(job["status"])
        yield (first, sign * job["startedAt"].timestamp(), job["ingestionJobId"]), job


@dataclass(slots=True)
class _Job:
    """One job, as it runs."""

    bases: KnowledgeBaseService
    caller: Caller
    base: str
    source: str
    id: str
    sync: Sync | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def parent(self) -> str:
        return f"{self.base}/{self.source}"

    def run(self) -> None:
        """Runs the job to its end, whatever that is."""
        try:
            self._check_stop()
            self._save_changes(status="IN_PROGRESS")
            self._work()
            self._end("COMPLETE")
        except WorkStopped:
            self._end("STOPPED")
        except OrchestratorError as error:
            self._end("FAILED", error.message)
        except Exception as error:
            log_failure(error, f"for the ingestion job {self.id!r}")
            self._end("FAILED", "an internal error; the server's log has more")

    def _work(self) -> None:
        tenant = self.caller.tenant
        source = self.bases.source(tenant, self.base, self.source)
        ingestion = source.get("vectorIngestionConfiguration")
        bucket, prefix = get_s3_location(source)
        index = self.bases.index(tenant, self.base)
        self.notes += list_ignored_settings(ingestion)
        self.sync = Sync(
            index=index,
            source=self.source,
            cutting=build_chunker(ingestion),
            bucket=open_bucket(bucket, self.bases.buckets),
            name=bucket,
            prefix=prefix,
            caller=self.caller,
            before=dict(self._load_fingerprints()),
            save=self._save_fingerprint,
            tick=self._check_stop,
        )
        self.sync.run()
        self._save_changes(textReadyAt=now())
        with index.lock:
            note = index.embed(self._check_stop)
        self.notes += [note] if note else []

    def _check_stop(self) -> None:
        """Stores how far the job is, and ends it when it is to stop."""
        job = self.bases.documents.get(self.caller.tenant, JOB, self.id, self.parent)
        if job is None or job["status"] == "STOPPING" or self.bases.closing.is_set():
            raise WorkStopped
        if self.sync is not None and job["statistics"] != self.sync.statistics:
            self._save_changes()

    def _save_changes(self, **members: Any) -> None:
        documents, tenant = self.bases.documents, self.caller.tenant
        with documents.transaction():
            job = documents.get(tenant, JOB, self.id, self.parent)
            if job is None:
                return
            if "status" in members and job["status"] == "STOPPING":
                going_on = members["status"] in RUNNING
                members["status"] = "STOPPING" if going_on else "STOPPED"
            counts = {"statistics": dict(self.sync.statistics)} if self.sync is not None else {}
            changed = {**job, **counts, **members, "updatedAt": now()}
            documents.put(tenant, JOB, self.id, changed, self.parent)

    def _end(self, status: str, reason: str = "") -> None:
        reasons = [reason] if reason else []
        if status == "STOPPED" and self.bases.closing.is_set():
            status, reasons = "FAILED", ["the server was stopped; start another job"]
        reasons += [*self.notes, *(self.sync.reasons if self.sync is not None else ())]
        reasons = [self.bases.redactor.redact(it) for it in reasons]
        members = {"failureReasons": _shorten_reasons(reasons)} if reasons else {}
        self._save_changes(status=status, **members)

    def _load_fingerprints(self) -> Iterator[tuple[DocumentName, DocumentFingerprint]]:
        for it in self.bases.documents.all(self.caller.tenant, DOCUMENT, self.parent):
            fingerprint = DocumentFingerprint(it.get("content", ""), it.get("metadata", ""))
            yield DocumentName.of(self.source, it["uri"]), fingerprint

    def _save_fingerprint(
        self, place: DocumentName, fingerprint: DocumentFingerprint | None
    ) -> None:
        key = get_document_key(place)
        if fingerprint is None:
            self.bases.documents.delete(self.caller.tenant, DOCUMENT, key, self.parent)
        else:
            record = {"uri": place.uri, **fingerprint._asdict()}
            self.bases.documents.put(self.caller.tenant, DOCUMENT, key, record, self.parent)


def get_document_key(name: DocumentName) -> str:
    """The id under which it is stored what is known of a document."""
    return sha256(name.place.encode("utf-8", "backslashreplace")).hexdigest()


def _shorten_reasons(reasons: Sequence[str], most: int = 100, longest: int = 2000) -> list[str]:
    shortened = [it if len(it) <= longest else it[:longest] + "…" for it in reasons[:most]]
    more = len(reasons) - most
    return [*shortened, f"and {more:,} more"] if more > 0 else shortened


def get_s3_location(source: Data) -> tuple[str, str]:
    """The bucket of an S3 data source, and how the keys of what is read of it begin.

    Raises:
        ValidationError: It is of another type.
    """
    if source["dataSourceConfiguration"]["type"] != "S3":
        raise ValidationError(
            "a data source of the type CUSTOM has no ingestion jobs; call "
            "IngestKnowledgeBaseDocuments"
        )
    config = source["dataSourceConfiguration"]["s3Configuration"]
    (prefix,) = config.get("inclusionPrefixes") or ("",)
    return config["bucketArn"].rsplit(":", 1)[1], prefix


RUNNING = frozenset(("STARTING", "IN_PROGRESS", "STOPPING"))
"""The states of work that is not done."""

_ENDED = "the server was stopped before this was done; start it again"


class WorkStopped(Exception):
    """Ends work in the background, because it was asked to stop, or the server was."""


def settle_job(
    bases: KnowledgeBaseService, tenant: str, parent: str, id: str
) -> dict[str, Any] | None:
    """A job as it is shown: one whose process has ended will not go on, and has failed."""
    with bases.documents.transaction():
        record = bases.documents.get(tenant, JOB, id, parent)
        if (
            record is None
            or record["status"] not in RUNNING
            or bases.living.is_alive(record["process"])
        ):
            return record
        status = "STOPPED" if record["status"] == "STOPPING" else "FAILED"
        reasons = [*record.get("failureReasons", ()), _ENDED]
        record = {**record, "status": status, "failureReasons": reasons, "updatedAt": now()}
        bases.documents.put(tenant, JOB, id, record, parent)
    return record


def check_idle(bases: KnowledgeBaseService, tenant: str, record: Data) -> None:
    """Sees to it that no job brings documents into a knowledge base."""
    last = record.get("job")
    job = settle_job(bases, tenant, *last) if last else None
    if job is not None and job["status"] in RUNNING:
        raise conflict_error(
            f"the ingestion job {job['ingestionJobId']!r} of the data source "
            f"{job['dataSourceId']!r} is {job['status']}: wait for its end, or stop it"
        )


HANDLERS = {
    "StartIngestionJob": start,
    "GetIngestionJob": get,
    "ListIngestionJobs": list_all,
    "StopIngestionJob": stop,
}
