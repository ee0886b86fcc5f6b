"""Records as the durable stores keep them: JSON texts, each with a checksum.

`sum` is a CRC-32: a record's, with its key and place, so that a changed, moved or lost one shows,
and an entry's, which knows how many records there are. They find what a disk does; an attacker who
can write to the store can write them too.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple

from orchestrator.errors import DependencyFailed
from orchestrator.message import make_json_encoder
from orchestrator.sessions.journal import Record, SessionInfo, leaves_turn_open

DamageError = Callable[[str], DependencyFailed]
"""Makes the error that says what is wrong with what a store holds of a session."""

WAY_OUT = "delete the session, use another session id, or restore the store from a backup"

Encoded = tuple[Record, str]
"""A record with its text, for whoever has needed that before the store does."""

_UNKNOWN: Any = (None, "")

# ASCII: what has half a surrogate pair in it is written, too.
encode_record = make_json_encoder(ensure_ascii=True)


def sum_record(key: str, place: int, text: str) -> int:
    """The checksum of a record, as it stands in its journal."""
    return zlib.crc32(f"{key} {place} {text}".encode("utf-8", "surrogatepass"))


def sum_entry(key: str, label: str, updated: int, count: int) -> int:
    """The checksum of a session's entry."""
    return zlib.crc32(f"{key} {label} {updated} {count}".encode("utf-8", "surrogatepass"))


def read_lines(key: str, first: int, text: str | None, damage: DamageError) -> list[Record]:
    """The records of a text of lines, each a checksum and a record; the first has place `first`.

    Raises:
        DependencyFailed: One was changed, moved or lost, or is no JSON.
    """
    records = []
    for place, line in enumerate(text.split("\n") if text else (), first):
        written, _, record = line.partition(" ")
        if written != str(sum_record(key, place, record)):
            raise damage("a record was changed, or is missing")
        records.append(record)
    return decode_records(records, damage)


def read_last(infos: Sequence[SessionInfo], rows: Iterable[Sequence[Any]]) -> dict[str, Record]:
    """The last records of sessions, of rows of keys, checksums and records, by their keys.

    One that was changed, or is no JSON, is left out: whoever reads its journal is told.
    """
    places, found = {info.key: info.records - 1 for info in infos}, {}
    for key, total, text in rows:
        if total == sum_record(key, places[key], text):
            with suppress(ValueError, RecursionError):
                found[key] = json.loads(text)
    return found


def decode_records(texts: Sequence[str], damage: DamageError) -> list[Record]:
    """The records of their JSON texts."""
    try:
        found: list[Record] = json.loads(f"[{','.join(texts)}]")
    except (ValueError, RecursionError) as error:
        raise damage("a record is not JSON") from error
    if len(found) != len(texts):
        raise damage("a record is not JSON")
    return found


class Append(NamedTuple):
    """An append to a session, as rows: of its entry, and of its journal."""

    key: str
    label: str
    updated: int
    records: int  # how many the session has then
    unfinished: bool
    checksum: int  # of the entry
    expected: int  # how many it has before
    since: int  # the time of the last of them; 0 for any
    rows: Sequence[tuple[str, int, str, int]]  # of the records: key, place, text and checksum
    size: int  # how many characters the records have

    @property
    def texts(self) -> list[str]:
        """The texts of the records."""
        return [text for _, _, text, _ in self.rows]


def build_append(
    key: str,
    expected: int,
    records: Sequence[Record],
    label: str,
    at: int,
    unfinished: bool | None = None,
    since: int = 0,
    encoded: Sequence[Encoded] = (),
) -> Append:
    """An append of records; the other arguments are as `SessionStore` has them.

    A text of `encoded` is taken for the very record that it was made of.
    """
    if unfinished is None:
        unfinished = leaves_turn_open(records)
    place, rows, size = expected, [], 0
    for record, known in zip_longest(records, encoded[: len(records)], fillvalue=_UNKNOWN):
        text = known[1] if known[0] is record else encode_record(record)
        rows.append((key, place, text, sum_record(key, place, text)))
        size += len(text)
        place += 1
    total = sum_entry(key, label, at, place)
    return Append(key, label, at, place, unfinished, total, expected, since, rows, size)


Changes = Mapping[int, tuple[Record, Record]]
"""Of places of a journal, the records that stand there and those that replace them."""


def change_records(texts: Mapping[int, str], changes: Changes) -> dict[int, str]:
    """The new texts of the places whose texts are those of the old records still.

    A session may have been deleted, and another one begun under its key, since they were read.
    """
    return {
        place: encode_record(new)
        for place, (old, new) in changes.items()
        if place in texts and _normalize(texts[place]) == encode_record(old)
    }


def _normalize(text: str) -> str | None:
    # An older version of this program may have written the same record in another form.
    try:
        return encode_record(json.loads(text))
    except (ValueError, RecursionError):
        return None


def read_entry(row: Sequence[Any], damage: DamageError) -> SessionInfo:
    """A session's entry: its key, label, time, number of records and checksum.

    Raises:
        DependencyFailed: It was changed.
    """
    key, label, updated, count, total = row
    if not isinstance(count, int) or sum_entry(key, label, updated, count) != total:
        raise damage("its entry was changed, or is missing")
    return SessionInfo(key, label, count, updated)
