"""The sessions of a store that are decoded in this process, and which of them are in use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from orchestrator.errors import SessionBusy
from orchestrator.sessions.journal import SessionStore
from orchestrator.sessions.session import Session
from orchestrator.sessions.store_use import StoreUse
from orchestrator.support.forks import begin_anew_in_child

_BATCH = 16  # after how many turns in memory idle sessions are looked for
_FIRST = 256  # sessions that are looked at to free some


class SessionCache:
    """Hands each session to one invocation at a time, and keeps it decoded between its turns.

    Of a durable store those that were used last stay. Of one in memory those stay that were not
    idle for too long; the store frees the others with them.
    """

    def __init__(
        self, store: SessionStore, clock: Callable[[], int], most: int, most_bytes: int
    ) -> None:
        """Makes an empty one; the arguments are those of `Sessions`."""
        self._store = store
        self._durable = store.durable
        self._clock = clock
        self._most = most
        self._most_bytes = most_bytes
        self._used = StoreUse.of(getattr(store, "identity", id(store)))
        self.begin_anew()
        begin_anew_in_child(self)

    def begin_anew(self) -> None:
        """Drops all sessions: in a forked process, turns of its parent are in them."""
        self._idle_bytes = 0  # of the sessions that stay and are not in use
        self._sessions: dict[str, Session] = {}

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Guards all of it; a thread that has it may take it again."""
        return self._used.lock

    def get(self, label: str) -> Session | None:
        """A session, if it is decoded."""
        return self._sessions.get(label)

    def key(self, label: str) -> str:
        """The store's key of a session."""
        # Where names meet a file system or a database, they do so as hashes.
        if not self._durable:
            return label
        session = self._sessions.get(label)
        if session is not None:
            return session.key
        return hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()

    def take(self, label: str, ttl: int) -> Session:
        """Takes a session for one invocation, as this process knows it.

        Raises:
            SessionBusy: Another invocation of this process has it.
        """
        used = self._used
        with used.lock:
            session = self._sessions.get(label)
            if session is None:
                if len(self._sessions) >= self._most:
                    self._evict()
                session = self._sessions[label] = Session(self.key(label), label)
            if session.key in used.keys:
                raise SessionBusy(
                    f"session {label.rsplit('/', 1)[-1]!r} is busy with another invocation; "
                    "wait for its end, or use another session id"
                )
            used.keys.add(session.key)
            if self._durable:
                self._idle_bytes -= session.size
            elif used.ttls.get(session.key) != ttl:
                used.note_ttl(session.key, ttl)
        return session

    def release(self, session: Session) -> None:
        """Gives a session back; in memory, frees others that were idle for too long."""
        if not self._durable:
            used = self._used
            used.keys.discard(session.key)
            if session.memory_id or used.remembered:
                used.note_remembered(session)
            used.released += 1
            if used.released >= _BATCH:
                used.released = 0
                self._free_idle()
            return
        label = session.label
        with self._used.lock:
            if session.key in self._used.keys and self._sessions.get(label) is session:
                self._sessions[label] = self._sessions.pop(label)  # it was used last
                self._idle_bytes += session.size
            self._used.keys.discard(session.key)
            if self._idle_bytes > self._most_bytes:
                self._evict_bytes()

    def forget(self, session: Session) -> None:
        """Drops a decoded session."""
        with self._used.lock:
            self._sessions.pop(session.label, None)

    def has_in_use(self, label: str) -> bool:
        """Whether an invocation of this process has a session."""
        return self.key(label) in self._used.keys

    def uses(self, owner: str) -> bool:
        """Whether an invocation of this process has a session of an owner."""
        known, used = list(self._sessions.items()), self._used.keys
        return any(label.rpartition("/")[0] == owner and it.key in used for label, it in known)

    def _free_idle(self) -> None:
        # Looks at two sessions for each one that was released: so at most twice as many stay as
        # must, and no call takes longer than another.
        used, store, now = self._used, self._store, self._clock()
        last_change = getattr(store, "last_change", None)
        if last_change is None:  # a store of somebody else's, who frees what is to be freed
            return
        with used.lock:
            for _ in range(min(2 * _BATCH, len(used.queue))):
                key = used.queue.popleft()
                at = last_change(key)  # 0 when nothing was written to it
                if (
                    key in used.keys
                    or key in used.remembered
                    or (at and at + used.ttls[key] >= now)
                ):
                    used.queue.append(key)
                    continue
                del used.ttls[key]
                self._sessions.pop(key, None)  # in memory, the key is the label
                store.delete(key)

    def _evict(self) -> None:
        known, used = self._sessions, self._used.keys
        idle = [label for label in list(known) if known[label].key not in used]
        for label in idle[: max(len(idle) // 10, 1)]:
            self._idle_bytes -= known.pop(label).size

    def _evict_bytes(self) -> None:
        # Those that were used first, without a look at all others: it may be done in every turn.
        for label in list(islice(self._sessions, _FIRST)):
            if self._idle_bytes <= self._most_bytes:
                return
            session = self._sessions.get(label)
            if session is not None and session.size and session.key not in self._used.keys:
                del self._sessions[label]
                self._idle_bytes -= session.size
