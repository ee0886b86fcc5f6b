"""Journals whose records are encrypted before any store sees them.

A store has `{"kind": "sealed", "text": …}` in the place of a record. Its associated data is the
session's key and the record's place: one that was moved, or put in another's place, is refused. A
store's own list of sessions stays readable: labels, numbers of records, and times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from orchestrator.errors import EncryptionError, ValidationError
from orchestrator.message import make_json_encoder
from orchestrator.sessions.journal import (
    SEALED,
    Record,
    SessionInfo,
    SessionStore,
    leaves_turn_open,
)
from orchestrator.support.encryption import Cipher, get_cipher, is_sealed, require_cipher

_encode = make_json_encoder(ensure_ascii=True)


class EncryptedStore:
    """A `SessionStore` that encrypts for another one, which may have any features of its own.

    Records that were written without encryption are read, unless the cipher forbids it.
    """

    def __init__(self, store: SessionStore, cipher: Cipher | None = None) -> None:
        """Wraps a store.

        Args:
            store: Keeps what is encrypted.
            cipher: Encrypts; the one that the environment describes when `None`.

        Raises:
            ValidationError: The environment has no keys, or wrong ones.
        """
        self._store = store
        self._cipher = cipher or require_cipher()
        self.durable = store.durable

    def __getattr__(self, name: str) -> Any:
        # What a store can do besides: be reserved, name its process's locks, be closed.
        if name == "reserve" and not self._cipher.is_local:
            raise AttributeError(name)  # an event loop would wait for the key
        if name == "encode_record":
            raise AttributeError(name)  # what is written is another record
        found = getattr(self._store, name)
        return partial(self._begin, found) if name == "begin" else found

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones, decrypted.

        Raises:
            EncryptionError: One cannot be decrypted.
            DependencyFailed: The store, or AWS KMS, failed.
        """
        return self._open_all(key, after, self._store.load(key, after))

    def _open_all(self, key: str, first: int, records: Sequence[Record]) -> list[Record]:
        return [self._open(key, place, record) for place, record in enumerate(records, first)]

    def _begin(self, begin: Any, key: str, expected: int, turn: Record, **options: Any) -> Any:
        found = begin(key, expected, self._seal(key, expected, turn), **options)
        is_read = isinstance(found, list)
        return self._open_all(key, max(expected - 1, 0), found) if is_read else found

    def append(
        self,
        key: str,
        expected: int,
        records: Sequence[Record],
        *,
        label: str = "",
        at: int = 0,
        **options: Any,
    ) -> Any:
        """Encrypts records and appends them; raises what the store raises."""
        if hasattr(self._store, "list_unfinished"):  # it does not see what is sealed
            options.setdefault("unfinished", leaves_turn_open(records))
        sealed = [self._seal(key, place, it) for place, it in enumerate(records, expected)]
        return self._store.append(key, expected, sealed, label=label, at=at, **options)

    def delete(self, key: str) -> None:
        """Deletes a session."""
        self._store.delete(key)

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first."""
        return self._store.list()

    def load_last(self, infos: Sequence[SessionInfo]) -> dict[str, Record]:
        """The last records of sessions, by their keys, where the store finds them."""
        load = getattr(self._store, "load_last", None)
        records = {} if load is None else load(infos)
        found: dict[str, Record] = {}
        for info in infos:
            with suppress(KeyError, EncryptionError):  # whoever reads the journal is told
                found[info.key] = self._open(info.key, info.records - 1, records[info.key])
        return found

    def save_plan(self, digest: str, text: str) -> None:
        """Encrypts the snapshot of a plan, where the store keeps any; raises what it raises."""
        save = getattr(self._store, "save_plan", None)
        if save is not None:
            save(digest, self._cipher.seal(text, ("plan", digest), (0,)))

    def load_plan(self, digest: str) -> str | None:
        """The snapshot of the plan with a digest, if one was kept and can be decrypted."""
        load = getattr(self._store, "load_plan", None)
        text: str | None = load(digest) if load is not None else None
        if text is None:
            return None
        try:
            return self._cipher.open(text, ("plan", digest), (0,), f"the plan {digest}")
        except EncryptionError:  # of a key that is not here any more, or plain where it may not be
            return None

    def list_plans(self) -> tuple[str, ...]:
        """The digests of the plans of which there is a snapshot."""
        found: Iterator[str] = getattr(self._store, "list_plans", lambda: iter(()))()
        return (*found,)

    def delete_plan(self, digest: str, idle: float) -> bool:
        """Deletes a snapshot that nobody has kept for `idle` seconds; whether it did."""
        delete = getattr(self._store, "delete_plan", None)
        return delete is not None and bool(delete(digest, idle))

    def rotate_plan(self, digest: str) -> bool:
        """Encrypts the snapshot of a plan with the first key; whether it was not.

        Raises:
            EncryptionError: It cannot be decrypted; it stays as it is.
        """
        store: Any = self._store
        kept: str | None = store.load_plan(digest)
        if kept is None or self._cipher.is_current(kept):
            return False
        what = f"the plan {digest}"
        opened = self._cipher.open(kept, ("plan", digest), (0,), what) if is_sealed(kept) else kept
        sealed = self._cipher.seal(opened, ("plan", digest), (0,))
        replaced: bool = store.replace_plan(digest, kept, sealed)
        return replaced

    def rotate(self, key: str) -> int:
        """Encrypts a session's records with the first key; how many were not.

        A turn of it may run meanwhile: what it appends is encrypted with that key anyway. So is a
        session that begins under the same key after this one was deleted; it is left alone.

        Raises:
            EncryptionError: One cannot be decrypted; nothing of the session was changed.
            ValidationError: The store cannot change records.
        """
        rewrite = getattr(self._store, "rewrite", None)
        if rewrite is None:
            raise ValidationError(
                f"a {type(self._store).__name__} cannot change records: export its sessions, and "
                "import them into another store"
            )
        changes = {
            place: (record, self._seal(key, place, self._decode(key, place, record, plain=True)))
            for place, record in enumerate(self._store.load(key))
            if not (_is_sealed(record) and self._cipher.is_current(record["text"]))
        }
        changed: int = rewrite(key, changes) if changes else 0
        return changed

    def _seal(self, key: str, place: int, record: Record) -> Record:
        return {"kind": SEALED, "text": self._cipher.seal(_encode(record), _scope(key), (place,))}

    def _open(self, key: str, place: int, record: Record) -> Record:
        return self._decode(key, place, record, plain=False)

    def _decode(self, key: str, place: int, record: Record, *, plain: bool) -> Record:
        what = f"record {place} of the session with the key {key[:12]}..."
        if not _is_sealed(record):
            if not plain:
                self._cipher.check_plain(what)
            return record
        text = self._cipher.open(record["text"], _scope(key), (place,), what)
        try:
            opened: Record = json.loads(text)
        except (ValueError, RecursionError):
            raise EncryptionError(
                f"{what} holds no JSON: delete the session, or restore it from a backup"
            ) from None
        return opened


def _scope(key: str) -> tuple[str, str]:
    return "journal", key


def _is_sealed(record: Any) -> bool:
    return isinstance(record, dict) and record.get("kind") == SEALED and _has_text(record)


def _has_text(record: dict[str, Any]) -> bool:
    # Without a text it is no record at all, which whoever reads it says.
    return isinstance(record.get("text"), str)


def encrypt_store(store: SessionStore) -> SessionStore:
    """The store, encrypted if it outlives the process and the environment has keys.

    Raises:
        ValidationError: It has wrong ones.
    """
    cipher = get_cipher()
    return store if cipher is None or not store.durable else EncryptedStore(store, cipher)
