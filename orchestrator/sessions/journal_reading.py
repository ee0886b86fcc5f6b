"""What a store has of a session's journal: read, upgraded, and taken into the session."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.errors import DependencyFailed, EncryptionError
from orchestrator.sessions.journal import Record, SessionStore
from orchestrator.sessions.session import Session


def take_news(
    store: SessionStore, session: Session, found: Sequence[Record] | None = None
) -> Sequence[Record]:
    """Takes into a session what was added since it was read; the records that it took.

    `found` is the journal from the last known record on, if it was read already.

    Raises:
        DependencyFailed: The store, or the session's journal in it, cannot be read.
    """
    # The last known record is read too: it is another one, or missing, when another process
    # has deleted the session, and perhaps begun it again.
    news = store.load(session.key, max(session.count - 1, 0)) if found is None else found
    if (last := session.last) is not None:
        news = _find_news(store, session, last, news)
    if session.count and any(_is_undone(record) for record in news):
        # A turn that was applied here already may be the one that was undone.
        session.forget()
        news = store.load(session.key)
    if news:
        session.load(list(upgrade_records(news, session.label, session.count)))
    return news


def _find_news(
    store: SessionStore, session: Session, last: Record, records: Sequence[Record]
) -> Sequence[Record]:
    if records and (records[0] is last or is_same(records[0], last)):
        return records[1:]
    session.forget()
    return store.load(session.key)


def _is_undone(record: Any) -> bool:
    return isinstance(record, dict) and record.get("kind") == "undone"


def is_same(read: Any, known: Record) -> bool:
    """Whether a record that was read is one that this process knows."""
    if isinstance(read, dict) and "v" in known:
        read = {**read, "v": known["v"]}  # the known one may have been upgraded
    return bool(read == known or read == json.loads(json.dumps(known)))


def upgrade_records(records: Sequence[Record], label: str, first: int) -> Iterator[Record]:
    """Records of a session in this version's form; the first has the place `first`.

    Raises:
        DependencyFailed: One cannot be read; an `EncryptionError` if it is encrypted, and no key
            was given.
    """
    # Imported by whoever reads from a store: an agent that keeps its sessions in memory never does.
    from orchestrator.sessions.records import EncryptedRecordError, RecordError, upgrade_record

    for place, record in enumerate(records, first):
        try:
            upgraded = upgrade_record(record)
        except RecordError as error:
            text = (
                f"the journal of session {label!r} cannot be read: record {place} {error}; "
                f"{error.way_out}"
            )
            if isinstance(error, EncryptedRecordError):
                raise EncryptionError(text, resource=label, is_intact=True) from error
            raise DependencyFailed(text, resource=label) from error
        yield upgraded
