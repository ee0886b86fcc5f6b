"""What the server keeps of knowledge bases: kinds of documents, ids, times and states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from orchestrator.errors import ResourceNotFound
from orchestrator.server.document_store import DocumentStore
from orchestrator.server.operations import Fault

BASE = "knowledge-base"
SOURCE = "data-source"
JOB = "ingestion-job"
DOCUMENT = "knowledge-base-document"

ID = re.compile("[0-9a-zA-Z]{10}")
"""The form of ids (Bedrock: Id)."""

_MOST_TAGS = 50


def now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def make_document_key(uri: str) -> str:
    """The id under which the record of the document at an address is stored."""
    return sha256(uri.encode("utf-8", "backslashreplace")).hexdigest()


def get_base(documents: DocumentStore, tenant: str, id: str) -> dict[str, Any]:
    """What is stored of a knowledge base: `knowledgeBase`, `tags`, and its last `job`."""
    found = documents.get(tenant, BASE, id)
    if found is None:
        raise ResourceNotFound(f"there is no knowledge base {id!r}")
    return found


def get_source(documents: DocumentStore, tenant: str, base: str, id: str) -> dict[str, Any]:
    """A data source."""
    get_base(documents, tenant, base)
    found = documents.get(tenant, SOURCE, id, base)
    if found is None:
        raise ResourceNotFound(f"the knowledge base {base!r} has no data source {id!r}")
    return found


def get_s3_location(source: Mapping[str, Any]) -> tuple[str, str]:
    """The bucket of an S3 data source, and how the keys of what is read of it begin."""
    config = source["dataSourceConfiguration"]["s3Configuration"]
    (prefix,) = config.get("inclusionPrefixes") or ("",)
    return config["bucketArn"].rsplit(":", 1)[1], prefix


def check_tags(tags: Mapping[str, str]) -> None:
    """Sees to it that a knowledge base has no more tags than it may."""
    if len(tags) > _MOST_TAGS:
        raise Fault(
            "ServiceQuotaExceededException",
            f"there would be {len(tags)} tags, and the most are {_MOST_TAGS}; remove some",
        )


def shorten_reasons(reasons: Sequence[str], most: int = 100, longest: int = 2000) -> list[str]:
    """Reasons of failures, as many and as long as are reported."""
    shortened = [it if len(it) <= longest else it[:longest] + "…" for it in reasons[:most]]
    more = len(reasons) - most
    return [*shortened, f"and {more:,} more"] if more > 0 else shortened
