"""Sessions at run time: what their journals say, and who may go on with them.

A `Session` is a projection of a journal, kept between turns so that a turn reads only what other
processes have added since. `Sessions` hands each one to a single invocation at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from orchestrator.errors import DependencyFailed, SessionConflict
from orchestrator.message import Message, text_of
from orchestrator.sessions.journal import Record, Said, SessionStore, closed, complaint
from orchestrator.sessions.memory import MemoryStore

__all__ = [
    "HISTORY_GUARD",
    "NEVER",
    "Clock",
    "Past",
    "Session",
    "Sessions",
    "TurnLog",
    "owner_is_alive",
    "process_owner",
]

HISTORY_GUARD = "guardrail-history-"
"""How the ids of the checks of what a caller told as history begin; its place ends them."""

Clock = Callable[[], int]
"""Tells the time in nanoseconds since 1970; tests inject their own."""

NEVER = 1 << 62
"""An idle time-out that no session reaches, in nanoseconds."""

_GRACE = 60_000_000_000  # after a turn's own time limit, before another host may take it over


class TurnLog:
    """The records of one turn, from its `turn` record on.

    Attributes:
        records: The records.
        transcript: Makes the turn's messages for the history, when the turn ran in this process.
        before: How many messages the history has before the turn; `None` while all of them are.
        spoken: How many sayings the talk has before the turn.
        taken: The branches whose turns are in their agents' histories.
    """

    __slots__ = ("before", "records", "spoken", "taken", "transcript")

    def __init__(self, first: Record, spoken: int = 0) -> None:
        self.records: list[Record] = [first]
        self.spoken = spoken
        self.transcript: Callable[[], list[Message]] | None = None
        self.taken: frozenset[str] = frozenset()
        self.before: int | None = None

    @property
    def start(self) -> Record:
        """The `turn` record."""
        return self.records[0]

    @property
    def end(self) -> Record | None:
        """The `end` record, when the turn has ended."""
        last = self.records[-1]
        return last if last["kind"] == "end" else None

    @property
    def suspended(self) -> Record | None:
        """The `suspend` record, when the turn waits for the caller."""
        last = self.records[-1]
        return last if last["kind"] == "suspend" else None

    @property
    def ends_session(self) -> bool:
        """Whether one of the turn's invocations asked for the session's end."""
        for record in self.records:
            if "end_session" in record:
                return True
        return False

    @property
    def holder(self) -> Record:
        """The last record that says which process runs the turn; empty when none does."""
        return next((record for record in reversed(self.records) if "owner" in record), {})


class Past:
    """What happened in a session before a turn.

    Attributes:
        history: Messages of the finished turns; only ever appended to.
        talk: Who said what, without thoughts and calls; only ever appended to.
        team: Histories of collaborators, by their names in the team.
        without_thinking: The history without what models thought, as far as it was asked for.
        rendered: Texts of the talk's sayings, as far as they were asked for, by what made them.
    """

    __slots__ = ("_relayed", "history", "rendered", "talk", "team", "without_thinking")

    def __init__(
        self, history: list[Message], talk: list[Said], team: dict[str, list[Message]]
    ) -> None:
        self.history = history
        self.talk = talk
        self.team = team
        self.without_thinking: list[Message] = []
        self.rendered: dict[object, list[str]] = {}
        self._relayed: list[Message] = []

    def take(self, messages: list[Message]) -> None:
        """Adds the messages of a turn that has ended."""
        self.history += messages

    def relayed(self, upto: int) -> list[Message]:
        """The talk up to a saying as messages, for collaborators that read it.

        A saying is made a message once in a session.
        """
        told = self._relayed
        known = len(told)
        if known < upto:
            # One assignment, so that two collaborators that begin at the same time do no harm.
            told[known:upto] = [
                Message(role, [{"text": text}]) for role, text in self.talk[known:upto]
            ]
        return told[:upto]


class Session(Past):
    """What a session's journal says.

    Attributes:
        key: The store's key.
        count: How many of the journal's records have been read.
        last: The last of them.
        attributes: Session attributes.
        open: The turn that has not ended, if any.
        unread: Finished turns that are not in `history` yet (they were read from the store).
        active: When the last record was written.
        unwritten: The record of the open turn while it is not in the store yet.
        answered: The hand-overs of this session that were answered: invocation id to the digest of
            the results, and the log of the turn.
        started: When the session began, in nanoseconds since 1970.
        memory_id: Whose memory the session belongs to; empty when it is not remembered.
        last_agent: The collaborator that answered last.
    """

    __slots__ = (
        "active",
        "answered",
        "attributes",
        "count",
        "key",
        "label",
        "last",
        "last_agent",
        "memory_id",
        "open",
        "started",
        "unread",
        "unwritten",
    )

    def __init__(self, key: str, label: str) -> None:
        self.key = key
        self.label = label
        self.forget()

    def forget(self) -> None:
        """Forgets everything that was read."""
        self.count = 0
        self.active = 0
        self.last: Record | None = None
        self.unwritten: Record | None = None
        self._reset()

    def _reset(self) -> None:
        self.attributes: dict[str, str] = {}
        self.history: list[Message] = []
        self.talk: list[Said] = []
        self.team: dict[str, list[Message]] = {}
        self.without_thinking: list[Message] = []
        self.rendered: dict[object, list[str]] = {}
        self._relayed: list[Message] = []
        self.started = 0
        self.memory_id = ""
        self.last_agent = ""
        self.open: TurnLog | None = None
        self.unread: list[TurnLog] = []
        self.answered: dict[str, tuple[str, TurnLog]] = {}

    def apply(self, record: Record) -> None:
        """Takes the journal's next record."""
        self.count += 1
        self.last = record
        if self.open is not None:
            self.open.records.append(record)
        take = _TAKES.get(record["kind"])
        if take is not None:  # most records only belong to their turn
            take(self, record)

    def _begin(self, record: Record) -> None:
        for one in record.get("history", ()):
            self.history.append(Message(one["role"], one["content"]))
            self.talk.append((one["role"], text_of(one["content"])))
        self.open = TurnLog(record, len(self.talk))
        self.started = self.started or record["at"]
        if "with" in record:
            self.memory_id = record["with"].get("memory_id", self.memory_id)
        self._change(record)

    def retell(self, record: Record) -> None:
        """Takes what the guardrail made of a message that the caller told as history.

        May be told the same again.
        """
        log = self.open
        if log is None or "branch" in record or not record["id"].startswith(HISTORY_GUARD):
            return
        if record["blocked"]:
            self._untell(log)
            return
        place = record["id"][len(HISTORY_GUARD) :]
        index = int(place) if place.isdecimal() else len(self.history)
        if record["action"] == "INTERVENED" and index < len(self.history):
            role = self.history[index]["role"]
            self.history[index] = Message(role, [{"text": record["text"]}])
            self.talk[log.spoken - len(self.history) + index] = (role, record["text"])

    def _untell(self, log: TurnLog) -> None:
        # Until its turn has ended, what the caller told is all of the history.
        first = log.spoken - len(self.history)
        del self.talk[first : log.spoken]
        log.spoken = first
        self.history.clear()

    def _end(self, record: Record) -> None:
        log = self.open
        if log is None:
            return
        if "guards_history" in log.start and not _was_read(log):
            self._untell(log)  # the turn was stopped before the guardrail had read all of it
        self.open = None
        self.unread.append(log)
        if record["result"] == "answer":
            question = record.get("question") or log.start["question"]
            self.talk += [("user", question), ("assistant", record["text"])]
        self.active = record["at"]

    def _return(self, record: Record) -> None:
        if self.open is not None:
            self.answered[record["invocation_id"]] = (record["digest"], self.open)
        self._change(record)

    def _branch(self, record: Record) -> None:
        if "/" not in record["name"]:
            self.last_agent = record["name"]
        self.active = record["at"]

    def _close(self, record: Record) -> None:
        self._reset()
        self.active = record["at"]

    def _change(self, record: Record) -> None:
        if "at" in record:
            self.active = record["at"]
        if "attributes" in record:
            self.attributes = record["attributes"]


def _was_read(log: TurnLog) -> bool:
    ids = {one["id"] for one in log.records if one["kind"] == "guarded" and "branch" not in one}
    given = range(len(log.start.get("history", ())))
    return all(f"{HISTORY_GUARD}{index}" in ids for index in given)


_TAKES: dict[str, Callable[[Session, Record], None]] = {
    "turn": Session._begin,
    "end": Session._end,
    "returned": Session._return,
    "branch": Session._branch,
    "closed": Session._close,
    "guarded": Session.retell,
    "suspend": Session._change,
    "action": Session._change,
    "claim": Session._change,
}


class Sessions:
    """The sessions of a store. Safe for many threads and tasks.

    Attributes:
        store: Keeps the journals.
        durable: Whether they outlive the process.
        clock: Tells the time.
    """

    def __init__(
        self,
        store: SessionStore | None = None,
        *,
        clock: Clock = time.time_ns,
        cached: int = 10_000,
    ) -> None:
        """Makes the sessions.

        Args:
            store: Keeps the journals; in memory when `None`.
            clock: Tells the time in nanoseconds since 1970.
            cached: How many sessions stay decoded between their turns.
        """
        self.store: SessionStore = store if store is not None else MemoryStore()
        self.durable = self.store.durable
        self.clock = clock
        self._cached = cached
        self._sessions: dict[str, Session] = {}
        self._used = _in_use(self.store)

    @classmethod
    def of(cls, value: Any) -> Sessions:
        """The sessions that `Agent(sessions=value)` means.

        Args:
            value: `None` (in memory), a path of a SQLite file, a `SessionStore` or `Sessions`.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, (str, Path)):
            from orchestrator.sessions.sqlite import SQLiteStore

            return cls(SQLiteStore(value))
        return cls(value)

    def acquire(self, label: str, ttl: int) -> Session:
        """Takes a session for one invocation, up to date with the store.

        Args:
            label: Names the session: `agent/alias/session id`.
            ttl: Idle time-out in nanoseconds; an older session is closed and begins anew.

        Raises:
            SessionConflict: Another invocation of this process has it.
            DependencyFailed: The store, or the session's journal in it, cannot be read.
        """
        used = self._used
        with used.lock:
            session = self._sessions.get(label)
            if session is None:
                if len(self._sessions) >= self._cached:
                    self._evict()
                session = self._sessions[label] = Session(self._key(label), label)
            if session.key in used.keys:
                raise SessionConflict(
                    f"session {label.rsplit('/', 1)[-1]!r} is busy with another invocation; "
                    "wait for its end, or use another session id"
                )
            used.keys.add(session.key)
        try:
            self._read(session)
            if session.count:
                self._expire(session, ttl)
        except BaseException:
            self._forget(session)
            self.release(session)
            raise
        return session

    def _read(self, session: Session) -> None:
        if news := self._news(session):
            for record in _checked(news, session.label, session.count):
                session.apply(record)

    def _news(self, session: Session) -> Sequence[Record]:
        # What was added to the journal, if it is still the one whose last record is known. It is
        # not when another process has deleted the session, and perhaps begun it again.
        last = session.last
        if last is None:
            return self.store.load(session.key)
        found = self.store.load(session.key, session.count - 1)
        if found and (found[0] is last or found[0] == json.loads(json.dumps(last))):
            return found[1:]
        session.forget()
        return self.store.load(session.key)

    def _forget(self, session: Session) -> None:
        # What is kept of it may not be what its journal says; the next turn reads it again.
        self._sessions.pop(session.label, None)

    def release(self, session: Session) -> None:
        """Gives a session back."""
        self._used.keys.discard(session.key)

    def peek(self, label: str) -> Session:
        """Reads a session from the store, for display; takes nothing.

        Raises:
            DependencyFailed: The store, or the session's journal in it, cannot be read.
        """
        session = Session(self._key(label), label)
        self._read(session)
        return session

    def records(self, label: str) -> Iterator[Record]:
        """The whole journal of a session, for display; takes nothing.

        Raises:
            DependencyFailed: The store, or the session's journal in it, cannot be read.
        """
        return _checked(self.store.load(self._key(label)), label, 0)

    def end(self, label: str) -> None:
        """Ends a session: its next turn begins with no attributes and no conversation.

        Raises:
            SessionConflict: A turn of it is running.
            DependencyFailed: The store, or the session's journal in it, cannot be read.
        """
        session = self.acquire(label, NEVER)
        try:
            self.refuse_running(session)
            if session.count:
                self.write(session, [closed("ended", self.clock())])
        finally:
            self.release(session)

    def refuse_running(self, session: Session) -> None:
        """Refuses a session whose turn another process runs.

        Raises:
            SessionConflict: It does.
        """
        if session.open is not None and self.is_running(session.open):
            raise SessionConflict(
                f"session {session.label.rsplit('/', 1)[-1]!r} is busy in another process; wait "
                "for its end, or use another session id"
            )

    def _key(self, label: str) -> str:
        # Where names meet a file system or a database, they do so as hashes.
        return _hashed(label) if self.durable else label

    def begin(self, session: Session, record: Record) -> None:
        """Opens a turn: durably, before anything is spent.

        In memory nobody else can see the session while it is in use, so that its `turn` record
        goes to the store with the next ones.

        Raises:
            SessionConflict: Another process wrote to the session; nothing was written.
            DependencyFailed: The store failed; nothing was written.
        """
        if self.durable:
            self.write(session, [record])
            return
        session.unwritten = record
        session.apply(record)

    def write(self, session: Session, records: Sequence[Record]) -> None:
        """Appends records durably, then takes them into the session.

        Raises:
            SessionConflict: Another process wrote to the session; nothing was written.
            DependencyFailed: The store failed; nothing was written.
        """
        count, news = session.count, records
        if session.unwritten is not None:
            count, news = count - 1, [session.unwritten, *records]
            session.unwritten = None
        try:
            self.store.append(session.key, count, news, label=session.label, at=self.clock())
        except BaseException:
            self._forget(session)
            raise
        for record in records:
            session.apply(record)

    def lease(self, seconds: float | None) -> dict[str, Any]:
        """The members of a record that say which process runs a turn, and until when.

        None for a store that ends with the process.
        """
        if not self.durable:
            return {}
        span = 3_600_000_000_000 if seconds is None else int(seconds * 1e9)
        return {"owner": process_owner(), "until": self.clock() + span + _GRACE}

    def is_running(self, log: TurnLog) -> bool:
        """Whether another process still runs this turn."""
        if not self.durable or log.end or log.suspended:
            return False
        holder = log.holder
        owner, until = str(holder.get("owner")), holder.get("until", 0)
        if owner == process_owner():
            return False  # ours, and `acquire` says that no invocation of this process has it
        alive = owner_is_alive(owner)
        return self.clock() < int(until) if alive is None else alive

    def _expire(self, session: Session, ttl: int) -> None:
        now = self.clock()
        if now - session.active <= ttl or not session.active:
            return
        if session.open is not None and self.is_running(session.open):
            return
        self.write(session, [closed("idle", now)])

    def _evict(self) -> None:
        idle = [
            key for key, session in self._sessions.items() if session.key not in self._used.keys
        ]
        for key in idle[: max(len(idle) // 10, 1)]:
            del self._sessions[key]


class _InUse:
    """The sessions of one store that are in use in this process, whoever opened the store."""

    __slots__ = ("__weakref__", "keys", "lock")

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.lock = Lock()


_IN_USE: WeakValueDictionary[Hashable, _InUse] = WeakValueDictionary()
_IN_USE_LOCK = Lock()


def _in_use(store: SessionStore) -> _InUse:
    with _IN_USE_LOCK:
        return _IN_USE.setdefault(getattr(store, "identity", id(store)), _InUse())


def _checked(records: Sequence[Record], label: str, first: int) -> Iterator[Record]:
    for place, record in enumerate(records, first):
        if wrong := complaint(record):
            raise DependencyFailed(
                f"the journal of session {label!r} cannot be read: record {place} {wrong}; delete "
                "the session, or use another session id",
                resource=label,
            )
        yield record


def _hashed(label: str) -> str:
    return hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()


@cache
def _host() -> str:
    import socket

    return socket.gethostname()


def process_owner() -> str:
    """Names this process: host, process id, and when it was started."""
    return _owner(os.getpid())


@cache
def _owner(pid: int) -> str:
    return f"{_host()}:{pid}:{_started(pid)}"


def _started(pid: int) -> str:
    # Tells a process apart from an earlier one with the same id; field 22 of Linux's stat. One
    # that has ended and whose parent does not know yet (state Z) is no longer the same.
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "0"
    fields = stat.rpartition(")")[2].split()
    return "ended" if fields[0] in "ZX" else fields[19]


def owner_is_alive(owner: str) -> bool | None:
    """Whether the process that an `owner` names still runs; `None` when that can't be told."""
    host, _, process = owner.partition(":")
    number, _, started = process.partition(":")
    if host != _host() or os.name != "posix" or not number.isdecimal():
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return None
    return _started(int(number)) == started
