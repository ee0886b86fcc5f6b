"""The knowledge bases of a worker process: what is open of them, and who may search them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import Any

from orchestrator.errors import ResourceNotFound
from orchestrator.knowledge import KnowledgeBase
from orchestrator.models.embeddings import Embedder
from orchestrator.server.document_store import DocumentStore
from orchestrator.server.ids import Arns
from orchestrator.server.knowledge_bases.caller_base import CallerKnowledgeBase, Find, open_aws_base
from orchestrator.server.knowledge_bases.folder_bases import FolderBases, ListFolders
from orchestrator.server.knowledge_bases.index import Index
from orchestrator.server.knowledge_bases.records import BASE, ID, check_tags, get_base
from orchestrator.server.operations import Caller
from orchestrator.server.path_redaction import PathRedactor
from orchestrator.server.settings import Settings
from orchestrator.support.process_locks import ProcessLocks
from orchestrator.support.threads import in_thread


class KnowledgeBaseService:
    """Knowledge bases made through the API. Safe for many threads.

    Attributes:
        documents: Where they are stored.
        arns: Their ARNs.
        buckets: Folders that stand for buckets, by their names.
        redactor: Removes the server's folders from what callers read.
        living: Which processes of the state still live.
        closing: Set when work in the background is to end.
        in_folders: The knowledge bases of agents that are defined on disk.
    """

    def __init__(
        self,
        documents: DocumentStore,
        settings: Settings,
        embedder: Embedder | str,
        redactor: PathRedactor,
        list_folders: ListFolders,
    ) -> None:
        """Opens the folder of the indexes; each index is opened when it is first used.

        Raises:
            DependencyFailed: The folder of the indexes cannot be used.
        """
        self.documents = documents
        self.arns = Arns.of(settings)
        self.buckets = settings.buckets
        self.redactor = redactor
        self._folder = settings.get_path("knowledge")
        self.living = ProcessLocks(self._folder)
        # Takes the lock, and makes the folder, or fails at once.
        _ = self.living.me
        self.closing = Event()
        self.in_folders = FolderBases(self.arns, list_folders)
        self._lock = Lock()
        self._indexes: dict[tuple[str, str], Index] = {}
        self._embedder = embedder
        self._work: set[Future[None]] = set()

    def close(self) -> None:
        """Ends the work in the background, and closes all indexes."""
        self.closing.set()
        wait(list(self._work))
        self.in_folders.close()
        self.living.close()
        with self._lock:
            for index in self._indexes.values():
                index.close()
            self._indexes.clear()

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Starts work that no caller waits for, and that handles its own errors."""
        started = in_thread(work)
        self._work.add(started)
        started.add_done_callback(self._work.discard)

    # -- searching -------------------------------------------------------------------------------

    def base(self, caller: Caller, knowledge_base_id: str) -> KnowledgeBase:
        """What a caller, or an agent of his, searches by an id.

        Knowledge bases made here come first, then those of agents' folders, then those of AWS that
        the caller may use.

        Raises:
            ResourceNotFound: There is no such knowledge base for the caller.
        """
        find, description = self._find_base(caller, knowledge_base_id)
        return CallerKnowledgeBase(find, knowledge_base_id, description, caller)

    def _find_base(self, caller: Caller, id: str) -> tuple[Find, str]:
        """How a knowledge base is found for each search, and its own description."""
        record = self.documents.get(caller.tenant, BASE, id)
        if record is not None:
            own: str = record["knowledgeBase"].get("description", "")
            return lambda: self.index(caller.tenant, id), own
        in_folder = self.in_folders.base(id)
        if in_folder is not None:
            return lambda: in_folder, in_folder.description
        if not caller.may_use(id) or not ID.fullmatch(id):
            raise ResourceNotFound(f"there is no knowledge base {id!r}")
        return lambda: open_aws_base(id), ""

    def index(self, tenant: str, id: str) -> Index:
        """The index of a knowledge base, open.

        Raises:
            ResourceNotFound: There is no such knowledge base, or no more.
            DependencyFailed: The index cannot be opened.
        """
        with self._lock:
            found = self._indexes.get((tenant, id))
            try:
                get_base(self.documents, tenant, id)
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

    # -- tags ------------------------------------------------------------------------------------

    def tags(
        self,
        caller: Caller,
        id: str,
        change: Callable[[dict[str, str]], dict[str, str]] | None = None,
    ) -> dict[str, str]:
        """A knowledge base's tags, after a change of them if there is one.

        Raises:
            ResourceNotFound: There is no such knowledge base.
            Fault: ServiceQuotaExceededException, when it would have too many.
        """
        with self.documents.transaction():
            record = get_base(self.documents, caller.tenant, id)
            tags: dict[str, str] = record["tags"]
            if change is not None:
                record["tags"] = tags = change(tags)
                check_tags(tags)
                self.save(caller.tenant, record)
        return tags

    def save(self, tenant: str, record: Mapping[str, Any]) -> None:
        """Stores what is known of a knowledge base.

        Raises:
            Fault: ConflictException, when another has its name.
        """
        base = record["knowledgeBase"]
        self.documents.put(tenant, BASE, base["knowledgeBaseId"], record, name=base["name"])
