"""A SQLite file of this program: made or checked when it is opened, changed in transactions."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Literal

from orchestrator.errors import DependencyFailed
from orchestrator.support import forks
from orchestrator.support.private_files import create_private, tighten_file
from orchestrator.support.sqlite_backoff import Backoff, try_to_begin
from orchestrator.support.sqlite_errors import FAILURES, WAY_OUT, describe_failure, is_busy
from orchestrator.support.sqlite_layout import Layout, WrongLayout
from orchestrator.support.sqlite_log import MANY_BYTES, PATIENCE, WriteAheadLog, set_up_log
from orchestrator.support.sqlite_log_copier import LogCopier

# Seconds that a fork waits for each of the file's locks, before it lets go of what it has
_FORK_PATIENCE = 0.1
# Connections that a child has of its parent, which must close them
_inherited: list[sqlite3.Connection | None] = []


def checksum(*values: Any) -> int:
    """A number that another row most likely has not: it finds damage, not attackers."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


class SqliteFile:
    """An open file. Safe for many threads, and for many processes on one file.

    The log is write-ahead with `synchronous=NORMAL`: a killed process loses nothing; a power cut
    may lose the last transactions, never the file. Nobody but its owner may read it.

    A fork waits until nobody uses the file, and closes it: this process and its child open it
    again when they use it next.
    """

    def __init__(
        self,
        path: str | Path,
        what: str,
        layout: Layout,
        hint: str = "check that its folder exists, is writable and has room, and that it is a file "
        "of this program",
    ) -> None:
        """Opens the file, or makes it in a folder that exists; `:memory:` is one in memory alone.

        Messages call it `what`; `hint` says what to do when SQLite cannot use it.

        Raises:
            DependencyFailed: The file cannot be opened, is another program's or of another kind,
                or was written by a newer version.
        """
        self.path = str(path)
        # A daemon goes to another folder, and connections are made later, too
        self._whole = self.path if self.path == ":memory:" else os.path.abspath(path)
        self._what = what
        self._hint = hint
        self._log = WriteAheadLog(self._whole)
        self._make_locks()
        self._reader: sqlite3.Connection | None = None
        self._hasty: sqlite3.Connection | None = None  # waits for nobody: see `reserve`
        self._can_reserve = self.path != ":memory:"  # another connection has another one of these
        self._backoff = Backoff()
        self._layout = layout
        self._is_suspended = True
        forks.suspend_at_fork(self)
        with self._lock:
            try:
                self._open()
            except FAILURES as error:
                raise self.translate(error, "cannot be opened") from error

    def _make_locks(self) -> None:
        self._lock, self._reading = RLock(), Lock()
        self._copier = LogCopier(self._connect, self._log, self._lock)
        self._locks: tuple[Any, ...] = (self._copier.lock, self._reading, self._lock)
        self._reservation = Reservation(self, self._lock)  # one for all: who has it, has the lock

    def _open(self) -> None:
        self._create()
        self._db = self._used = self._connect()
        self._is_suspended = False
        try:
            self._db.execute(f"PRAGMA page_size={self._layout.page_size:d}")
            self._prepare()
        except BaseException:
            self._db.close()
            self._is_suspended = True
            raise
        self._tighten()

    def _connect(self, timeout: float = PATIENCE) -> sqlite3.Connection:
        return sqlite3.connect(
            self._whole,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
        )

    def _create(self) -> None:
        if self.path != ":memory:":
            with suppress(OSError):  # SQLite will say what is wrong
                create_private(Path(self._whole))

    def _tighten(self) -> None:
        # SQLite gives the files beside it the mode of the file itself, when it makes them.
        for beside in ("", "-wal", "-shm", "-journal") if self.path != ":memory:" else ():
            with suppress(OSError):
                tighten_file(self._whole + beside)

    def _prepare(self) -> None:
        layout = self._layout
        try:
            if not layout.is_in(self._db):
                with self.transaction() as db:
                    # Of two processes that make one file, the second looks again when the first
                    # is done.
                    if not layout.is_in(db):
                        layout.make_in(db)
        except WrongLayout as error:
            raise self.failure(str(error)) from None
        self._write_ahead()
        _set_up(self._db)

    def _write_ahead(self) -> None:
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # Here alone SQLite does not wait for others; whoever opens the file next tries again.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise

    def damage(self, text: str, way_out: str = WAY_OUT) -> DependencyFailed:
        """The error that says that the file does not hold what was written to it."""
        return self.failure(f"is damaged: {text}; {way_out}")

    def failure(self, text: str) -> DependencyFailed:
        """The error that says `text` of this file."""
        return DependencyFailed(f"{self._what} {self.path!r} {text}", resource=self.path)

    def translate(self, error: BaseException, what: str = "failed") -> DependencyFailed:
        """What SQLite, or Python's module for it, raised as an error of this program."""
        return self.failure(describe_failure(error, what, self._hint))

    def transaction(self, size: int = MANY_BYTES, places: int = 1) -> _Transaction:
        """The connection, in a transaction that any error in the `with` block undoes.

        `size` is about how many bytes its rows have, many when that is not known, and `places` in
        how many places of the file they are.

        Raises:
            DependencyFailed: SQLite failed; nothing was written.
        """
        return _Transaction(self, self._lock, size, places)

    def reserve(self) -> Reservation | Literal[False] | None:
        """Begins the next transaction, if that can be done within some 3 ms.

        `None` if it would wait for another thread or process for longer, and `False` if for the
        disk, or never; the next transaction is to wait, then. After a `None` the next ones come at
        once, for 100 ms at most.

        A `with` block of the reservation has the file for itself. Its first transaction waits for
        no other process and no other thread, and neither syncs nor copies the log: it costs what
        its rows cost. One that was not used is undone.

        It is refused though nobody else writes if the log was found empty or endless: a transaction
        that was not reserved begins it anew, which syncs. Since nobody copies a log before it is
        long, that holds for several processes too, as long as they write through this class alone:
        but for a transaction that comes between another process's copying of the log and the next
        one that it writes: mostly some microseconds, longer if that process's file is busy just
        then. Before that a long log is copied in a thread.
        """
        is_free = self._lock.acquire(False)
        if not is_free and not self._backoff.wait_for_lock(self._lock):
            return None
        reserved: Reservation | Literal[False] | None = False
        try:
            if self._can_reserve and not self._is_reserved:
                reserved = self._begin_hastily(may_wait=is_free)
        finally:
            if not reserved:
                self._lock.release()
        return reserved

    def _begin_hastily(self, *, may_wait: bool) -> Reservation | Literal[False] | None:
        reserved: Reservation | Literal[False] | None = False
        try:
            db = self._hasty = self._hasty or self._connect_hastily()
            if self._can_reserve:
                self._used = db
                if not (try_to_begin(db) or (may_wait and self._backoff.wait_to_begin(db))):
                    reserved = None
                elif self._log.unseen > 0 or self._has_usual_log():
                    reserved = self._reservation
        except FAILURES as error:  # what is wrong is said when it is used without haste
            if is_busy(error):
                reserved = None
        finally:
            if not reserved and self._is_reserved:
                self._end_transaction()
        return reserved

    def _has_usual_log(self) -> bool:
        # Whether it is neither empty nor endless.
        is_usual = self._log.look()
        if self._log.is_long:
            with suppress(RuntimeError, MemoryError):  # without a thread it grows until its end
                self._copier.start(self._db)
        return is_usual

    def _connect_hastily(self) -> sqlite3.Connection:
        if self._is_suspended:
            self._open()
        db = self._connect(timeout=0)
        try:
            _set_up(db)
            for each in (db, self._db):  # from now on the log is copied once for both
                each.execute("PRAGMA wal_autocheckpoint=0")
            self._log.note_opened()
            # Some file systems cannot have a log; every commit waits for the disk there.
            (mode,) = db.execute("PRAGMA journal_mode").fetchone()
        except BaseException:
            db.close()
            raise
        self._can_reserve = mode == "wal"
        return db

    @property
    def _is_reserved(self) -> bool:  # for who has the lock
        return self._used is not self._db

    def _end_transaction(self) -> None:
        # Undoes what is not committed, and ends the reservation if there is one.
        db, self._used = self._used, self._db
        if db.in_transaction:  # some errors have ended it already
            self._roll_back(db)

    def _roll_back(self, db: sqlite3.Connection) -> None:
        try:
            with suppress(sqlite3.Error):  # the first error says more
                db.execute("ROLLBACK")
        finally:
            if db is self._hasty and db.in_transaction:
                # It would keep everybody out of the file for good; the next one is another.
                self._hasty = None
                db.close()

    def rows(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """What a statement finds.

        Raises:
            DependencyFailed: SQLite failed.
        """
        with self._lock:
            try:
                if self._is_suspended:
                    self._open()
                return self._used.execute(statement, values).fetchall()
            except FAILURES as error:
                raise self.translate(error) from error

    def rows_of_last_commit(
        self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[Any]:
        """What a statement that changes nothing finds of what is committed.

        It waits for no transaction, neither of this process nor of another.

        Raises:
            DependencyFailed: SQLite failed.
        """
        if self.path == ":memory:":  # another connection would have another database
            return self.rows(statement, values)
        with self._reading:
            try:
                if self._reader is None:
                    self._reader = self._connect()
                    self._reader.execute("PRAGMA query_only=ON")
                return self._reader.execute(statement, values).fetchall()
            except FAILURES as error:
                raise self.translate(error) from error

    def close(self) -> None:
        """Closes the file."""
        forks.forget(self)
        with self._copier.lock, self._reading, self._lock:
            self._close_connections()
            self._reader = self._db  # nobody opens another one
            self._is_suspended = self._can_reserve = False

    def _close_connections(self) -> None:
        for each in (self._db, self._reader, self._hasty):
            if each is not None:
                each.close()
        self._reader = self._hasty = None

    # SQLite knows by the file which locks this process has. A child would believe that it has the
    # locks of inherited connections: whatever it opened would keep nobody from anything, and when
    # its parent closed the file, what the child wrote was lost (measured). To leave the inherited
    # ones open, as "How To Corrupt An SQLite Database File" advises, does not help against that.

    def hold(self) -> bool:
        """See `forks.Suspendable`."""
        held: list[Any] = []
        try:
            for lock in self._locks:
                if not lock.acquire(timeout=_FORK_PATIENCE):
                    return False
                held.append(lock)
        finally:  # also after an interrupt
            if len(held) < len(self._locks):
                for lock in held:
                    lock.release()
        return True

    def suspend(self) -> None:
        """See `forks.Suspendable`."""
        # One in memory is the child's own copy. In a transaction there is only who forks.
        if self.path == ":memory:" or self._is_suspended or self._used.in_transaction:
            return
        self._is_suspended = True
        self._log.note_copied()  # as it is closed, or by others until it is opened
        with suppress(sqlite3.Error):
            self._close_connections()

    def let_go(self) -> None:
        """See `forks.Suspendable`."""
        for lock in self._locks:
            lock.release()

    def leave_to_parent(self) -> None:
        """See `forks.Suspendable`: threads that are not in the child have the locks."""
        _inherited.extend((self._db, self._reader, self._hasty))
        self._make_locks()
        self._reader = self._hasty = None
        self._used = self._db
        self._is_suspended = self.path != ":memory:"


class _Connection(sqlite3.Connection):
    """One that is closed when its file is dropped; from 3.13 on Python warns of those that are not.

    An agent, which has the file, need not be closed.
    """

    def __del__(self) -> None:
        with suppress(sqlite3.Error):  # one that could not be opened
            self.close()


# A class since a turn goes through several: `contextmanager` takes ten times as long.
class _Transaction:
    __slots__ = ("_db", "_file", "_lock", "_places", "_size")

    def __init__(self, file: SqliteFile, lock: Any, size: int, places: int) -> None:
        self._file = file
        self._lock = lock
        self._size = size
        self._places = places

    def __enter__(self) -> sqlite3.Connection:
        file = self._file
        self._lock.acquire()
        db = self._db = file._used
        log = file._log
        log.count(self._size, self._places)
        if db is file._db:  # else this thread has reserved it, and it has begun
            try:
                if file._is_suspended:
                    file._open()
                    db = self._db = file._used
                if log.unseen <= 0:
                    log.copy_if_long(db)
                db.execute("BEGIN IMMEDIATE")
            except BaseException as error:
                self._lock.release()
                if isinstance(error, FAILURES):
                    raise file.translate(error) from error
                raise
        return db

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        failure = error
        try:
            if failure is None:
                self._db.execute("COMMIT")
                self._file._log.note_written()
        except BaseException as refused:
            failure = refused
        try:
            self._file._end_transaction()
        finally:
            self._lock.release()
        if failure is not None:
            if isinstance(failure, FAILURES):
                raise self._file.translate(failure) from failure
            if failure is not error:
                raise failure


class Reservation:
    """The file in the hands of one thread, with a transaction that has begun."""

    __slots__ = ("_file", "_lock")

    def __init__(self, file: SqliteFile, lock: Any) -> None:
        self._file = file
        self._lock = lock

    def __enter__(self) -> None:
        """Nothing is left to do: the lock is held since it was made."""

    def __exit__(self, *_: object) -> None:
        try:
            if self._file._is_reserved:  # nothing was written
                self._file._end_transaction()
        finally:
            self._lock.release()


def _set_up(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA foreign_keys=ON")
    set_up_log(db)
