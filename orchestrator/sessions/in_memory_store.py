"""Sessions in this process's memory: the default, and the fake for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock

from orchestrator.errors import SessionConflict
from orchestrator.sessions.journal import Record, SessionInfo


class _Journal(list[Record]):
    __slots__ = ("label", "updated")
    label: str
    updated: int


class InMemoryStore:
    """A `SessionStore` that forgets everything when the process ends."""

    durable = False

    def __init__(self) -> None:
        self._journals: dict[str, _Journal] = {}
        self._lock = Lock()

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones."""
        journal = self._journals.get(key)
        return journal[after:] if journal else []

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

    def last_change(self, key: str) -> int:
        """When the last record of a session was written; 0 when there is none."""
        journal = self._journals.get(key)
        return journal.updated if journal is not None else 0

    def delete(self, key: str) -> None:
        """Deletes a session."""
        with self._lock:
            self._journals.pop(key, None)

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
