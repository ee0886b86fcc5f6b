"""Sessions as JSON lines: written from any store, and read back into any other one.

Each session is a head line, then its journal's records, one a line. The head says what follows:
`{"orchestrator": "session", "v": 1, "key": …, "label": …, "records": 12, "updated": …}`. A file may
hold many sessions. What is read is checked as if an attacker had written it: a session is added
whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, NamedTuple, NoReturn, TypedDict

from orchestrator.errors import SessionConflict, ValidationError
from orchestrator.message import make_json_encoder
from orchestrator.sessions.journal import Record, SessionInfo, SessionStore
from orchestrator.sessions.records import RecordError, Time, fits, upgrade_record
from orchestrator.sessions.sessions import Sessions
from orchestrator.support.safe_json import json_or

FORMAT = 1
"""The version of the head line."""

_MOST_BYTES = 256_000_000  # of one session, which a store reads whole, too
_LONGEST_LABEL = 4_000
_encode = make_json_encoder(ensure_ascii=True)


class _Head(TypedDict):
    key: str
    label: str
    records: int
    updated: Time


class ExportedSession(NamedTuple):
    """A session of an export."""

    label: str  # `agent/alias/session id`
    updated: int  # when its last record was written, in nanoseconds since 1970
    records: list[Record]  # its journal
    line: int  # the line of its head, from 1


def export_session(store: SessionStore, info: SessionInfo) -> Iterator[str]:
    """The lines of a session, each with its end.

    Raises:
        DependencyFailed: The store cannot be read.
        ValidationError: The journal has a record that no import would take.
    """
    records = store.load(info.key)
    for place, record in enumerate(records):
        try:
            upgrade_record(record)
        except RecordError as error:
            raise ValidationError(
                f"session {info.label!r} cannot be exported: record {place} {error}; "
                f"{error.way_out}"
            ) from None
    head = {
        "orchestrator": "session",
        "v": FORMAT,
        "key": info.key,
        "label": info.label,
        "records": len(records),
        "updated": info.updated,
    }
    for value in (head, *records):
        yield _encode(value) + "\n"


def import_sessions(sessions: Sessions, lines: IO[bytes], name: str) -> Iterator[ExportedSession]:
    """Adds the sessions of an export to a store, one after the other, and gives each.

    Args:
        sessions: Whose store takes them; one that is durable.
        lines: What `export_session` wrote.
        name: What messages call it, such as a file's name.

    Raises:
        ValidationError: It is no export, is of a newer version, is cut or too large, or has a
            record that no program of this version wrote; the message names the line. Sessions
            before that one were added.
        SessionConflict: The store has a session of that label; it stays as it is.
        DependencyFailed: The store failed.
    """
    for one in read_sessions(sessions, lines, name):
        try:
            sessions.store.append(
                sessions.key(one.label), 0, one.records, label=one.label, at=one.updated
            )
        except SessionConflict:
            raise SessionConflict(
                f"{name}:{one.line}: there is a session {one.label!r} already; delete it first, or "
                "import into another store"
            ) from None
        yield one


def read_sessions(sessions: Sessions, lines: IO[bytes], name: str) -> Iterator[ExportedSession]:
    """The sessions of an export, whole and checked; raises as `import_sessions` does."""
    reader = _Reader(lines, name)
    while (head := reader.next_line()) is not None:
        yield reader.read_session(sessions, head)


class _Reader:
    """The lines of an export, counted."""

    def __init__(self, lines: IO[bytes], name: str) -> None:
        self._lines = lines
        self._name = name
        self._line = 0
        self._left = _MOST_BYTES

    def next_line(self) -> bytes | None:
        """The next line that is not empty; `None` at the end."""
        while line := self._lines.readline(self._left + 1):
            self._line += 1
            self._left -= len(line)
            if self._left < 0:
                self._refuse(f"the session has more than {_MOST_BYTES:,} bytes")
            if not line.isspace():
                return line
        return None

    def read_session(self, sessions: Sessions, first: bytes) -> ExportedSession:
        """The session that a head line begins."""
        start, head = self._line, self._read_head(first)
        label, count = head["label"], head["records"]
        if head["key"] != sessions.key(label):
            self._refuse(f"the key is not that of the label {label!r:.200}")
        records = [self._read_record(place, count) for place in range(count)]
        self._left = _MOST_BYTES
        return ExportedSession(label, head["updated"], records, start)

    def _read_head(self, line: bytes) -> dict[str, Any]:
        head = self._decode(line)
        if not isinstance(head, dict) or head.get("orchestrator") != "session":
            self._refuse("this is no line that a session's export begins with")
        version = head.get("v")
        if type(version) is int and version > FORMAT:
            self._refuse(f"a newer program wrote version {version}: update this program")
        if (
            version != FORMAT
            or not fits(head, _Head)
            or not 0 < len(head["label"]) <= _LONGEST_LABEL
            or not 0 < head["records"] <= _MOST_BYTES
        ):
            self._refuse("the head of the session is damaged")
        return head

    def _read_record(self, place: int, count: int) -> Record:
        line = self.next_line()
        if line is None:
            self._refuse(f"the export ends after {place:,} of {count:,} records: it was cut")
        try:
            return upgrade_record(self._decode(line))
        except RecordError as error:
            self._refuse(f"record {place} {error}; take its session out, or export it again")

    def _decode(self, line: bytes) -> Any:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = ""
        value = json_or(text, self)
        if value is self:
            self._refuse("this is no JSON")
        return value

    def _refuse(self, text: str) -> NoReturn:
        raise ValidationError(f"{self._name}:{self._line}: {text}")
