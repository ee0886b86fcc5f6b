"""Sessions of a store: each is handed to one invocation at a time, and freed when it is idle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import SessionBusy, SessionConflict, ValidationError
from orchestrator.sessions.in_memory_store import InMemoryStore
from orchestrator.sessions.journal import (
    VERSION,
    Record,
    SessionStore,
    build_closed_record,
    drop_undone_turns,
    leaves_turn_open,
)
from orchestrator.sessions.journal_reading import take_news, upgrade_records
from orchestrator.sessions.plan_snapshots import PlanSnapshots
from orchestrator.sessions.session import Session, TurnLog
from orchestrator.sessions.session_cache import SessionCache
from orchestrator.sessions.sizes import are_small, measure
from orchestrator.sessions.unsynced_records import append_synced, sync_open_turn
from orchestrator.support.process_locks import ProcessLocks

if TYPE_CHECKING:
    from orchestrator.sessions.open_turns import OpenTurns
    from orchestrator.sessions.rows import Append, Encoded
    from orchestrator.support.lanes import Lanes
    from orchestrator.support.shared_appends import AppendTogether


Clock = Callable[[], int]
"""Tells the time in nanoseconds since 1970; tests inject their own."""

_THREADS = 16  # for event loops, when a store does not say how many are of use
_SET_ANEW = 10_000_000  # by so many nanoseconds is another clock off when one was set anew
_GRACE = 60_000_000_000  # after a turn's own time limit, before any process may take it over


def session_label(owner: str, session_id: str) -> str:
    """What names a session in a store; the owner is an agent, its alias and its tenant."""
    return f"{owner}/{session_id}"


class Sessions:
    """The sessions of a store. Safe for many threads and tasks.

    Attributes:
        store: Keeps the journals.
        durable: Whether they outlive the process.
        lean: Whether `model` records may leave out a `response` that follows from their `content`:
            the store adds it when it is asked for them.
        clock: Tells the time.
        encode_record: Gives a record's text as the store writes it; `None` if it does not say.
        leaving: Whether a turn that is stopped stays open in its journal, for another process to
            go on with, instead of being cancelled. Set it in a process that is about to end.
        observers: Who observes their turns; see `orchestrator/engine/run/observation.py`.
        plans: The digests of plans whose snapshots the store has, if it keeps any. `keep_plan`
            does nothing for these.
    """

    def __init__(
        self,
        store: SessionStore | None = None,
        *,
        clock: Clock = time.time_ns,
        cached: int = 10_000,
        cached_bytes: int = 64_000_000,
    ) -> None:
        """Makes the sessions.

        Args:
            store: Keeps the journals; in memory when `None`.
            clock: Tells the time in nanoseconds since 1970.
            cached: How many sessions stay decoded between their turns.
            cached_bytes: About how many bytes of memory they may take, if the store is durable;
                those that were used last stay.
        """
        self.store: SessionStore = store if store is not None else InMemoryStore()
        _check_store(self.store)
        self.durable = self.store.durable
        self.lean = type(self.store) is InMemoryStore  # of another one nobody knows what it does
        self.clock = clock
        self._steady_clock = _make_steady_clock()
        self._lanes: Lanes | None = None
        self._processes: ProcessLocks = getattr(self.store, "processes", None) or ProcessLocks(None)
        self.leaving = False
        self.observers: tuple[Any, ...] = ()
        self._notes_unfinished = hasattr(self.store, "list_unfinished")
        self._syncs = self.durable and hasattr(self.store, "sync")
        self._begins = self.durable and hasattr(self.store, "begin")
        self.encode_record: Callable[[Record], str] | None = (
            getattr(self.store, "encode_record", None) if self.durable else None
        )
        self._tells_length = self.durable and getattr(self.store, "tells_length", False)
        self._most_cached = cached
        self._cache = SessionCache(self.store, clock, cached, cached_bytes)
        self._snapshots = PlanSnapshots(self.store, clock)
        self.plans: set[str] = self._snapshots.known

    @classmethod
    def of(cls, value: Any) -> Sessions:
        """What `Agent(sessions=value)` means: `None` is in memory, a path is a SQLite file.

        A text may be a URL: `memory:`, `sqlite:///path`, `dynamodb://table`, `postgresql://...`.

        Raises:
            ValidationError: The URL is wrong, the library that it needs is not installed, or the
                value is something else.
            DependencyFailed: The store cannot be opened.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, (str, Path)):
            from orchestrator.sessions.encrypted_store import encrypt_store
            from orchestrator.sessions.open_store import open_store

            store = open_store(value)
            return cls(encrypt_store(store) if store.durable else store)
        return cls(value)

    def start_clock(self) -> tuple[int, Clock]:
        """The time, and a clock for one turn that goes on steadily when `clock` is set anew."""
        now = self.clock()
        if self.clock is not time.time_ns:  # of another one nobody knows what it does
            return now, self.clock
        # One for all turns, until somebody sets the system's: each container in flight costs time
        # in garbage collections.
        steady = self._steady_clock()
        if abs(now - steady) > _SET_ANEW:
            self._steady_clock = _make_steady_clock()
            steady = self._steady_clock()
        return steady, self._steady_clock

    def acquire(
        self, label: str, ttl: int, build_turn: Callable[[Session], Record] | None = None
    ) -> Session:
        """Takes a session for one invocation, up to date with the store.

        Args:
            label: Names the session: `agent/alias/session id`.
            ttl: Idle time-out in nanoseconds; an older session is closed and begins anew.
            build_turn: Makes the `turn` record with which a turn can begin at once, if nobody else
                has written to the session. It has begun if the session's open turn has that record.

        Raises:
            SessionConflict: Another invocation of this process has it.
            DependencyFailed: The store, or the session's journal in it, cannot be read.
        """
        session = self._cache.take(label, ttl)
        turn = None
        if build_turn is not None and self._may_begin(session, ttl):
            turn = self._build_turn(session, build_turn)
        try:
            found = None
            if turn is not None and (found := self._begin_unread(session, turn)) is None:
                return session
            self._read(session, found)
            if self._syncs:
                sync_open_turn(self.store, session, self._read)
            if session.count:
                self._expire(session, ttl)
        except BaseException:
            self.abandon(session)
            raise
        return session

    def begin_at_once(
        self, label: str, ttl: int, build_turn: Callable[[Session], Record]
    ) -> Session | None:
        """Takes a session and begins a turn in it, if that is one small append to a reserved store.

        Arguments and errors are as for `acquire`. `None` if other processes have written to the
        session, or may have, or were to be asked whether they run it: then nothing is done.
        """
        started = self._start_turn(label, ttl, build_turn)
        if started is None:
            return None
        session, turn = started
        try:
            found = self._begin_unread(session, turn, reads=False)
        except BaseException:
            self.abandon(session)
            raise
        if found is None:
            return session
        self.release(session)
        return None

    def prepare_turn(
        self, label: str, ttl: int, build_turn: Callable[[Session], Record]
    ) -> tuple[Session, Record, Append] | None:
        """What `begin_at_once` would append, for a store that makes several appends together.

        `take_append` goes on from there when it is written; when it is not, `release` does.
        """
        started = self._start_turn(label, ttl, build_turn)
        if started is None:
            return None
        session, turn = started
        try:
            append = self.prepare_append(session, [turn], since=session.written_at)
        except BaseException:
            self.release(session)
            raise
        return session, turn, append

    def prepare_append(self, session: Session, records: Sequence[Record], **options: Any) -> Append:
        """What `write` would append, for a store that makes several appends together.

        `options` are for its `build_append`.
        """
        store: Any = self.store
        append: Append = store.build_append(
            *(session.key, session.count, records, session.label, self.clock()), **options
        )
        return append

    def take_append(self, session: Session, records: Sequence[Record], append: Append) -> None:
        """Takes records into their session whose append is written."""
        self.take_records(session, records, append.updated, append.size)

    def _start_turn(
        self, label: str, ttl: int, build_turn: Callable[[Session], Record]
    ) -> tuple[Session, Record] | None:
        if not self._may_begin_at_once(label, ttl):
            return None
        session = self._cache.take(label, ttl)
        return session, self._build_turn(session, build_turn)

    def _may_begin_at_once(self, label: str, ttl: int) -> bool:
        if not self._processes.is_held:  # the process's first use of the store makes files
            return False
        session = self._cache.get(label)
        if session is None:
            return self._begins and not self._snapshots.are_due()
        return (
            self._may_begin(session, ttl)
            and all(log.transcript is not None for log in session.list_unread())
            and (not session.attributes or are_small(session.attributes))
        )

    def _may_begin(self, session: Session, ttl: int) -> bool:
        # Whether a turn may begin now, if the session is as this process knows it.
        if not self._begins or self._snapshots.are_due():
            return False
        if session.last is None:
            return True
        is_idle = self.clock() - session.active > ttl
        return bool(session.written_at) and session.open is None and not is_idle

    def _build_turn(self, session: Session, build_turn: Callable[[Session], Record]) -> Record:
        try:
            return build_turn(session)
        except BaseException:  # what the caller gave is wrong: the session is as it was
            self.release(session)
            raise

    def _begin_unread(
        self, session: Session, turn: Record, **options: Any
    ) -> Sequence[Record] | None:
        # `None` if it has begun, else what was read instead.
        store: Any = self.store
        at, count, since = self.clock(), session.count, session.written_at
        done = store.begin(
            session.key, count, turn, label=session.label, at=at, since=since, **options
        )
        if done is not None and not isinstance(done, int):
            found: Sequence[Record] = done
            return found
        self.take_records(session, [turn], at, done if self._tells_length else None)
        session.unsynced = int(self._syncs)
        return None

    def take_records(
        self, session: Session, records: Sequence[Record], at: int, length: int | None
    ) -> None:
        """Takes records into their session that were written `at` a time, `length` bytes long."""
        session.apply(records)
        session.written_at = at
        session.size += measure(records, length)

    def _read(self, session: Session, found: Sequence[Record] | None = None) -> None:
        if self.durable and self._snapshots.are_due():
            self._snapshots.keep_anew()
        news = take_news(self.store, session, found)
        if news and self.durable:
            session.size += measure(news)

    def key(self, label: str) -> str:
        """The store's key of a session."""
        return self._cache.key(label)

    def has_in_use(self, label: str) -> bool:
        """Whether an invocation of this process has a session."""
        return self._cache.has_in_use(label)

    def uses(self, owner: str) -> bool:
        """Whether this process uses a session of an owner: an agent, its alias and its tenant.

        One that is new may not be in the store yet.
        """
        return self._cache.uses(owner)

    def forget(self, session: Session) -> None:
        """Drops the decoded session; the next turn reads its journal again."""
        self._cache.forget(session)

    def release(self, session: Session) -> None:
        """Gives a session back; in memory, frees others that were idle for too long."""
        self._cache.release(session)

    def abandon(self, session: Session) -> None:
        """Gives back a session that may not be what its journal says."""
        self._cache.forget(session)
        self._cache.release(session)

    @cached_property
    def open_turns(self) -> OpenTurns:
        """Finds the turns that have not ended."""
        from orchestrator.sessions.open_turns import OpenTurns

        return OpenTurns(self, self._most_cached)

    @property
    def lanes(self) -> Lanes | None:
        """The threads that use the store for event loops; `None` for one that does not block."""
        if self._lanes is None and self.durable:
            from orchestrator.support.lanes import Lanes

            with self._cache.lock:
                self._lanes = self._lanes or Lanes(
                    getattr(self.store, "threads", _THREADS),
                    getattr(self.store, "reserve", None),
                    self._find_append_together(),
                )
        return self._lanes

    def _find_append_together(self) -> AppendTogether | None:
        # Only one of the store's own class: what a wrapper hands through would pass it by.
        store: Any = self.store
        if self._syncs or getattr(type(store), "append_together", None) is None:
            return None
        found: AppendTogether = store.append_together
        return found

    def peek(self, label: str) -> Session:
        """Reads a session, for display, without acquiring it.

        Raises:
            DependencyFailed: The store, or the session's journal in it, cannot be read.
        """
        session = Session(self.key(label), label)
        self._read(session)
        return session

    def records(self, label: str) -> Iterator[Record]:
        """The journal of a session without undone turns, for display; raises as `peek` does."""
        records = list(upgrade_records(self.store.load(self.key(label)), label, 0))
        return iter(drop_undone_turns(records))

    def refuse_running(self, session: Session) -> None:
        """Raises a `SessionConflict` if another process runs a turn of the session."""
        if session.open is not None and self.is_running(session.open):
            raise SessionBusy(
                f"session {session.label.rsplit('/', 1)[-1]!r} is busy in another process; wait "
                "for its end, or use another session id"
            )

    def begin(self, session: Session, record: Record) -> None:
        """Opens a turn in the store before anything is spent; raises as `write` does."""
        if self.durable:
            self.write(session, [record])
            return
        # In memory nobody else sees a session that is in use, so its `turn` record goes to the
        # store with the next ones.
        session.unwritten = record
        session.apply([record])

    def write(
        self, session: Session, records: Sequence[Record], encoded: Sequence[Encoded] = ()
    ) -> None:
        """Appends records, durably where they must be, then takes them into the session.

        `encoded` are the first ones with their texts, if they are known (`encode_record`).

        Raises:
            SessionConflict: Another process wrote to the session; nothing was written.
            DependencyFailed: The store failed; nothing was written.
        """
        count, news = session.count, records
        if session.unwritten is not None:
            count, news = count - 1, [session.unwritten, *records]
            session.unwritten = None
        try:
            at = self.clock()
            if self._syncs:
                length = append_synced(self._append, self.store, session, news, at)
            elif encoded:
                length = self._append(session, count, news, at, encoded=encoded)
            else:
                length = self._append(session, count, news, at)
        except BaseException as error:
            # Another process may have written, or the append may have succeeded all the same.
            self.forget(session)
            if isinstance(error, SessionConflict):
                raise SessionBusy(error.message) from None
            raise
        if self.durable:
            self.take_records(session, records, at, length)
        else:
            session.apply(records)

    def _append(
        self, session: Session, count: int, records: Sequence[Record], at: int, **options: Any
    ) -> int | None:
        if self._notes_unfinished:
            options["unfinished"] = leaves_turn_open(records)
        told = self.store.append(session.key, count, records, label=session.label, at=at, **options)
        return told if self._tells_length else None

    def keep_plan(self, digest: str, take_snapshot: Callable[[], str]) -> None:
        """Keeps what a plan's prompts are made of, once, where the store can; may block.

        No turn fails for it: without it, its prompts are shown with the templates of later.
        """
        self._snapshots.keep(digest, take_snapshot)

    def find_plan(self, digest: str) -> str | None:
        """The snapshot of the plan with a digest; `None` when nobody has kept it."""
        return self._snapshots.find(digest)

    def lease(self, seconds: float | None) -> dict[str, Any]:
        """The members of a record that say which process goes on with a turn; none in memory."""
        if not self.durable:
            return {}
        span = 3_600_000_000_000 if seconds is None else int(seconds * 1e9)
        return {"v": VERSION, "owner": self._processes.me, "until": self.clock() + span + _GRACE}

    def is_running(self, log: TurnLog) -> bool:
        """Whether another process still runs this turn."""
        if log.end or log.suspend_record:
            return False
        return self.is_held(log.holder)

    def is_held(self, holder: Record) -> bool:
        """Whether the process that a record names still runs the record's turn; see `lease`."""
        if not self.durable:
            return False
        owner, until = str(holder.get("owner")), holder.get("until") or 0
        if self._processes.is_own(owner):
            return False  # `acquire` has made sure that no invocation of this process has it
        alive = self._processes.is_alive(owner)
        return self.clock() < int(until) if alive is None else alive

    def _expire(self, session: Session, ttl: int) -> None:
        now = self.clock()
        if now - session.active <= ttl or not session.active:
            return
        # A session in which another process runs a turn is not idle, however long that takes; nor
        # is one that waits for somebody's decision, which may take days. Nor is one whose turn was
        # left by a process that stopped: nobody would hear of an action that had begun.
        log = session.open
        if log is not None and (log.decision_request or log.suspend_record is None):
            return
        self.write(session, [build_closed_record("idle", now)])


def _check_store(store: object) -> None:
    missing = [name for name in ("durable", "load", "append") if not hasattr(store, name)]
    if missing:
        raise ValidationError(
            "sessions are kept in memory (None), in a SQLite file (a path), in a database (a URL), "
            "or in a store with the members of `orchestrator.sessions.SessionStore`; an object of "
            f"the class {type(store).__name__!r} has no {' and no '.join(map(repr, missing))}"
        )


def _make_steady_clock() -> Clock:
    monotonic = time.monotonic_ns
    ahead = time.time_ns() - monotonic()
    return lambda: ahead + monotonic()
