"""Journals in this process's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock

from orchestrator.errors import SessionConflict
from orchestrator.sessions.journal import Record, SessionInfo
from orchestrator.sessions.responses import add_responses
from orchestrator.support.lru_cache import LruCache

MOST_PLANS = 100
"""Of how many plans snapshots are kept."""


class _Journal(list[Record]):
    __slots__ = ("label", "updated")
    label: str
    updated: int


class InMemoryStore:
    """A `SessionStore` that forgets everything when the process ends."""

    durable = False

    def __init__(self) -> None:
        self._journals: dict[str, _Journal] = {}
        self._plans = LruCache[str](MOST_PLANS)
        self._lock = Lock()

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones."""
        journal = self._journals.get(key)
        records = journal[after:] if journal else []
        add_responses(records)
        return records

    def append(
        self, key: str, expected: int, records: Sequence[Record], *, label: str = "", at: int = 0
    ) -> None:
        """Appends, if the journal has exactly `expected` records; else a `SessionConflict`."""
        with self._lock:
            journal = self._journals.get(key)
            if journal is None:
                journal = self._journals[key] = _Journal()
                journal.label = label
            if len(journal) != expected:
                raise SessionConflict("the session was changed by another invocation; try again")
            journal.extend(records)
            journal.updated = at

    def load_last(self, infos: Sequence[SessionInfo]) -> dict[str, Record]:
        """The last records of sessions, by their keys."""
        found = {info.key: self._journals.get(info.key) for info in infos}
        return {key: journal[-1] for key, journal in found.items() if journal}

    def last_change(self, key: str) -> int:
        """When the last record of a session was written; 0 when there is none."""
        journal = self._journals.get(key)
        return journal.updated if journal is not None else 0

    def delete(self, key: str) -> None:
        """Deletes a session."""
        with self._lock:
            self._journals.pop(key, None)

    def save_plan(self, digest: str, text: str) -> None:
        """Keeps the snapshot of a plan, until a hundred others were kept or read after it."""
        self._plans.put(digest, text)

    def load_plan(self, digest: str) -> str | None:
        """The snapshot of the plan with a digest, if it is still kept."""
        return self._plans.find(digest)

    def labels(self, prefix: str, after: str, most: int) -> Sequence[str]:
        """The next labels, sorted, that begin with `prefix` after a known one."""
        with self._lock:
            labels = [it.label for it in self._journals.values()]
        return sorted(it for it in labels if it.startswith(prefix) and it > after)[:most]

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first."""
        with self._lock:
            rows = [
                SessionInfo(key, journal.label, len(journal), journal.updated)
                for key, journal in self._journals.items()
            ]
        return iter(sorted(rows, key=lambda row: -row.updated))
