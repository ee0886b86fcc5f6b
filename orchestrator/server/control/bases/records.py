"""What the server keeps of knowledge bases: kinds of documents, ids, times and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from orchestrator.errors import ResourceNotFound
from orchestrator.server.documents import Documents

__all__ = [
    "BASE",
    "DOCUMENT",
    "JOB",
    "SOURCE",
    "base_of",
    "identity",
    "key_of",
    "now",
    "shortened",
    "source_of",
]

BASE = "knowledge-base"
SOURCE = "data-source"
JOB = "ingestion-job"
DOCUMENT = "knowledge-base-document"


def now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def identity(identifier: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of a document, `S3` or `CUSTOM`, and its address or id (DocumentIdentifier)."""
    if identifier["dataSourceType"] == "S3":
        return "S3", identifier["s3"]["uri"]
    return "CUSTOM", identifier["custom"]["id"]


def key_of(kind: str, id: str) -> str:
    """The id under which a document's record is kept."""
    return sha256(f"{kind}:{id}".encode("utf-8", "backslashreplace")).hexdigest()


def base_of(documents: Documents, tenant: str, id: str) -> dict[str, Any]:
    """What is kept of a knowledge base: `knowledgeBase`, `tags`, and its last `job`.

    Raises:
        ResourceNotFound: There is no such knowledge base.
    """
    found = documents.get(tenant, BASE, id)
    if found is None:
        raise ResourceNotFound(f"there is no knowledge base {id!r}")
    return found


def source_of(documents: Documents, tenant: str, base: str, id: str) -> dict[str, Any]:
    """A data source.

    Raises:
        ResourceNotFound: There is no such knowledge base or data source.
    """
    base_of(documents, tenant, base)
    found = documents.get(tenant, SOURCE, id, base)
    if found is None:
        raise ResourceNotFound(f"the knowledge base {base!r} has no data source {id!r}")
    return found


def shortened(reasons: Sequence[str], most: int = 100, longest: int = 2000) -> list[str]:
    """Reasons of failures, as many and as long as are told."""
    told = [it if len(it) <= longest else it[:longest] + "…" for it in reasons[:most]]
    more = len(reasons) - most
    return [*told, f"and {more:,} more"] if more > 0 else told
