"""What the sessions of a store have in common within a process, however often it is opened."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from threading import RLock
from weakref import WeakValueDictionary

from orchestrator.sessions.session import Session
from orchestrator.support.forks import ForkSafeLock, begin_anew_in_child

NEVER = 1 << 62
"""An idle time-out that no session reaches, in nanoseconds."""


class StoreUse:
    """Which sessions of a store are in use, and which are to be freed when.

    All attributes from `ttls` on are for a store in memory.

    Attributes:
        keys: The sessions that are in use.
        lock: Guards all of it.
        ttls: Idle time-outs, in nanoseconds.
        queue: The session to look at next first.
        remembered: Sessions that are to be summarised, which closes them, before they are freed.
        released: How often a session was released since others were freed.
    """

    __slots__ = ("__weakref__", "keys", "lock", "queue", "released", "remembered", "ttls")

    def __init__(self) -> None:
        self.begin_anew()
        begin_anew_in_child(self)
        self.ttls: dict[str, int] = {}
        self.queue: deque[str] = deque()
        self.remembered: set[str] = set()
        self.released = 0

    def begin_anew(self) -> None:
        """Forgets who uses sessions: in a forked process nobody does."""
        self.keys: set[str] = set()
        # The garbage collector may close a stream that nobody reads, which gives its session back,
        # while its own thread has the lock.
        self.lock = RLock()

    @classmethod
    def of(cls, identity: Hashable) -> StoreUse:
        """That of the store with an identity."""
        with _LOCK:
            return _USES.setdefault(identity, cls())

    def note_ttl(self, key: str, ttl: int) -> None:
        """Notes the idle time-out of a session; `NEVER` only where there is none yet."""
        if key not in self.ttls:
            self.queue.append(key)
            self.ttls[key] = ttl
        elif ttl != NEVER:
            self.ttls[key] = ttl

    def note_remembered(self, session: Session) -> None:
        """Notes whether a session is to be summarised."""
        if session.memory_id:
            self.remembered.add(session.key)
        else:
            self.remembered.discard(session.key)


_USES: WeakValueDictionary[Hashable, StoreUse] = WeakValueDictionary()
_LOCK = ForkSafeLock()
