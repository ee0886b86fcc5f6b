"""The turns of a store's sessions that have not ended, whichever process has begun them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrator.errors import DependencyFailed
from orchestrator.sessions.journal import ENDINGS, Record, SessionInfo
from orchestrator.sessions.records import RecordError, upgrade_record
from orchestrator.sessions.session import TurnLog
from orchestrator.sessions.store_use import NEVER
from orchestrator.support.logs import get_logger
from orchestrator.support.lru_cache import LruCache

if TYPE_CHECKING:
    from orchestrator.sessions.sessions import Sessions

_log = get_logger("orchestrator.sessions")

_AT_ONCE = 500  # sessions whose last records are read together
_NOBODY: Record = {}


class OpenTurns:
    """Finds open turns, of one session or of all that no invocation of this process has."""

    def __init__(self, sessions: Sessions, remembered: int) -> None:
        """It remembers of so many sessions who runs their turns."""
        self._sessions = sessions
        # Of sessions as they were when it was last asked
        self._holders: LruCache[Record] = LruCache(remembered)

    def find(self, label: str) -> TurnLog | None:
        """The turn of a session that has not ended, if there is one.

        If this process has read the session before, only the newer records are read. While this
        method runs, no invocation of this process can begin in the session.

        Raises:
            SessionConflict: An invocation of this process runs in the session.
            DependencyFailed: The store, or the session's journal in it, cannot be read.
        """
        session = self._sessions.acquire(label, NEVER)
        try:
            return session.open
        finally:
            self._sessions.release(session)

    def find_left(self, prefix: str, quiet: int = 0) -> Iterator[str]:
        """Labels that begin with a text, of sessions whose turn a process has left.

        The turn has not ended, does not wait for its caller, and no process runs it; nobody has
        written to the session for `quiet` nanoseconds. A turn of a durable workflow is left out,
        since that goes on with it, or was cancelled; so is a journal that cannot be read: whoever
        asks in its session is told.

        Raises:
            DependencyFailed: The store cannot be read.
        """
        for infos in self._list_unfinished(prefix, self._sessions.clock() - quiet):
            # What nobody has written to since the last round is not read again.
            known = {info: self._holders.find(info) for info in infos}
            last = self._load_last([info for info, holder in known.items() if holder is None])
            for info, holder in known.items():
                if holder is None:
                    holder = self._find_holder(info, last.get(info.key))
                if holder and not self._sessions.is_held(holder):
                    yield info.label

    def find_undecided(self, prefix: str) -> Iterator[tuple[str, TurnLog]]:
        """The turns that wait for a decision, in sessions whose labels begin with a text.

        See `orchestrator.engine.undecided_calls`. A journal that cannot be read is left out.

        Raises:
            DependencyFailed: The store cannot be read.
        """
        for infos in self._list_unfinished(prefix, self._sessions.clock()):
            last = self._load_last(infos)
            for info in infos:
                record = last.get(info.key)
                if record is not None and not record.get("undecided"):
                    continue
                _, log = self._peek_open_turn(info.label)
                if log is not None and log.decision_request is not None:
                    yield info.label, log

    def _list_unfinished(self, prefix: str, before: int) -> Iterator[Sequence[SessionInfo]]:
        store: Any = self._sessions.store
        find = getattr(store, "list_unfinished", store.list)
        # A list, since the turns are gone on with, and ended, while it is read.
        found = [it for it in find() if it.label.startswith(prefix) and it.updated <= before]
        for at in range(0, len(found), _AT_ONCE):
            some = found[at : at + _AT_ONCE]
            yield [info for info in some if not self._sessions.has_in_use(info.label)]

    def _load_last(self, infos: Sequence[SessionInfo]) -> dict[str, Record]:
        # By their keys, where the store gives them and they can be read. A last record says whether
        # a turn has ended or waits, so that its journal need not be read.
        load = getattr(self._sessions.store, "load_last", None)
        if load is None or not infos:
            return {}
        found: dict[str, Record] = {}
        for key, record in load(infos).items():
            with suppress(RecordError):
                found[key] = upgrade_record(record)
        return found

    def _find_holder(self, info: SessionInfo, last: Record | None) -> Record:
        # Which process runs the open turn; empty when nobody is to go on with it.
        count, holder = info.records, _NOBODY
        if last is None or last["kind"] not in ENDINGS:
            count, log = self._peek_open_turn(info.label)
            if log is not None and log.suspend_record is None and not log.workflow:
                holder = {name: log.holder.get(name) for name in ("owner", "until")}
        if count == info.records:
            self._holders.put(info, holder)
        return holder

    def _peek_open_turn(self, label: str) -> tuple[int, TurnLog | None]:
        # With the number of the session's records.
        try:
            session = self._sessions.peek(label)
            return session.count, session.open
        except DependencyFailed as error:
            _log.warning("a turn that a process may have left is not gone on with: %s", error)
            return 0, None
