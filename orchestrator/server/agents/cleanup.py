"""What agents that were deleted leave behind: sessions and memories, deleted in the background."""

from __future__ import annotations

from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from orchestrator.engine.plan import owner_of, tenant_key_of
from orchestrator.errors import DependencyFailed, OrchestratorError, SessionConflict
from orchestrator.server.wire.faults import log_failure
from orchestrator.sessions.store_use import NEVER
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    from orchestrator.memory import MemoryStore
    from orchestrator.server.document_store import DocumentStore
    from orchestrator.server.operations import Caller
    from orchestrator.sessions import Sessions

_log = get_logger("orchestrator.server")

_KIND = "forgotten-owner"
# The record belongs to no tenant: the agent is gone.
_NOBODY = ""
_PAGE = 100
# Seconds until it is tried again.
_FIRST, _LONGEST = 1.0, 60.0


class AgentCleanup:
    """Deletes what aliases of agents have left. Safe for many threads.

    What is to be deleted is recorded in the documents, so that the next process goes on with it. A
    session whose turn runs is deleted when the turn is over.
    """

    def __init__(self, documents: DocumentStore, sessions: Sessions, memory: MemoryStore) -> None:
        """Goes on with what an earlier process has left."""
        self._documents, self._sessions, self._memory = documents, sessions, memory
        self._lock = Lock()
        self._thread: Thread | None = None
        self._news, self._closing = Event(), Event()
        self.start()

    def note(self, caller: Caller, agent_id: str, alias_id: str) -> None:
        """Notes that an alias is deleted, in the transaction that deletes it."""
        owner = owner_of(agent_id, alias_id, tenant_key_of(caller.tenant))
        self._documents.put(_NOBODY, _KIND, owner, {"owner": owner})

    def start(self) -> None:
        """Has what was noted be deleted by and by."""
        with self._lock:
            self._news.set()
            if self._thread is None and not self._closing.is_set() and self._list_owners():
                self._thread = Thread(target=self._run, name="forgetting", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stops; what is left is deleted when the server runs again."""
        self._closing.set()
        self._news.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _list_owners(self) -> list[str]:
        return [it["owner"] for it in self._documents.all(_NOBODY, _KIND)]

    def _run(self) -> None:
        pause = _FIRST
        while not self._run_pass():
            pause = _FIRST if self._news.wait(pause) else min(2 * pause, _LONGEST)

    def _run_pass(self) -> bool:
        """Goes through all that is left once; whether the thread can end."""
        self._news.clear()
        try:
            for owner in self._list_owners():
                if self._delete_owner(owner):
                    self._documents.delete(_NOBODY, _KIND, owner)
            with self._lock:
                done = self._closing.is_set() or not self._list_owners()
                if done:
                    self._thread = None
            return done
        except OrchestratorError as error:
            _log.warning("what a deleted agent has left is not deleted yet: %s", error.message)
            return self._closing.is_set()
        except Exception as error:
            log_failure(error, "to delete what a deleted agent has left")
            return self._closing.is_set()

    def _delete_owner(self, owner: str) -> bool:
        """Deletes what is not in use; whether all is gone."""
        memory, prefix, last = self._memory, f"{owner}/", ""
        gone = not self._sessions.uses(owner)
        memory.delete(owner)
        for session_id in memory.find_unsummarised(owner, NEVER):
            memory.settle(owner, session_id)
        store: Any = self._sessions.store
        while labels := store.labels(prefix, last, _PAGE):
            last = labels[-1]
            for label in labels:
                if self._closing.is_set():
                    return False
                # Another owner's name may begin with the same letters.
                if "/" not in label[len(prefix) :]:
                    gone &= self._delete_session(label)
        return gone

    def _delete_session(self, label: str) -> bool:
        sessions = self._sessions
        try:
            session = sessions.acquire(label, NEVER)
        except SessionConflict:
            return False
        except DependencyFailed:  # its journal cannot be read
            sessions.store.delete(sessions.key(label))
            return True
        try:
            sessions.refuse_running(session)
            sessions.store.delete(session.key)
        except SessionConflict:
            return False
        finally:
            sessions.abandon(session)
        return True
