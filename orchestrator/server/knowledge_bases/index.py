"""One knowledge base's index: passages of all its data sources, put in and searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ModelNotReady, ValidationError
from orchestrator.knowledge import LocalKnowledgeBase
from orchestrator.knowledge.documents import Raw, read_blocks
from orchestrator.knowledge.indexing import embed_missing
from orchestrator.knowledge.metadata import RESERVED, SOURCE, Attributes
from orchestrator.knowledge.settings import search_of
from orchestrator.knowledge.store import Store
from orchestrator.models.embeddings import Embedder
from orchestrator.models.embeddings.minilm import MiniLM
from orchestrator.server.knowledge_bases.chunking import Chunker
from orchestrator.support.forks import ForkSafeLock
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = get_logger(__name__)

DATA_SOURCE = RESERVED + "data-source-id"

_CUSTOM = "custom:"

# To read documents and to embed them takes all that a machine has. Of all ingestion jobs one is at
# it at a time, for one document or some passages, so that requests are still answered.
_computing = ForkSafeLock()


class DocumentName(str):
    """A document's name in an index: the id of its data source, and its place.

    The place is an `s3://` address, or `custom:` with the id that its owner gave it.
    """

    @classmethod
    def of(cls, source: str, uri: str) -> DocumentName:
        """The name of a document in S3."""
        return cls(f"{source}/{uri}")

    @classmethod
    def of_custom(cls, source: str, id: str) -> DocumentName:
        """The name of a document that its owner has given an id."""
        return cls(f"{source}/{_CUSTOM}{id}")

    @property
    def place(self) -> str:
        """The document's place."""
        return self.partition("/")[2]

    @property
    def custom_id(self) -> str | None:
        """The id that its owner has given it; `None` when it is in S3."""
        place = self.place
        return place.removeprefix(_CUSTOM) if place.startswith(_CUSTOM) else None

    @property
    def uri(self) -> str:
        """The document's address, or the id that its owner has given it."""
        return self.place.removeprefix(_CUSTOM)


class Index:
    """An open index. Safe for many threads, and for many processes on one file."""

    def __init__(self, path: Path | None, id: str, embedder: Embedder | None) -> None:
        """Opens the index, and makes it when it is not there.

        Raises:
            DependencyFailed: The file cannot be used.
        """
        self.lock = RLock()  # held by whoever changes more than one document
        self._id = id
        self._path = path
        self._embedder = embedder
        self._store = Store(path)
        self._by_words = self._open_view(None)
        self._by_meaning = self._open_view(embedder)

    def _open_view(self, embedder: Embedder | None) -> LocalKnowledgeBase:
        # What its folder would be is put in from here.
        return LocalKnowledgeBase(
            "", id=self._id, index=self._store, embedder=embedder, refresh=False
        )

    def close(self) -> None:
        """Closes the index."""
        with self.lock:
            self._store.close()

    def destroy(self) -> None:
        """Closes the index and deletes its file."""
        with self.lock:
            self.close()
            if self._path is not None:
                for end in ("", "-wal", "-shm"):
                    Path(f"{self._path}{end}").unlink(missing_ok=True)

    def list_names(self, source: str) -> set[str]:
        """The names of a data source's documents."""
        return {name for name in self._store.digests() if name.startswith(f"{source}/")}

    def put(self, place: DocumentName, raw: Raw, attributes: Attributes, chunker: Chunker) -> None:
        """Stores a document under its name, in place of an earlier one.

        The file name of `raw` says which format it has.

        Raises:
            Unreadable: It cannot be read.
            DependencyFailed: The index failed.
        """
        with _computing:
            passages = chunker.passages(read_blocks(raw))
        source = place.split("/", 1)[0]
        metadata = {**attributes.values, SOURCE: place.uri, DATA_SOURCE: source}
        self._store.put(place, f"{chunker.id}:{raw.digest}", metadata, passages, attributes.text)

    def remove(self, names: Sequence[str]) -> None:
        """Forgets documents.

        Raises:
            DependencyFailed: The index failed.
        """
        self._store.remove(names)

    def embed(self, tick: Callable[[], None]) -> str | None:
        """Embeds what has no vector yet.

        Raises:
            DependencyFailed: The index or the embedder failed.
        """
        embedder = self._embedder
        if embedder is None:
            return "passages are found by their words only: there is no embedding model"
        try:
            embedder.embed(["ready"])
        except ModelNotReady as error:
            return f"passages are found by their words only, not their meaning: {error.message}"
        embed_missing(self._store, _BackgroundEmbedder(embedder), lambda *_: tick())
        return None

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The passages that fit best, best first; without a model, those that have the words.

        Raises:
            ValidationError: The query or the configuration is wrong.
            DependencyFailed: The index, the embedder or the reranker failed.
        """
        return [_convert_reference(it) for it in self._search(query, configuration)]

    def _search(self, query: str, configuration: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        semantic = search_of(configuration or {}).semantic
        if not self._store.embedder:
            if semantic:
                raise ValidationError(
                    f"the knowledge base {self._id!r} has no embeddings and is searched by words "
                    "only: leave overrideSearchType out; or run `orchestrator models pull minilm` "
                    "where the server runs, and start an ingestion job"
                )
            return self._by_words.retrieve(query, configuration)
        try:
            return self._by_meaning.retrieve(query, configuration)
        except ModelNotReady as error:
            if semantic:
                raise
            _log.warning("knowledge base %r searches by words only: %s", self._id, error.message)
            return self._by_words.retrieve(query, configuration)


class _BackgroundEmbedder:
    """An embedder that gives way to whoever computes already."""

    def __init__(self, embedder: Embedder) -> None:
        self.id, self.dimensions = embedder.id, embedder.dimensions
        # On one core: the others are for requests.
        self._embedder = MiniLM(threads=1) if isinstance(embedder, MiniLM) else embedder

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        with _computing:
            return self._embedder.embed(texts)


def _convert_reference(reference: dict[str, Any]) -> dict[str, Any]:
    place = DocumentName(reference["location"]["customDocumentLocation"]["id"])
    location = (
        {"type": "S3", "s3Location": {"uri": place.uri}}
        if place.custom_id is None
        else {"type": "CUSTOM", "customDocumentLocation": {"id": place.custom_id}}
    )
    return {**reference, "location": location}
