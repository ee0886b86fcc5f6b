"""One ingestion: a bucket's objects into an index, as far as they changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple, Protocol

from orchestrator.errors import DependencyFailed, LimitExceeded, ValidationError
from orchestrator.knowledge.blocks import Unreadable
from orchestrator.knowledge.metadata import SUFFIX
from orchestrator.knowledge.reading import Raw, is_document
from orchestrator.server.access.allowed import check_allowed
from orchestrator.server.control.bases.cutting import Cutting
from orchestrator.server.control.bases.index import Index, Place
from orchestrator.server.control.bases.objects import Bucket
from orchestrator.server.operations import Caller

__all__ = ["MOST_BYTES", "MOST_METADATA", "Kept", "Report", "Sync", "no_counts"]

MOST_BYTES = 50_000_000
"""Of a document (Bedrock: "Ingestion job file size")."""

MOST_METADATA = 64 * 1024
_MOST_OBJECTS = 100_000
_NAMED = 10


class Kept(NamedTuple):
    """What is known of a document that was ingested before.

    Attributes:
        content: What tells its content from any other; empty when it could not be ingested.
        metadata: What tells its metadata from any other; empty when it has none.
    """

    content: str
    metadata: str


class Report(Protocol):
    """Where a sync tells what has become of a document."""

    def done(self, place: Place, kept: Kept, failure: str | None) -> None:
        """It was ingested, or could not be."""
        ...

    def gone(self, place: Place) -> None:
        """It is no longer there."""
        ...


@dataclass
class Sync:
    """Brings what a data source has in an index up to date with a bucket.

    Attributes:
        index: The index.
        source: The data source's id.
        cutting: How documents are cut.
        bucket: Where the objects are.
        name: The bucket's name.
        prefix: How the keys of those begin that are read.
        caller: In whose name.
        before: What was ingested before, by name.
        report: Told of every document.
        tick: Called again and again with what has been counted; what it raises ends the work.
        statistics: What was counted (Bedrock: IngestionJobStatistics).
        reasons: Why documents failed or were passed over.
    """

    index: Index
    source: str
    cutting: Cutting
    bucket: Bucket
    name: str
    prefix: str
    caller: Caller
    before: Mapping[str, Kept]
    report: Report
    tick: Callable[[], None]
    statistics: dict[str, int] = field(default_factory=lambda: no_counts())
    reasons: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Reads what changed, and forgets what is gone; nothing is embedded.

        Raises:
            DependencyFailed: The objects cannot be listed, or the index failed.
            LimitExceeded: There are too many objects.
        """
        tags = self._listed()
        documents = [key for key in tags if is_document(key)]
        others = [key for key in tags if not key.endswith(("/", SUFFIX)) and not is_document(key)]
        self._count("Scanned", len(documents) + len(others))
        self.statistics["numberOfMetadataDocumentsScanned"] = sum(
            key.endswith(SUFFIX) for key in tags
        )
        self._pass_over(others)
        there = self.index.places(self.source)
        for key in documents:
            self.tick()
            self._one(key, tags, there)
        self._forget({self._place(key) for key in documents}, there)

    def _listed(self) -> dict[str, str | None]:
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

    def _place(self, key: str) -> Place:
        return Place.of(self.source, "S3", self._uri(key))

    def _count(self, what: str, number: int = 1) -> None:
        self.statistics[f"numberOfDocuments{what}"] += number

    def _pass_over(self, keys: list[str]) -> None:
        self._count("Skipped", len(keys))
        if keys:
            named = ", ".join(self._uri(key) for key in keys[:_NAMED])
            self.reasons.append(
                f"{len(keys):,} files were passed over, whose formats are not read here: {named}"
                + (", ..." if len(keys) > _NAMED else "")
            )

    def _one(self, key: str, tags: Mapping[str, str | None], there: set[str]) -> None:
        place = self._place(key)
        before = self.before.get(place) if place in there else None
        try:
            kept = self._ingested(key, place, tags, before)
        except (DependencyFailed, Unreadable, ValidationError) as error:
            self._count("Failed")
            self.reasons.append(f"{self._uri(key)}: {error}")
            self.report.done(place, Kept("", ""), str(error))
            return
        if kept != before:
            self._tell(kept, before)
            self.report.done(place, kept, None)

    def _ingested(
        self, key: str, place: Place, tags: Mapping[str, str | None], before: Kept | None
    ) -> Kept:
        """The document, put into the index unless it is what is known."""
        check_allowed(self.caller, self._uri(key))
        content, metadata = tags[key], key + SUFFIX
        described = tags.get(metadata) if metadata in tags else ""
        kept = Kept(self._told(content), described or "")
        if content is not None and described is not None and kept == before:
            return kept
        raw = Raw(_file_name(key), self._read(key, MOST_BYTES), self._described(metadata, tags))
        if content is None:
            kept = Kept(self._told(_hash(raw.data)), _hash(raw.metadata) if raw.metadata else "")
        if kept != before:
            self.index.put(place, raw, raw.attributes(), self._uri(key), self.cutting)
        return kept

    def _told(self, tag: str | None) -> str:
        return f"{self.cutting.id}:{tag}"

    def _described(self, key: str, tags: Mapping[str, str | None]) -> bytes:
        if key not in tags:
            return b""
        check_allowed(self.caller, self._uri(key))
        return self._read(key, MOST_METADATA)

    def _read(self, key: str, most: int) -> bytes:
        data = self.bucket.read(key, most)
        if len(data) > most:
            raise Unreadable(f"{self._uri(key)} has more than {most:,} bytes")
        return data

    def _tell(self, kept: Kept, before: Kept | None) -> None:
        if before is None or not before.content:
            self.statistics["numberOfNewDocumentsIndexed"] += 1
            return
        self.statistics["numberOfModifiedDocumentsIndexed"] += kept.content != before.content
        self.statistics["numberOfMetadataDocumentsModified"] += kept.metadata != before.metadata

    def _forget(self, documents: set[Place], there: set[str]) -> None:
        known = {Place(name) for name in there | set(self.before)}
        for place in known - documents:
            self.tick()
            self.index.remove([place])
            self.report.gone(place)
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


def no_counts() -> dict[str, int]:
    """Statistics of an ingestion that has not begun."""
    return dict.fromkeys(_COUNTS, 0)


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()


def _file_name(key: str) -> str:
    return key.rsplit("/", 1)[-1]
