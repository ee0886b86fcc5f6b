"""The knowledge bases of a worker process: what is open of them, and who may search them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import Any

from orchestrator.errors import AccessDenied, ResourceNotFound, ValidationError
from orchestrator.knowledge import KnowledgeBase
from orchestrator.knowledge.settings import check, merge_configurations
from orchestrator.models.embeddings import Embedder
from orchestrator.server.access.permissions import check_retrieval
from orchestrator.server.document_store import DocumentStore
from orchestrator.server.ids import Arns
from orchestrator.server.knowledge_bases.folder_bases import ID, FolderBases, ListFolders
from orchestrator.server.knowledge_bases.index import Index
from orchestrator.server.operations import Caller, TagChange
from orchestrator.server.path_redaction import PathRedactor
from orchestrator.server.settings import Settings
from orchestrator.support import aws
from orchestrator.support.process_locks import ProcessLocks
from orchestrator.support.threads import in_thread

# The kinds of documents.
BASE = "knowledge-base"
SOURCE = "data-source"
JOB = "ingestion-job"
DOCUMENT = "knowledge-base-document"
POLICY = "knowledge-base-policy"

Data = Mapping[str, Any]


class KnowledgeBaseService:
    """Knowledge bases made through the API. Safe for many threads."""

    def __init__(
        self,
        documents: DocumentStore,
        settings: Settings,
        embedder: Embedder | str,
        redactor: PathRedactor,
        list_folders: ListFolders,
        processes: ProcessLocks | None = None,
    ) -> None:
        """Opens the folder of the indexes; each index is opened when it is first used.

        `processes` knows which processes of the state live, where no folder does.

        Raises:
            DependencyFailed: The folder of the indexes cannot be used.
        """
        self.documents = documents
        self.arns = Arns.of(settings)
        self.buckets = settings.buckets
        self.redactor = redactor
        self._folder = settings.get_path("knowledge")
        self._needs_folder = settings.is_database
        self._own = ProcessLocks(self._folder)
        self.living = processes or self._own  # which processes of the state still live
        # Takes the lock, and makes the folder, or fails at once.
        _ = self.living.me
        self.closing = Event()  # set when work in the background is to end
        self.in_folders = FolderBases(self.arns, list_folders)
        self._lock = Lock()
        self._indexes: dict[tuple[str, str], Index] = {}
        self._embedder = embedder
        self._work: set[Future[None]] = set()
        self._batches: Counter[str] = Counter()  # batches of documents being read, by tenant

    def close(self) -> None:
        """Ends the work in the background, and closes all indexes."""
        self.closing.set()
        wait(list(self._work))
        self.in_folders.close()
        self._own.close()
        with self._lock:
            for index in self._indexes.values():
                index.close()
            self._indexes.clear()

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Starts work that no caller waits for, and that handles its own errors."""
        started = in_thread(work)
        self._work.add(started)
        started.add_done_callback(self._work.discard)

    def count_batches(self, tenant: str, change: int = 0) -> int:
        """How many batches of a tenant's documents are being read, after a change of that."""
        with self._lock:
            self._batches[tenant] += change
            return self._batches[tenant]

    # -- searching -------------------------------------------------------------------------------

    def base(
        self, caller: Caller, id: str, description: str = "", configuration: Data | None = None
    ) -> KnowledgeBase:
        """What a caller, or an agent of his with this description and configuration, searches.

        Knowledge bases made here come first, then those of agents' folders, then those of AWS that
        the caller may use.

        Raises:
            ResourceNotFound: There is no such knowledge base for the caller.
            ValidationError: The configuration is wrong.
        """
        self.find(caller, id)
        check(configuration or {})
        return CallerKnowledgeBase(self, caller, id, description, configuration)

    def find(self, caller: Caller, id: str) -> Callable[[], KnowledgeBase | Index]:
        """What opens the knowledge base that a caller means by an id.

        Raises:
            ResourceNotFound: There is no such knowledge base for the caller.
            ValidationError: It holds no documents.
        """
        made = self.documents.get(caller.tenant, BASE, id)
        if made is not None:
            check_holds_documents(made)
            return lambda: self.index(caller.tenant, id)
        in_folder = self.in_folders.base(id)
        if in_folder is not None:
            return lambda: in_folder
        if not caller.may_use(id) or not ID.fullmatch(id):
            raise ResourceNotFound(f"there is no knowledge base {id!r}")
        return lambda: _AwsKnowledgeBase(id)

    def index(self, tenant: str, id: str) -> Index:
        """The index of a knowledge base, open.

        Raises:
            ResourceNotFound: There is no such knowledge base, or no more.
            DependencyFailed: The index cannot be opened.
        """
        if self._needs_folder and self._folder is None:
            raise ValidationError(
                f"the index of knowledge base {id!r} has no place: this server keeps its state in "
                "a database; start it with --data DIR"
            )
        with self._lock:
            found = self._indexes.get((tenant, id))
            try:
                self.record(tenant, id)
            except ResourceNotFound:
                # Another process has deleted it.
                if found is not None:
                    self._indexes.pop((tenant, id)).close()
                raise
            if found is None:
                found = Index(self._index_file(tenant, id), id, self._get_embedder())
                self._indexes[tenant, id] = found
            return found

    def destroy(self, tenant: str, id: str) -> None:
        """Closes the index of a knowledge base, and deletes its file."""
        with self._lock:
            found = self._indexes.pop((tenant, id), None)
        if found is None and self._folder is not None:
            found = Index(self._index_file(tenant, id), id, None)
        if found is not None:
            found.destroy()

    def _index_file(self, tenant: str, id: str) -> Path | None:
        if self._folder is None:
            return None
        name = sha256(f"{tenant}\0{id}".encode("utf-8", "backslashreplace")).hexdigest()
        return self._folder / f"{name}.sqlite"

    def _get_embedder(self) -> Embedder:
        from orchestrator.models import resolve_embedder

        self._embedder = embedder = resolve_embedder(self._embedder)
        return embedder

    # -- records ---------------------------------------------------------------------------------

    def record(self, tenant: str, id: str) -> dict[str, Any]:
        """What is stored of a knowledge base: `knowledgeBase`, `tags`, and its last `job`.

        Raises:
            ResourceNotFound: There is none.
        """
        found = self.documents.get(tenant, BASE, id)
        if found is None:
            raise ResourceNotFound(f"there is no knowledge base {id!r}")
        return found

    def save(self, tenant: str, record: Data) -> None:
        """Stores what is known of a knowledge base.

        Raises:
            Fault: ConflictException, when another has its name.
        """
        base = record["knowledgeBase"]
        name = base["name"]
        taken = f"there is already a knowledge base called {name!r}"
        self.documents.put(tenant, BASE, base["knowledgeBaseId"], record, name=name, taken=taken)

    def source(self, tenant: str, base: str, id: str) -> dict[str, Any]:
        """A data source of a knowledge base.

        Raises:
            ResourceNotFound: There is no such knowledge base, or data source.
        """
        self.record(tenant, base)
        found = self.documents.get(tenant, SOURCE, id, base)
        if found is None:
            raise ResourceNotFound(f"the knowledge base {base!r} has no data source {id!r}")
        return found

    def tags(self, caller: Caller, id: str, change: TagChange | None) -> dict[str, str]:
        """A knowledge base's tags, after a change of them if there is one.

        Raises:
            ResourceNotFound: There is no such knowledge base.
        """
        with self.documents.transaction():
            record = self.record(caller.tenant, id)
            if change is not None:
                record["tags"] = change(record["tags"])
                self.save(caller.tenant, record)
        tags: dict[str, str] = record["tags"]
        return tags


def check_holds_documents(record: Data) -> None:
    """Refuses a knowledge base that stands for tables.

    Raises:
        ValidationError: It is of the type SQL.
    """
    base = record["knowledgeBase"]
    if base["knowledgeBaseConfiguration"]["type"] == "SQL":
        raise ValidationError(
            f"the knowledge base {base['knowledgeBaseId']!r} is of the type SQL, and no Redshift "
            "is asked here; GenerateQuery writes queries for it"
        )


@dataclass(slots=True)
class CallerKnowledgeBase:
    """A `KnowledgeBase` that is found anew for each search: others may delete it meanwhile."""

    bases: KnowledgeBaseService
    caller: Caller
    id: str
    description: str
    configuration: Data | None

    def retrieve(self, query: str, configuration: Data | None = None) -> list[dict[str, Any]]:
        """See `KnowledgeBase.retrieve`."""
        merged = merge_configurations(self.configuration, configuration) or None
        check_retrieval(self.caller, merged)
        return self.bases.find(self.caller, self.id)().retrieve(query, merged)


@dataclass(slots=True)
class _AwsKnowledgeBase:
    """A knowledge base of Amazon Bedrock, should there be one with this id."""

    id: str
    description: str = ""

    def retrieve(self, query: str, configuration: Data | None = None) -> list[dict[str, Any]]:
        """See `KnowledgeBase.retrieve`."""
        from orchestrator.knowledge import BedrockKnowledgeBase

        target = aws.Target(f"the knowledge base {self.id!r}", self.id, "allow bedrock:Retrieve")
        try:
            client = aws.get_shared_client(aws.Settings("bedrock-agent-runtime"), target)
            return BedrockKnowledgeBase(self.id, client=client).retrieve(query, configuration)
        except AccessDenied as error:
            if error.signed_in:
                raise
            # Who serves without an account of AWS has none there.
            raise ResourceNotFound(
                f"there is no knowledge base {self.id!r} here; were it one of AWS: {error.message}"
            ) from error
