"""A folder of documents as a knowledge base, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.knowledge.chunks import Chunking
from orchestrator.knowledge.filters import Filter
from orchestrator.knowledge.indexing import IndexReport, Progress, bring_up_to_date
from orchestrator.knowledge.metadata import CHUNK_ID, PAGE
from orchestrator.knowledge.ranking import (
    Allowed,
    Catalog,
    Vectors,
    rank_by_words,
    rank_passages,
)
from orchestrator.knowledge.rerank import BedrockReranker, Reranker
from orchestrator.knowledge.settings import (
    Search,
    check,
    check_query,
    merge_configurations,
    search_of,
)
from orchestrator.knowledge.store import Hit, Store, StoredPassage
from orchestrator.models import resolve_embedder
from orchestrator.models.embeddings import Embedder

_RERANKED = 25  # how many passages a reranker chooses from, at least


class LocalKnowledgeBase:
    """Searches a folder of Markdown, text, HTML and PDF files. Safe for many threads.

    The index is updated at the first search of a process, and whenever `index` is called, also by
    another process. Files and folders whose names begin with a dot, and links, are not read.

    Attributes:
        id: The knowledge base id, as the model calls it.
        description: For the model: what can be found here.
        folder: Where the documents are.
        embedder: What understands meaning; `None` when it searches by keywords only.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        id: str,
        description: str = "",
        index: str | Path | Store | None = None,
        embedder: Embedder | str | None = "local",
        chunking: Chunking | None = None,
        retrieval_configuration: Mapping[str, Any] | None = None,
        reranker: Reranker | None = None,
        refresh: bool = True,
        max_file_bytes: int = 20_000_000,
    ) -> None:
        """Names the folder; nothing is read before the first search.

        Args:
            folder: The documents, in any depth. `NAME.metadata.json` holds a file's metadata.
            id: The knowledge base id.
            description: For the model.
            index: The SQLite file that keeps the index, made when needed, or an open one; `None`
                keeps it in memory, and reads all documents again in the next process.
            embedder: What understands meaning: an embedder or a name for `resolve_embedder`
                (`"local"`: the embedded MiniLM). `None` searches by keywords only, which needs no
                model and finds only what has the question's words.
            chunking: How documents are cut.
            retrieval_configuration: Bedrock's `retrievalConfiguration` for all searches; that of
                a call wins, member by member.
            reranker: Puts what was found in a better order. A `rerankingConfiguration` wins.
            refresh: Whether the first search brings the index up to date.
            max_file_bytes: Larger files are skipped.

        Raises:
            ValidationError: The retrieval configuration or the embedder's name is wrong.
        """
        check(retrieval_configuration or {})
        self.id = id
        self.description = description
        self.folder = Path(folder)
        self._index = index
        self.embedder = None if embedder is None else resolve_embedder(embedder)
        self._chunking = chunking or Chunking()
        self._configuration = retrieval_configuration
        self._reranker = reranker
        self._fresh = not refresh
        self._max_file_bytes = max_file_bytes
        self._opening = Lock()
        self._indexing = RLock()
        self._store: Store | None = None
        self._vectors: Vectors | None = None
        self._catalog: Catalog | None = None

    def index(self, progress: Progress | None = None) -> IndexReport:
        """Brings the index up to date: reads what changed, and embeds it.

        Raises:
            ResourceNotFound: The folder does not exist.
            DependencyFailed: The index or the embedder failed.
        """
        with self._indexing:
            report = bring_up_to_date(
                self.store,
                self.folder,
                embedder=self.embedder,
                chunking=self._chunking,
                max_file_bytes=self._max_file_bytes,
                progress=progress,
            )
            self._fresh = True
        return report

    @property
    def store(self) -> Store:
        """The index, opened at the first use."""
        with self._opening:
            if self._store is None:
                index = self._index
                self._store = index if isinstance(index, Store) else Store(index)
            return self._store

    def close(self) -> None:
        """Closes the index; the next use opens it again."""
        with self._opening:
            if self._store is not None:
                self._store.close()
            self._store = self._vectors = self._catalog = None

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The passages that fit `query` best, best first, as Bedrock's retrieved references.

        `content.text` is the passage under its headings; `location` is `CUSTOM` with the file's
        path in the folder; `metadata` holds the file's attributes, `x-amz-bedrock-kb-source-uri`,
        `x-amz-bedrock-kb-chunk-id`, and for a PDF `x-amz-bedrock-kb-document-page-number`; `score`
        is from 0 to 1: how near the meaning is, or how many of the question's words there are.

        Args:
            query: What to look for.
            configuration: Bedrock's `retrievalConfiguration` of this call:
                `vectorSearchConfiguration` with `numberOfResults` (5 by default, at most 100),
                `overrideSearchType`, `filter` and `rerankingConfiguration`.

        Raises:
            ValidationError: The query or the configuration is wrong.
            ResourceNotFound: The folder does not exist.
            DependencyFailed: The index, the embedder or the reranker failed.
        """
        search = search_of(merge_configurations(self._configuration, configuration))
        if search.semantic and self.embedder is None:
            raise ValidationError(
                f"the knowledge base {self.id!r} has no embedder and searches by keywords only: "
                "leave overrideSearchType out, or give it an embedder"
            )
        query = check_query(query)
        self._bring_up_to_date_once()
        reranker = self._reranker
        if search.reranking is not None:
            reranker = BedrockReranker.from_configuration(search.reranking)
        limit = search.results if reranker is None else max(search.results, _RERANKED)
        found = [_reference(it, score) for it, score in self._search(query, search, limit)]
        if reranker is not None and found:
            found = reranker(query, found)
        return found[: search.results]

    def _bring_up_to_date_once(self) -> None:
        if not self._fresh:
            with self._indexing:  # whoever comes second finds it done
                if not self._fresh:
                    self.index()

    def _search(self, query: str, search: Search, limit: int) -> list[tuple[StoredPassage, float]]:
        allowed = self._filter_passages(search.filter) if search.filter else None
        ranked = self._rank(query, limit, allowed, semantic=search.semantic)
        scores = {it.passage: it.score for it in ranked}
        return [(it, scores[it.passage]) for it in self.store.read(list(scores))]

    def _rank(
        self, query: str, limit: int, allowed: Allowed | None, *, semantic: bool
    ) -> list[Hit]:
        if self.embedder is None:
            return rank_by_words(self.store, query, limit, allowed)
        vector = self.embedder.embed([query])[0]
        vectors = self._load_vectors(self.embedder)
        return rank_passages(self.store, vectors, query, vector, limit, allowed, semantic=semantic)

    def _load_vectors(self, embedder: Embedder) -> Vectors:
        vectors = self._vectors
        if vectors is None or vectors.revision != self.store.revision:
            if self.store.embedder not in ("", embedder.id):
                raise DependencyFailed(
                    f"the index of the knowledge base {self.id!r} was made with the embedder "
                    f"{self.store.embedder!r}, not {embedder.id!r}: index it again, or keep one "
                    "index for each",
                    resource=self.id,
                )
            self._vectors = vectors = Vectors(self.store, embedder.dimensions)
        return vectors

    def _filter_passages(self, filter: Filter) -> Allowed:
        # Page and chunk id differ from passage to passage; other attributes are the document's.
        if filter.keys & {PAGE, CHUNK_ID}:
            return [it.passage for it in self.store.read() if filter.test(_metadata(it))]
        catalog = self._catalog
        if catalog is None or catalog.revision != self.store.revision:
            self._catalog = catalog = Catalog(self.store)
        return catalog.passages(filter)


def _metadata(found: StoredPassage) -> dict[str, Any]:
    page = {} if found.content.page is None else {PAGE: found.content.page}
    return {**found.metadata, **page, CHUNK_ID: f"{found.name}#{found.place}"}


def _reference(found: StoredPassage, score: float) -> dict[str, Any]:
    return {
        "content": {"text": found.content.whole, "type": "TEXT"},
        "location": {"type": "CUSTOM", "customDocumentLocation": {"id": found.name}},
        "metadata": _metadata(found),
        "score": score,
    }
