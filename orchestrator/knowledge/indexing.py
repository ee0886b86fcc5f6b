"""Bringing an index up to date with its folder: what was added, changed and removed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.knowledge.blocks import Unreadable
from orchestrator.knowledge.chunks import Chunking, passages_of
from orchestrator.knowledge.documents import find_files, read_blocks, read_raw
from orchestrator.knowledge.metadata import SOURCE
from orchestrator.knowledge.store import Store
from orchestrator.models.embeddings import Embedder

# Called with what is done, what there is in all, and a word for what is being done.
Progress = Callable[[int, int, str], None]

# To be raised when documents are read in another way: then all are read again.
READING = 1

_BATCH = 64


@dataclass(slots=True)
class IndexReport:
    """What indexing has done."""

    added: list[str] = field(default_factory=list)  # names of new documents
    changed: list[str] = field(default_factory=list)  # names of documents that changed
    removed: list[str] = field(default_factory=list)  # names of documents that are gone
    unchanged: int = 0  # number of documents left as they are
    embedded: int = 0  # number of passages that were embedded
    passages: int = 0  # number of passages there are now
    # Documents that cannot be read, with the reason; they are not found
    skipped: Mapping[str, str] = field(default_factory=dict)
    # How many files are of no kind that is read, by their endings
    ignored: Mapping[str, int] = field(default_factory=dict)


def bring_up_to_date(
    store: Store,
    folder: Path,
    *,
    embedder: Embedder | None,
    chunking: Chunking,
    max_file_bytes: int,
    progress: Progress | None = None,
) -> IndexReport:
    """Reads what changed, deletes what is gone, and embeds what has no vector yet.

    Every document and every batch of vectors is one transaction: what was done before an
    interruption is not done again.
    """
    report = _Indexer(store, folder, chunking, max_file_bytes).run(progress)
    if embedder is not None:
        report.embedded = embed_missing(store, embedder, progress)
    report.passages = store.count()[0]
    return report


class _Indexer:
    def __init__(self, store: Store, folder: Path, chunking: Chunking, limit: int) -> None:
        self.store = store
        self.folder = folder
        self.chunking = chunking
        self.limit = limit
        self.before = store.digests()
        self.skipped: dict[str, str] = {}
        self.report = IndexReport(skipped=self.skipped)

    def run(self, progress: Progress | None) -> IndexReport:
        names, self.report.ignored = find_files(self.folder)
        for number, name in enumerate(names):
            if progress:
                progress(number, len(names), "reading")
            try:
                self._read(name)
            except Unreadable as error:
                self.skipped[name] = str(error)
        if progress:
            progress(len(names), len(names), "reading")
        there = set(names) - set(self.skipped)
        gone = sorted(set(self.before) - there)
        self.store.remove(gone)
        self.report.removed = gone
        return self.report

    def _read(self, name: str) -> None:
        raw = read_raw(self.folder, name, self.limit)
        # Cut in another way, the same document has other passages.
        reading = f"{READING}:{self.chunking}:{raw.digest}"
        digest = hashlib.sha256(reading.encode()).hexdigest()
        if self.before.get(name) == digest:
            self.report.unchanged += 1
            return
        attributes = raw.attributes()
        passages = passages_of(read_blocks(raw), self.chunking)
        metadata = {**attributes.values, SOURCE: name}
        self.store.put(name, digest, metadata, passages, attributes.text)
        (self.report.changed if name in self.before else self.report.added).append(name)


def embed_missing(store: Store, embedder: Embedder, progress: Progress | None = None) -> int:
    """Embeds the passages that have no vector of this embedder yet; returns how many.

    Vectors of another embedder are deleted. An exception of `progress` ends the work; what was
    embedded stays.
    """
    import numpy as np

    store.use_embedder(embedder.id)
    passages, before = store.count()
    total, done = passages - before, 0
    while batch := store.without_vector(_BATCH):
        if progress:
            progress(done, max(total, done), "embedding")
        vectors = np.ascontiguousarray(embedder.embed([text for _, text in batch]), np.float32)
        rows = [(id, vector.tobytes()) for (id, _), vector in zip(batch, vectors, strict=True)]
        store.put_vectors(embedder.id, rows)
        done += len(batch)
        if store.embedder != embedder.id:  # another process uses another one: it has the last word
            break
    if progress and total:
        progress(done, done, "embedding")
    return done
