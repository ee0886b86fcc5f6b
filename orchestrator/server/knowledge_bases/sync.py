"""One ingestion: a bucket's objects into an index, as far as they changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from orchestrator.errors import DependencyFailed, LimitExceeded, ValidationError
from orchestrator.knowledge.blocks import Unreadable
from orchestrator.knowledge.documents import Raw, is_document
from orchestrator.knowledge.metadata import SUFFIX
from orchestrator.server.access.permissions import check_access
from orchestrator.server.buckets import Bucket
from orchestrator.server.knowledge_bases.chunking import Chunker
from orchestrator.server.knowledge_bases.index import DocumentName, Index
from orchestrator.server.operations import Caller

MOST_BYTES = 50_000_000
"""Of a document (Bedrock: "Ingestion job file size")."""

MOST_METADATA = 64 * 1024
# Bounds what one job holds in memory; a prefix chooses fewer.
_MOST_OBJECTS = 100_000
_NAMED = 10


class DocumentFingerprint(NamedTuple):
    """What is known of a document that was ingested before."""

    content: str  # digest of its content; empty when it could not be ingested
    metadata: str  # digest of its metadata; empty when it has none


@dataclass
class Sync:
    """Brings what a data source has in an index up to date with a bucket."""

    index: Index  # the index
    source: str  # the data source's id
    cutting: Chunker  # how documents are cut
    bucket: Bucket  # where the objects are
    name: str  # the bucket's name
    prefix: str  # how the keys of those begin that are read
    caller: Caller  # in whose name
    before: Mapping[str, DocumentFingerprint]  # what was ingested before, by name
    # Stores what is known of a document now: `None` for one that is no longer in the bucket
    save: Callable[[DocumentName, DocumentFingerprint | None], None]
    tick: Callable[[], None]  # called after each step; what it raises ends the work
    # What was counted (Bedrock: IngestionJobStatistics)
    statistics: dict[str, int] = field(default_factory=lambda: new_statistics())
    reasons: list[str] = field(default_factory=list)  # why documents failed or were passed over

    def run(self) -> None:
        """Reads what changed, and forgets what is gone; nothing is embedded.

        Raises:
            DependencyFailed: The objects cannot be listed, or the index failed.
            LimitExceeded: There are too many objects.
        """
        tags = self._list_objects()
        documents = [key for key in tags if is_document(key)]
        others = [key for key in tags if not key.endswith(("/", SUFFIX)) and not is_document(key)]
        self._count("Scanned", len(documents) + len(others))
        self.statistics["numberOfMetadataDocumentsScanned"] = sum(
            key.endswith(SUFFIX) for key in tags
        )
        self._skip(others)
        there = self.index.list_names(self.source)
        for key in documents:
            self.tick()
            self._sync_document(key, tags, there)
        self._remove_missing({self._place(key) for key in documents}, there)

    def _list_objects(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for key, tag in self.bucket.list(self.prefix):
            self.tick()
            found[key] = tag
            if len(found) > _MOST_OBJECTS:
                raise LimitExceeded(
                    f"the bucket {self.name!r} has more than {_MOST_OBJECTS:,} objects to read; "
                    "choose an inclusionPrefix",
                    limit="objects",
                )
        return found

    def _uri(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def _place(self, key: str) -> DocumentName:
        return DocumentName.of(self.source, self._uri(key))

    def _count(self, what: str, number: int = 1) -> None:
        self.statistics[f"numberOfDocuments{what}"] += number

    def _skip(self, keys: list[str]) -> None:
        self._count("Skipped", len(keys))
        if keys:
            named = ", ".join(self._uri(key) for key in keys[:_NAMED])
            self.reasons.append(
                f"{len(keys):,} files were passed over, whose formats are not read here: {named}"
                + (", ..." if len(keys) > _NAMED else "")
            )

    def _sync_document(self, key: str, tags: Mapping[str, str | None], there: set[str]) -> None:
        place = self._place(key)
        before = self.before.get(place) if place in there else None
        try:
            fingerprint = self._ingest(key, place, tags, before)
        except (DependencyFailed, Unreadable, ValidationError) as error:
            self._count("Failed")
            self.reasons.append(f"{self._uri(key)}: {error}")
            self.save(place, DocumentFingerprint("", ""))
            return
        if fingerprint != before:
            self._count_change(fingerprint, before)
            self.save(place, fingerprint)

    def _ingest(
        self,
        key: str,
        place: DocumentName,
        tags: Mapping[str, str | None],
        before: DocumentFingerprint | None,
    ) -> DocumentFingerprint:
        """The document, put into the index unless it is what is known."""
        check_access(self.caller, self._uri(key))
        content, metadata = tags[key], key + SUFFIX
        described = tags.get(metadata) if metadata in tags else ""
        fingerprint = DocumentFingerprint(self._fingerprint_content(content), described or "")
        if content is not None and described is not None and fingerprint == before:
            return fingerprint
        raw = Raw(
            key.rsplit("/", 1)[-1], self._read(key, MOST_BYTES), self._read_metadata(metadata, tags)
        )
        if content is None:
            fingerprint = DocumentFingerprint(
                self._fingerprint_content(_hash(raw.data)),
                _hash(raw.metadata) if raw.metadata else "",
            )
        if fingerprint != before:
            self.index.put(place, raw, raw.attributes(), self.cutting)
        return fingerprint

    def _fingerprint_content(self, tag: str | None) -> str:
        return f"{self.cutting.id}:{tag}"

    def _read_metadata(self, key: str, tags: Mapping[str, str | None]) -> bytes:
        if key not in tags:
            return b""
        check_access(self.caller, self._uri(key))
        return self._read(key, MOST_METADATA)

    def _read(self, key: str, most: int) -> bytes:
        data = self.bucket.read(key, most)
        if len(data) > most:
            raise Unreadable(f"{self._uri(key)} has more than {most:,} bytes")
        return data

    def _count_change(
        self, fingerprint: DocumentFingerprint, before: DocumentFingerprint | None
    ) -> None:
        if before is None or not before.content:
            self.statistics["numberOfNewDocumentsIndexed"] += 1
            return
        self.statistics["numberOfModifiedDocumentsIndexed"] += fingerprint.content != before.content
        self.statistics["numberOfMetadataDocumentsModified"] += (
            fingerprint.metadata != before.metadata
        )

    def _remove_missing(self, documents: set[DocumentName], there: set[str]) -> None:
        known = {DocumentName(name) for name in there | set(self.before)}
        for place in known - documents:
            self.tick()
            self.index.remove([place])
            self.save(place, None)
            self._count("Deleted", int(place in there))


_COUNTS = (
    "numberOfDocumentsScanned",
    "numberOfMetadataDocumentsScanned",
    "numberOfNewDocumentsIndexed",
    "numberOfModifiedDocumentsIndexed",
    "numberOfMetadataDocumentsModified",
    "numberOfDocumentsDeleted",
    "numberOfDocumentsFailed",
    "numberOfDocumentsSkipped",
)


def new_statistics() -> dict[str, int]:
    """Statistics of an ingestion that has not begun."""
    return dict.fromkeys(_COUNTS, 0)


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()
