"""Ingestion jobs: a bucket's documents into a knowledge base, in the background."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.errors import OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.server.access.allowed import check_allowed
from orchestrator.server.control.bases.cutting import cutting_of, notes_on
from orchestrator.server.control.bases.data_sources import where
from orchestrator.server.control.bases.index import Place
from orchestrator.server.control.bases.objects import bucket_of
from orchestrator.server.control.bases.records import (
    BASE,
    DOCUMENT,
    JOB,
    base_of,
    identity,
    key_of,
    now,
    shortened,
    source_of,
)
from orchestrator.server.control.bases.room import Bases
from orchestrator.server.control.bases.running import RUNNING, Stopped, check_idle, settled_job
from orchestrator.server.control.bases.syncing import Kept, Sync, no_counts
from orchestrator.server.control.ids import new_id
from orchestrator.server.operations import Caller, Fault, Request
from orchestrator.server.paging import paged
from orchestrator.server.wire.faults import log_failure

__all__ = ["get", "listed", "start", "stop"]


_MOST_RUNNING = 5  # Bedrock: "Concurrent ingestion jobs per account"
_MOST_KEPT = 1000
_STATES = ("STARTING", "IN_PROGRESS", "COMPLETE", "FAILED", "STOPPING", "STOPPED")
_PRIVATE = ("process",)


def _told(job: Mapping[str, Any]) -> dict[str, Any]:
    return {name: it for name, it in job.items() if name not in _PRIVATE}


def _parent(params: Mapping[str, Any]) -> str:
    return f"{params['knowledgeBaseId']}/{params['dataSourceId']}"


def start(bases: Bases, request: Request) -> Mapping[str, Any]:
    """StartIngestionJob.

    Raises:
        AccessDenied: The caller may not have the bucket read.
        ValidationError: The data source has no bucket.
        Fault: ConflictException, while another job runs in the knowledge base.
    """
    params, tenant = request.params, request.caller.tenant
    base, source = params["knowledgeBaseId"], params["dataSourceId"]
    told = source_of(bases.documents, tenant, base, source)
    if told["dataSourceConfiguration"]["type"] != "S3":
        raise ValidationError(
            f"the data source {source!r} is a CUSTOM one, which has nothing to read from: send its "
            "documents with IngestKnowledgeBaseDocuments"
        )
    bucket, prefix = where(told)
    check_allowed(request.caller, f"s3://{bucket}/{prefix}")
    begun: list[str] = []

    def make() -> Mapping[str, Any]:
        kept = base_of(bases.documents, tenant, base)
        check_idle(bases, tenant, kept)
        _check_quota(bases, tenant)
        _forget_old(bases, tenant, _parent(params))
        job = _made(bases, params)
        bases.documents.put(tenant, JOB, job["ingestionJobId"], job, _parent(params))
        bases.keep(tenant, {**kept, "job": [_parent(params), job["ingestionJobId"]]})
        begun.append(job["ingestionJobId"])
        return {"ingestionJob": _told(job)}

    token = params.get("clientToken")
    answer = bases.documents.once(tenant, request.operation, token, params, make)
    for id in begun:
        bases.background.run(tenant, _Job(bases, request.caller, base, source, id).run)
    return answer


def _made(bases: Bases, params: Mapping[str, Any]) -> dict[str, Any]:
    time = now()
    return {
        "knowledgeBaseId": params["knowledgeBaseId"],
        "dataSourceId": params["dataSourceId"],
        "ingestionJobId": new_id(),
        **({"description": params["description"]} if "description" in params else {}),
        "status": "STARTING",
        "statistics": no_counts(),
        "startedAt": time,
        "updatedAt": time,
        "process": bases.living.me,
    }


def _forget_old(bases: Bases, tenant: str, parent: str) -> None:
    """Makes room in what is told of earlier jobs."""
    if bases.documents.count(tenant, JOB, parent) >= _MOST_KEPT:
        (oldest, *_) = bases.documents.all(tenant, JOB, parent)
        bases.documents.delete(tenant, JOB, oldest["ingestionJobId"], parent)


def _check_quota(bases: Bases, tenant: str) -> None:
    running = 0
    for kept in bases.documents.all(tenant, BASE):
        job = settled_job(bases, tenant, *kept["job"]) if "job" in kept else None
        running += job is not None and job["status"] in RUNNING
    if running >= _MOST_RUNNING:
        raise Fault(
            "ServiceQuotaExceededException",
            f"{running} ingestion jobs run already, as many as may at once: wait for one's end",
        )


def _job_of(bases: Bases, request: Request) -> dict[str, Any]:
    params, tenant = request.params, request.caller.tenant
    source_of(bases.documents, tenant, params["knowledgeBaseId"], params["dataSourceId"])
    found = settled_job(bases, tenant, _parent(params), params["ingestionJobId"])
    if found is None:
        raise ResourceNotFound(
            f"the data source {params['dataSourceId']!r} has no ingestion job "
            f"{params['ingestionJobId']!r}"
        )
    return found


def get(bases: Bases, request: Request) -> Mapping[str, Any]:
    """GetIngestionJob."""
    return {"ingestionJob": _told(_job_of(bases, request))}


def stop(bases: Bases, request: Request) -> Mapping[str, Any]:
    """StopIngestionJob: it is `STOPPING` until it has stopped; what it did stays.

    Raises:
        Fault: ConflictException, when it is done already.
    """
    with bases.documents.transaction():
        job = _job_of(bases, request)
        if job["status"] not in RUNNING:
            raise Fault(
                "ConflictException",
                f"the ingestion job {job['ingestionJobId']!r} is {job['status']}; it runs no more",
            )
        job = {**job, "status": "STOPPING", "updatedAt": now()}
        parent = _parent(request.params)
        bases.documents.put(request.caller.tenant, JOB, job["ingestionJobId"], job, parent)
    return {"ingestionJob": _told(job)}


def listed(bases: Bases, request: Request) -> Mapping[str, Any]:
    """ListIngestionJobs, the last begun first unless `sortBy` says otherwise."""
    params, tenant, parent = request.params, request.caller.tenant, _parent(request.params)
    source_of(bases.documents, tenant, params["knowledgeBaseId"], params["dataSourceId"])
    asked, by = (params.get("maxResults"), params.get("nextToken")), params.get("sortBy", {})
    if params.get("filters") or by.get("attribute") == "STATUS":
        jobs = _settled(bases, tenant, parent, bases.documents.all(tenant, JOB, parent))
        wanted = [set(it["values"]) for it in params.get("filters", ())]
        chosen = [job for job in jobs if all(job["status"] in values for values in wanted)]
        found, token = paged(_ordered(chosen, by), *asked, f"{tenant}\0{parent}\0{by}")
    else:
        newest = by.get("order") != "ASCENDING"
        kept, token = bases.documents.page(tenant, JOB, parent, *asked, newest=newest)
        found = _settled(bases, tenant, parent, kept)
    left_out = (*_PRIVATE, "failureReasons")
    told = [{name: it for name, it in job.items() if name not in left_out} for job in found]
    return {"ingestionJobSummaries": told, **({"nextToken": token} if token else {})}


def _settled(
    bases: Bases, tenant: str, parent: str, jobs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    settled = (settled_job(bases, tenant, parent, it["ingestionJobId"]) for it in jobs)
    return [job for job in settled if job is not None]


def _ordered(
    jobs: list[dict[str, Any]], by: Mapping[str, str]
) -> Iterator[tuple[tuple[float, float, str], dict[str, Any]]]:
    sign = 1 if by.get("order") == "ASCENDING" else -1
    for job in jobs:
        first = 0
        if by.get("attribute") == "STATUS":
            first = sign * _STATES.index(job["status"])
        yield (first, sign * job["startedAt"].timestamp(), job["ingestionJobId"]), job


class _Job:
    """One job, as it runs; also a `Report` of what it does."""

    def __init__(self, bases: Bases, caller: Caller, base: str, source: str, id: str) -> None:
        self.bases = bases
        self.caller = caller
        self.base = base
        self.source = source
        self.id = id
        self.parent = f"{base}/{source}"
        self.sync: Sync | None = None
        self.notes: list[str] = []

    # -- running ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the job to its end, whatever that is."""
        try:
            self._tick()
            self._change(status="IN_PROGRESS")
            self._work()
            self._end("COMPLETE")
        except Stopped:
            self._end("STOPPED")
        except OrchestratorError as error:
            self._end("FAILED", error.message)
        except Exception as error:
            log_failure(error, f"for the ingestion job {self.id!r}")
            self._end("FAILED", "an internal error; the server's log has more")

    def _work(self) -> None:
        tenant = self.caller.tenant
        source = source_of(self.bases.documents, tenant, self.base, self.source)
        ingestion = source.get("vectorIngestionConfiguration")
        bucket, prefix = where(source)
        index = self.bases.index(tenant, self.base)
        self.notes += notes_on(ingestion)
        self.sync = Sync(
            index=index,
            source=self.source,
            cutting=cutting_of(ingestion),
            bucket=bucket_of(bucket, self.bases.folders),
            name=bucket,
            prefix=prefix,
            caller=self.caller,
            before=dict(self._known()),
            report=self,
            tick=self._tick,
        )
        self.sync.run()
        self._change(textReadyAt=now())
        with index.lock:
            note = index.embed(self._tick)
        self.notes += [note] if note else []

    def _tick(self) -> None:
        """Tells how far it is, and ends it when it is to stop.

        Raises:
            Stopped: It is.
        """
        job = self.bases.documents.get(self.caller.tenant, JOB, self.id, self.parent)
        if job is None or job["status"] == "STOPPING" or self.bases.closing.is_set():
            raise Stopped
        if self.sync is not None and job["statistics"] != self.sync.statistics:
            self._change()

    def _change(self, **members: Any) -> None:
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
        reasons = [self.bases.world.places.told(it) for it in reasons]
        members = {"failureReasons": shortened(reasons)} if reasons else {}
        self._change(status=status, **members)

    # -- documents -------------------------------------------------------------------------------

    def _known(self) -> Iterator[tuple[Place, Kept]]:
        for it in self.bases.documents.all(self.caller.tenant, DOCUMENT, self.parent):
            kind, id = identity(it["identifier"])
            kept = Kept(it.get("content", ""), it.get("metadata", ""))
            yield Place.of(self.source, kind, id), kept

    def done(self, place: Place, kept: Kept, failure: str | None) -> None:
        """A document was ingested, or could not be."""
        uri = place.location["s3Location"]["uri"]
        told = {
            "identifier": {"dataSourceType": "S3", "s3": {"uri": uri}},
            "status": "INDEXED" if failure is None else "FAILED",
            **({} if failure is None else {"statusReason": failure}),
            "content": kept.content,
            "metadata": kept.metadata,
            "updatedAt": now(),
        }
        self.bases.documents.put(self.caller.tenant, DOCUMENT, key_of("S3", uri), told, self.parent)

    def gone(self, place: Place) -> None:
        """A document is no longer there."""
        uri = place.location["s3Location"]["uri"]
        self.bases.documents.delete(self.caller.tenant, DOCUMENT, key_of("S3", uri), self.parent)
