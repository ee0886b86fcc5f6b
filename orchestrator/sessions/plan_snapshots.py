"""The snapshots of plans in a store: what prompts are made of, so that past ones can be shown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from orchestrator.errors import DependencyFailed
from orchestrator.sessions.in_memory_store import MOST_PLANS
from orchestrator.sessions.journal import SessionStore

_MOST_KNOWN = 10_000  # of which it is known that a durable store has them
_KEPT_ANEW = 3_600_000_000_000  # nanoseconds after which a store is given them again


class PlanSnapshots:
    """The snapshots that a store has, if it keeps any.

    Attributes:
        known: The digests of plans whose snapshots it is known to have.
    """

    def __init__(self, store: SessionStore, clock: Callable[[], int]) -> None:
        """Knows of none yet."""
        self._store = store
        self._clock = clock
        self.known: set[str] = set()
        self._since = clock()  # since when these are known

    def keep(self, digest: str, take_snapshot: Callable[[], str]) -> None:
        """See `Sessions.keep_plan`."""
        if digest in self.known:
            return
        with suppress(DependencyFailed):
            if (save := getattr(self._store, "save_plan", None)) is not None:
                save(digest, take_snapshot())
            if len(self.known) >= (_MOST_KNOWN if self._store.durable else MOST_PLANS):
                self.known.clear()  # those that are in use are kept again
            self.known.add(digest)

    def find(self, digest: str) -> str | None:
        """See `Sessions.find_plan`."""
        load: Callable[[str], str | None] | None = getattr(self._store, "load_plan", None)
        return load(digest) if load is not None else None

    def are_due(self) -> bool:
        """Whether they are to be kept anew: somebody may delete those that no session names."""
        return self._clock() - self._since > _KEPT_ANEW

    def keep_anew(self) -> None:
        """Forgets which ones the store has, so that those in use are kept again."""
        self.known.clear()
        self._since = self._clock()
