"""The journal's records and the seam of its stores.

A session is the list of its records, in order; nothing else is kept. A record is a JSON object
with a `kind`:

| kind | members |
|---|---|
| `turn` | an invocation began: `id`, `at`, `question`, `attributes`, `prompt_attributes`,
  `history`, `plan`, `owner`, `until`, `end_session`, and `with` what few turns have: `memory_id`,
  `summaries`, `last_agent`, `retrieval`, `files`, `attachments` (files that the model reads),
  `turns` and `thinking` (what of earlier turns is told), `closing` |
| `model` | a model answered: `stage`, `model`, `content`, `stop`, `usage`, `began`, `ended`,
  `response` (what the parser returned), `code`, `notes` |
| `intent` | calls are about to be carried out: `calls`; a store that is not durable has only those
  that a turn stopped in |
| `action` | one call's outcome: `id`, `text`, `state`, `began`, `ended`, `attributes`,
  `prompt_attributes`, `error`, `files`, `details`, `notes` |
| `retrieved` | a knowledge base answered: `id`, `references`, `began`, `ended` |
| `guarded` | a guardrail checked a text: `id`, `action`, `text`, `blocked`, `assessments`,
  `began`, `ended` |
| `orchestrated` | an orchestration of one's own said what to do: `state`, `event`, `text`,
  `trace`, `attributes`, `prompt_attributes`, `notes`, `began`, `ended` |
| `branch` | a collaborator's work ended: `id`, `name`, `asked`, `before`, `usage`, `began`,
  `ended`, the members of `end`, `prompt_attributes` that its caller's results came with, and of
  an agent elsewhere its `trace` and `files` |
| `suspend` | the turn waits for the caller: `invocation_id`, `inputs`, `waits` (the branch) |
| `returned` | the caller's results: `invocation_id`, `results`, `digest`, `owner`, `until`,
  `end_session` |
| `claim` | another process goes on with the turn: `owner`, `until`, `end_session`; an empty
  `owner` has left it, and any process may |
| `end` | the turn ended: `result`, `text`, `stop_reason`, `citations`, `error`, `at`, and `cut`
  when its time was over while it waited |
| `closed` | the session was ended, by its user or by its idle time-out: `reason`, `at` |

`owner` names the process that runs the turn (its lock file); `until`, in nanoseconds since 1970, is
when the turn is free if nobody can know whether the process lives.

A record of a collaborator's turn names its `branch`; the others have none, or an empty one. `at` is
a time, `began` and `ended` are two, in nanoseconds since 1970. Records hold JSON values
only: no classes, no pickles.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

__all__ = [
    "Record",
    "Said",
    "SessionInfo",
    "SessionStore",
    "build_cancelled_record",
    "build_closed_record",
    "build_unclaimed_record",
    "describe_problem",
]

Record = dict[str, Any]

Said = tuple[str, str]
"""Who said something (`user` or `assistant`), and what."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_YEAR_10000 = 253_402_300_800 * 1_000_000_000  # a trace's times have four digits for the year
_TIMES = {"began": datetime, "ended": datetime}
_TEXTS = {str: str}
_BLOCK = {
    "text?": str,
    "toolUse?": {"toolUseId": str, "name": str, "input": object},
    "reasoningContent?": {"reasoningText?": {"text?": str}},
}
_MESSAGE = {"role": str, "content": [_BLOCK]}
_FILE = {"name": str, "type": str, "bytes": str}
_NOTED = {"notes?": [str]}
_END = {"result": str, "text": str, "stop_reason": str, "at": datetime, "citations?": [dict]}
_SHAPES: dict[str, dict[Any, Any]] = {
    "turn": {
        "id": uuid.UUID,
        "at": datetime,
        "question": str,
        "attributes": _TEXTS,
        "prompt_attributes": _TEXTS,
        "history?": [_MESSAGE],
        "guards_history?": bool,
        "with?": {
            "memory_id?": str,
            "summaries?": [dict],
            "last_agent?": str,
            "retrieval?": {str: dict},
            "files?": [_FILE],
            "attachments?": [_FILE],
            "turns?": int,
            "thinking?": bool,
        },
    },
    "model": {
        "stage": str,
        "content": [_BLOCK],
        "stop": str,
        "usage": (int, int, int, int, int),
        **_TIMES,
        "response": dict,
        **_NOTED,
    },
    "intent": {"calls": [{"id": str, "key": str, "name": str}]},
    "action": {
        "id": str,
        "text": str,
        **_TIMES,
        "attributes?": _TEXTS,
        "prompt_attributes?": _TEXTS,
        "files?": [{"bytes": str}],
        **_NOTED,
    },
    "retrieved": {"id": str, "references": [dict], **_TIMES},
    "guarded": {
        "id": str,
        "action": str,
        "text": str,
        "blocked": bool,
        "assessments": [dict],
        **_TIMES,
    },
    "orchestrated": {
        "state": str,
        "event": str,
        "text": str,
        "trace?": str,
        "attributes?": _TEXTS,
        "prompt_attributes?": _TEXTS,
        **_TIMES,
        **_NOTED,
    },
    "branch": {
        "id": str,
        "name": str,
        "asked": str,
        "before": int,
        "usage": (int, int, int),
        "prompt_attributes?": _TEXTS,
        **_TIMES,
        "files?": [{"bytes": str}],
        **_END,
    },
    "suspend": {"invocation_id": str, "inputs": [dict], "at": datetime},
    "returned": {
        "invocation_id": str,
        "results": [dict],
        "digest": str,
        "at": datetime,
        "attributes?": _TEXTS,
        "prompt_attributes?": _TEXTS,
    },
    "claim": {"attributes?": _TEXTS},
    "end": _END,
    "closed": {"reason": str, "at": datetime},
}
_SHARED = {"owner?": str, "until?": int, "branch?": str}


def describe_problem(record: Any) -> str:
    """What is wrong with a record that a store gave back; empty when nothing is.

    A file may have been written by a newer version of this program, or by something else.
    """
    kind = record.get("kind") if isinstance(record, dict) else None
    shape = _SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        return f"is of an unknown kind ({kind!r:.60})"
    for name, inner in {**shape, **_SHARED}.items():
        if not _fits(record, {name: inner}):
            return f"is a {kind!r} record without a proper {name.rstrip('?')!r}"
    return ""


def _fits(value: Any, shape: Any) -> bool:
    """Whether a JSON value has a shape.

    Args:
        value: The value.
        shape: A type, where `datetime` means nanoseconds since 1970; `[shape]` for a list;
            `(shape, shape)` for a list of that length; a mapping from members to shapes, where
            `"name?"` may be missing and `str` means every member.
    """
    if shape is uuid.UUID:
        return isinstance(value, str) and _UUID.fullmatch(value) is not None
    if shape is datetime:
        return isinstance(value, int) and 0 <= value < _YEAR_10000
    if isinstance(shape, type):
        return isinstance(value, shape)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            _member_fits(value, name, inner) for name, inner in shape.items()
        )
    if not isinstance(value, (list, tuple)):
        return False
    if isinstance(shape, tuple) and len(value) != len(shape):
        return False
    return all(_fits(one, shape[0]) for one in value)


def _member_fits(value: dict[str, Any], name: Any, shape: Any) -> bool:
    if name is str:
        return all(_fits(one, shape) for one in value.values())
    bare = name.rstrip("?")
    return _fits(value[bare], shape) if bare in value else bare != name


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
    that one process does not run two turns of a session at once. One whose processes can share a
    folder has `processes` (`support/process_locks.py`), so that the turns of a process that has
    ended are free at once; without it they are free when their `until` has passed. One that is
    durable may block: an event loop has its work done in threads, in as many as its `threads`
    says, or 16.

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


def build_cancelled_record(at: int) -> Record:
    """The `end` record of a turn that was stopped, or given up, before its end."""
    return {
        "kind": "end",
        "result": "cancelled",
        "text": "",
        "stop_reason": "cancelled",
        "at": at,
    }


def build_unclaimed_record() -> Record:
    """The record of a turn that its process has left: nobody runs it."""
    return {"kind": "claim", "owner": "", "until": 0}


def build_closed_record(reason: str, at: int) -> Record:
    """The record that ends a session: `reason` is `ended` or `idle`."""
    return {"kind": "closed", "reason": reason, "at": at}
