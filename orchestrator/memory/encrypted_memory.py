"""Summaries that are encrypted before any store sees them.

A store has no topics, and a sealed text in which both are. The associated data is the owner, the
memory, the session and the times, which stay readable.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from orchestrator.errors import EncryptionError
from orchestrator.memory.base import MemoryStore, SessionSummary
from orchestrator.memory.stores import read_topics
from orchestrator.message import clean
from orchestrator.support.encryption import Cipher, get_cipher, is_sealed, require_cipher
from orchestrator.support.safe_json import json_or

_MOST = 1 << 31  # summaries of one memory


class EncryptedMemory:
    """A `MemoryStore` that encrypts for another one.

    Summaries that were written without encryption are read, unless the cipher forbids it.
    """

    def __init__(self, store: MemoryStore, cipher: Cipher | None = None) -> None:
        """Wraps a store.

        Args:
            store: Keeps what is encrypted.
            cipher: Encrypts; the one that the environment describes when `None`.

        Raises:
            ValidationError: The environment has no keys, or wrong ones.
        """
        self._store = store
        self._cipher = cipher or require_cipher()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)  # such as to list memories, and to be closed

    def touch(self, owner: str, memory_id: str, session_id: str, at: int) -> None:
        """Notes that a turn of a session began."""
        self._store.touch(owner, memory_id, session_id, at)

    def find_unsummarised(self, owner: str, before: int, memory_id: str | None = None) -> list[str]:
        """Sessions that were touched last before that time and not summarised since."""
        return self._store.find_unsummarised(owner, before, memory_id)

    def settle(self, owner: str, session_id: str) -> None:
        """Notes that there is nothing (more) to summarise of a session."""
        self._store.settle(owner, session_id)

    def add(self, owner: str, summary: SessionSummary) -> None:
        """Encrypts a summary and adds it; one of the same memory and session is replaced."""
        self._store.add(owner, self._seal(owner, summary))

    def recent(self, owner: str, memory_id: str, now: int, limit: int) -> list[SessionSummary]:
        """The last `limit` summaries that have not expired at `now`, newest first.

        Raises:
            EncryptionError: One cannot be decrypted.
        """
        found = self._store.recent(owner, memory_id, now, limit)
        return [self._open(owner, summary) for summary in found]

    def delete(
        self, owner: str, memory_id: str | None = None, session_id: str | None = None
    ) -> None:
        """Deletes summaries of an owner: all, those of a memory, or that of one session."""
        self._store.delete(owner, memory_id, session_id)

    def rotate(self, owner: str, memory_id: str, now: int) -> int:
        """Encrypts a memory's summaries with the first key; how many were not.

        Raises:
            EncryptionError: One cannot be decrypted; nothing was changed.
        """
        changes = [
            (summary, self._seal(owner, self._open(owner, summary, plain=True)))
            for summary in self._store.recent(owner, memory_id, now, _MOST)
            if not self._cipher.is_current(summary.text)
        ]
        return sum(self._replace(owner, old, new) for old, new in changes)

    def _replace(self, owner: str, old: SessionSummary, new: SessionSummary) -> bool:
        rewrite = getattr(self._store, "rewrite", None)
        if rewrite is not None:
            return bool(rewrite(owner, old, new))
        self._store.add(owner, new)
        return True

    def _seal(self, owner: str, summary: SessionSummary) -> SessionSummary:
        topics = [dict(topic) for topic in summary.topics]
        written = json.dumps({"topics": topics, "text": clean(summary.text)})
        sealed = self._cipher.seal(written, *_place(owner, summary))
        return replace(summary, topics=[], text=sealed)

    def _open(self, owner: str, summary: SessionSummary, *, plain: bool = False) -> SessionSummary:
        what = f"the summary of session {summary.session_id!r}"
        if not is_sealed(summary.text):
            if not plain:
                self._cipher.check_plain(what)
            return summary
        text = self._cipher.open(summary.text, *_place(owner, summary), what)
        match json_or(text, None):
            case {"topics": written, "text": str(said)} if (
                topics := read_topics(written)
            ) is not None:
                return replace(summary, topics=topics, text=said)
        raise EncryptionError(
            f"{what} holds no summary; delete it with `orchestrator memory delete`"
        )


def _place(owner: str, summary: SessionSummary) -> tuple[Sequence[str], Sequence[str | int | None]]:
    scope = "memory", owner, summary.memory_id
    return scope, (summary.session_id, summary.started, summary.expires)


def encrypt_memory(store: MemoryStore) -> MemoryStore:
    """The store, encrypted if the environment has keys.

    Raises:
        ValidationError: It has wrong ones.
    """
    cipher = get_cipher()
    return store if cipher is None else EncryptedMemory(store, cipher)
