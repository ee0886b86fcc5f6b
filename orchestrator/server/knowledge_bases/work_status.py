"""Work in the background, and what is told of it when its process has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.server.knowledge_bases.records import JOB, now
from orchestrator.server.knowledge_bases.service import KnowledgeBaseService
from orchestrator.server.operations import Fault

RUNNING = frozenset(("STARTING", "IN_PROGRESS", "STOPPING"))
"""The states of work that is not done."""

_ENDED = "the server was stopped before this was done; start it again"


class WorkStopped(Exception):
    """Ends work in the background, because it was asked to stop, or the server was."""


def settle_job(
    bases: KnowledgeBaseService, tenant: str, parent: str, id: str
) -> dict[str, Any] | None:
    """A job as it is told: one whose process has ended will not go on, and has failed.

    Args:
        bases: The room.
        tenant: Whose it is.
        parent: The ids of its knowledge base and data source, with `/` between them.
        id: Its id.
    """
    with bases.documents.transaction():
        kept = bases.documents.get(tenant, JOB, id, parent)
        if kept is None or kept["status"] not in RUNNING or bases.living.is_alive(kept["process"]):
            return kept
        status = "STOPPED" if kept["status"] == "STOPPING" else "FAILED"
        reasons = [*kept.get("failureReasons", ()), _ENDED]
        kept = {**kept, "status": status, "failureReasons": reasons, "updatedAt": now()}
        bases.documents.put(tenant, JOB, id, kept, parent)
    return kept


def check_idle(bases: KnowledgeBaseService, tenant: str, kept: Mapping[str, Any]) -> None:
    """Sees to it that no job brings documents into a knowledge base.

    Raises:
        Fault: ConflictException, when one does.
    """
    last = kept.get("job")
    job = settle_job(bases, tenant, *last) if last else None
    if job is not None and job["status"] in RUNNING:
        raise Fault(
            "ConflictException",
            f"the ingestion job {job['ingestionJobId']!r} of the data source "
            f"{job['dataSourceId']!r} is {job['status']}: wait for its end, or stop it",
        )
