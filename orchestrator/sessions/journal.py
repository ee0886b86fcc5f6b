"""The journal's records and the seam of its stores.

A session is the list of its records, in order; nothing else is kept. A record is a JSON object
with a `kind`:

| kind | members |
|---|---|
| `turn` | an invocation began: `id`, `at`, `question`, `attributes`, `prompt_attributes`,
  `history`, `plan`, `owner`, `until` |
| `model` | a model answered: `stage`, `content`, `stop`, `usage`, `times`, `response` (what the
  parser returned), `code`, `notes` |
| `intent` | calls are about to be carried out: `calls` |
| `action` | one call's outcome: `id`, `text`, `state`, `times`, `attributes`, `prompt_attributes`,
  `error`, `notes` |
| `retrieved` | a knowledge base answered: `id`, `references`, `times` |
| `suspend` | the turn waits for the caller: `invocation_id`, `inputs` |
| `returned` | the caller's results: `invocation_id`, `results`, `digest`, `owner`, `until` |
| `claim` | another process goes on with the turn: `owner`, `until` |
| `end` | the turn ended: `result`, `text`, `stop_reason`, `citations`, `error`, `at` |
| `closed` | the session was ended, by its user or by its idle time-out: `reason`, `at` |

`at` is a time, `times` a beginning and an end, in nanoseconds since 1970. Records hold JSON values
only: no classes, no pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Record", "SessionInfo", "SessionStore", "complaint"]

Record = dict[str, Any]

_LIST = (list, tuple)
_MEMBERS: dict[str, dict[str, Any]] = {
    "turn": {
        "id": str,
        "at": int,
        "question": str,
        "attributes": dict,
        "prompt_attributes": dict,
    },
    "model": {
        "stage": str,
        "content": _LIST,
        "stop": str,
        "usage": _LIST,
        "times": _LIST,
        "response": dict,
    },
    "intent": {"calls": _LIST},
    "action": {"id": str, "text": str, "times": _LIST},
    "retrieved": {"id": str, "references": _LIST, "times": _LIST},
    "suspend": {"invocation_id": str, "inputs": _LIST, "at": int},
    "returned": {"invocation_id": str, "results": _LIST, "digest": str, "at": int},
    "claim": {},
    "end": {"result": str, "text": str, "stop_reason": str, "at": int},
    "closed": {"reason": str, "at": int},
}


def complaint(record: Any) -> str:
    """What is wrong with a record that a store gave back; empty when nothing is.

    A file may have been written by a newer version of this program, or by something else.
    """
    kind = record.get("kind") if isinstance(record, dict) else None
    members = _MEMBERS.get(kind) if isinstance(kind, str) else None
    if members is None:
        return f"is of an unknown kind ({kind!r:.60})"
    for name, member_type in members.items():
        if not isinstance(record.get(name), member_type):
            return f"is a {kind!r} without a proper {name!r}"
    return ""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A stored session, for lists.

    Attributes:
        key: The store's key.
        label: `agent/alias/session id`, as given when the session began.
        records: How many records its journal has.
        updated: When the last one was written, in nanoseconds since 1970.
    """

    key: str
    label: str
    records: int
    updated: int


class SessionStore(Protocol):
    """Keeps journals. Safe for many threads; processes may share what a store keeps.

    A store that several objects may open (a file) has an `identity`, equal for all of them, so
    that one process does not run two turns of a session at once.

    Attributes:
        durable: Whether what was appended outlives the process. A turn's records are then
            appended as soon as they must not be lost, else together at its end.
    """

    durable: bool

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones."""
        ...

    def append(
        self, key: str, expected: int, records: Sequence[Record], *, label: str = "", at: int = 0
    ) -> None:
        """Appends durably, if the journal has exactly `expected` records.

        Raises:
            SessionConflict: It has another number of records; nothing was written.
        """
        ...

    def delete(self, key: str) -> None:
        """Forgets a session; no error when there is none."""
        ...

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first."""
        ...
