"""The journal's records and the seam of its stores.

A session is the list of its records, in order; nothing else is stored. A record is a JSON object
with a `kind`; `records.py` has the types of its members, reads them and upgrades them:

| kind | members |
|---|---|
| `turn` | an invocation began: `v` (the version of what follows), `id`, `at`, `question`,
  `attributes`, `prompt_attributes`, `history`, `guards_history`, `plan`, `owner`, `until`,
  `workflow`, `end_session`, `forked` (the `session`, `turn` and `step` that it goes on from), and
  in `with` what few turns have: `memory_id`, `summaries`, `last_agent`, `retrieval`, `files`,
  `attachments`
  (files that the model reads), `turns` and `thinking` (what the model reads of earlier turns),
  `closing`, `pending` (the calls that wait for the user, by the names of the agents in the team) |
| `model` | a model answered: `stage`, `model`, `content`, `stop`, `usage`, `began`, `ended`,
  `response` (what the parser returned), `stop_sequence`, `code`, `raw`, `notes`, and
  `checks` (what a guardrail said while it streamed) |
| `intent` | calls are about to be carried out: `calls`; a store that is not durable has only those
  that a turn stopped in |
| `action` | one call's outcome: `id`, `text`, `state`, `began`, `ended`, `attributes`,
  `prompt_attributes`, `error`, `files`, `details`, `notes` |
| `retrieved` | a knowledge base answered: `id`, `references`, `began`, `ended` |
| `guarded` | a guardrail checked a text: `id`, `action`, `text`, `blocked`, `assessments`,
  `began`, `ended`, and `streamed` where the last of a stream's checks was of the same text |
| `orchestrated` | a custom orchestration answered: `state`, `event`, `text`,
  `trace`, `attributes`, `prompt_attributes`, `notes`, `began`, `ended` |
| `branch` | a collaborator's work ended: `id`, `name`, `asked`, `before`, `usage`, `began`,
  `ended`, the members of `end`, `prompt_attributes` that its caller's results came with, the
  `asks` of an iteration, and of a remote agent its `trace` and `files` |
| `suspend` | the turn waits for the caller: `invocation_id`, `inputs`, `at`, `waits` (the branch),
  and `undecided` (the idempotency keys of the calls) where it waits for a decision about calls that
  had begun when their process stopped |
| `returned` | the caller's results: `v`, `invocation_id`, `results`, `digest`, `at`, `attributes`,
  `prompt_attributes`, `owner`, `until`, `workflow`, `end_session` |
| `decided` | what became of such calls: `decisions` (of each `key` the `decision`: `happened` with
  the `text` and `state` of its result, `repeat` or `give_up`), `v`, `invocation_id`, `digest`,
  `at`, `attributes`, `owner`, `until`, `workflow`, `end_session` |
| `claim` | another process goes on with the turn: `v`, `attributes`, `owner`, `until`,
  `workflow`, `end_session`; an empty `owner` has left it, and any process may |
| `end` | the turn ended: `result`, `text`, `stop_reason`, `citations`, `error`, `message`,
  `question` (as the guardrail let it be read), `at`, `cut` when its time was over while it
  waited, and `pending` (the call that its question is about: `name`, `arguments`, `confirms`) |
| `closed` | the session was ended, by its user or by its idle time-out: `reason`, `at` |
| `undone` | the session's last turn was undone: `turn`, its id, and `at`; readers leave out the
  records from that turn's `turn` record on |

A store may have encrypted ones instead, of the kind `sealed`: see `encrypted_store.py`.

`owner` names the process that runs the turn (its lock file); `until`, in nanoseconds since 1970, is
when the turn is free if nobody can know whether the process lives. `workflow` is the durable
workflow that the process runs the turn for, and that goes on with it when the process ends.

A record of a collaborator's turn names its `branch`; the others have none, or an empty one. `at` is
a time, `began` and `ended` are two, in nanoseconds since 1970. Records hold JSON values
only: no classes, no pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Record = dict[str, Any]
"""A record of any kind."""

Said = tuple[str, str]
"""Who said something (`user` or `assistant`), and what."""

SEALED = "sealed"
"""The kind of an encrypted record, as a store has it; `encrypted_store.py` makes them."""

VERSION = 1
"""The version of the records that this program writes. One without `v` is of version 0."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A stored session, for lists."""

    key: str  # the store's key
    label: str  # `agent/alias/session id`, as it was when the session began
    records: int  # how many records its journal has
    updated: int  # when the last one was written, in nanoseconds since 1970

    @property
    def session_id(self) -> str:
        """Its id, as its caller gave it."""
        return self.label.rpartition("/")[2]


class SessionStore(Protocol):
    """Keeps journals. Safe for many threads; processes may share what a store keeps.

    A store that several objects may open (a file) has an `identity`, equal for all of them, so
    that one process does not run two turns of a session at once. One that knows which of its
    processes live has `processes`, so that the turns of a process that has ended are free: those
    that share a folder have locks (`support/process_locks.py`), those that share a database have
    leases (`support/process_leases.py`). Without it they are free when their `until` has passed.
    One that is
    durable may block: an event loop has its work done in threads, in as many as its `threads`
    says, or 16.

    One whose appends mostly take microseconds has `reserve()`, so that an event loop makes small
    appends itself: it gives a `with` block in which the first append of this thread waits for
    nobody, `None` when it would wait for somebody else, and `False` when for anything else. Its
    `begin` reads nothing when it is told `reads=False`. If it has `encode_record(record)`, which
    gives a record as it is written, `append(..., encoded=...)` gets the first records with their
    texts: the event loop has asked how long they are. Each text is that of the very same object.

    If it also has `append_together(appends)`, which makes several appends in one transaction and
    says of each whether it was made, an event loop that has other tasks ready has theirs made
    together. It gets an append from `build_append`, which is called as
    `orchestrator.sessions.rows.build_append` is, and gives an object with the `size` of its records
    in characters and the time `updated`. A subclass that overrides `append` or `begin`
    and not this one makes its appends one by one; so does a wrapper that has none of its own.

    One that keeps what prompts were made of has two more: `save_plan(digest, text)`, which only
    notes the time where the digest is known, and `load_plan(digest)`, which gives the text or
    `None`. Without them, past prompts are shown with the templates of today. With `list_plans()`,
    which gives all digests, and `delete_plan(digest, idle)`, which deletes one that nobody has
    saved for `idle` seconds and says whether it did, those that no session names any more are
    deleted when sessions are pruned.

    One with `sync()` waits for a disk. It is told by `append(..., sync=False)` that an append need
    not wait for it (`needs_sync`): the process's death loses nothing of it, and a crash of the
    database may, unless a later append of any session, or a `sync()`, waited. Somebody else may
    then write as many records as were lost, so that their number says nothing: an append after such
    a one has `since`, the time (`at`) of the last append, which has to be the same.

    One with `begin(key, expected, turn, label=..., at=..., since=...)` spares most turns the
    reading of their sessions. It appends a turn's first record, for which `sync` is not needed, and
    gives what `append` gives, if the journal is as the caller knows it: it has `expected` records,
    and unless `since` is 0, the last append was the one with that time. Else, or if it prefers to,
    it gives the list that `load(key, max(expected - 1, 0))` gives.

    One with a true `tells_length` returns from `append` how many characters the records have in it;
    else whoever keeps the session decoded encodes them once more to know how large it is.

    One with `list_unfinished()`, which is `list` of those sessions whose last turn has not ended
    and does not wait for its caller, is told that by `append(..., unfinished=...)`. One with
    `load_last(infos)`, which gives the records that were the last ones when these sessions were
    listed, by their keys, spares whoever looks for turns that were left, or that wait for a
    decision, the reading of whole journals. It may leave sessions out: those that have changed
    since, or whose records cannot be read.
    """

    # Whether what was appended outlives the process. A turn's records are then appended as soon as
    # they must not be lost, else together at its end
    durable: bool

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones."""

    def append(
        self, key: str, expected: int, records: Sequence[Record], *, label: str = "", at: int = 0
    ) -> Any:
        """Appends durably, if the journal has exactly `expected` records.

        What it returns is of no account, unless the store has `tells_length`.

        Raises:
            SessionConflict: It has another number of records; nothing was written.
        """

    def delete(self, key: str) -> None:
        """Forgets a session; no error when there is none."""

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first."""


# The kinds of records after which no process runs the turn any more.
ENDINGS = frozenset({"end", "suspend", "closed", "undone"})


# What a turn has only begun or learned. If a crash of the database loses one of these, the process
# that runs the turn writes it again; if that has ended too, the turn goes on from before it, as if
# the process had been killed a moment earlier. Nothing before an `intent` is lost, so that what an
# action may have done is known or reported, and nothing of a turn whose caller knows its end.
_SYNCED_LATER = frozenset(
    {"turn", "model", "action", "retrieved", "guarded", "orchestrated", "branch"}
)


def needs_sync(records: Sequence[Record]) -> bool:
    """Whether what follows these records may happen only when no crash can lose them any more.

    That is so before calls are carried out (`intent`), and before a caller is told something.
    """
    return any(record["kind"] not in _SYNCED_LATER for record in records)


def leaves_turn_open(records: Sequence[Record]) -> bool:
    """Whether a turn goes on after these records: it neither ended nor waits for its caller.

    One that waits for a decision is open: whoever may decide has to find it.
    """
    if not records:
        return False
    last = records[-1]
    return last["kind"] not in ENDINGS or bool(last.get("undecided"))


def build_cancelled_record(at: int) -> Record:
    """The `end` record of a turn that was stopped, or abandoned, before its end."""
    return {
        "kind": "end",
        "result": "cancelled",
        "text": "",
        "stop_reason": "cancelled",
        "at": at,
    }


def build_left_record(workflow: str = "") -> Record:
    """The `claim` record of a turn that its process leaves; `workflow` is the one that it is of."""
    record: Record = {"kind": "claim", "owner": "", "until": 0}
    return {**record, "workflow": workflow} if workflow else record


def build_closed_record(reason: str, at: int) -> Record:
    """The record that ends a session: `reason` is `ended` or `idle`."""
    return {"kind": "closed", "reason": reason, "at": at}


def build_undone_record(turn: str, at: int) -> Record:
    """The record that undoes the turn with the id `turn`, which has to be the last one."""
    return {"kind": "undone", "turn": turn, "at": at}


def drop_undone_turns(records: Sequence[Record]) -> list[Record]:
    """The records without those of turns that were undone; their `undone` records stay.

    An `undone` record that names no last turn of its session is left out: a session that was ended
    has none.
    """
    kept: list[Record] = []
    starts: list[int] = []  # where the turns begin that can still be undone
    for record in records:
        kind = record["kind"]
        if kind == "turn":
            starts.append(len(kept))
        elif kind == "closed":
            starts.clear()
        elif kind == "undone":
            if not starts or kept[starts[-1]]["id"] != record["turn"]:
                continue
            del kept[starts.pop() :]
        kept.append(record)
    return kept
