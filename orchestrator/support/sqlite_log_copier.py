"""A SQLite file's long log copied into the file by a thread, while others write."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from threading import Lock, Thread
from typing import Any

from orchestrator.support.sqlite_errors import FAILURES
from orchestrator.support.sqlite_log import WriteAheadLog, copy_what_is_there

# Seconds that the thread waits for the file, while it keeps others from beginning the log anew
_PATIENCE = 0.02


class LogCopier:
    """Copies the log of an open file.

    Attributes:
        lock: Held while the thread is at it.
    """

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], log: WriteAheadLog, file_lock: Any
    ) -> None:
        """Starts nothing yet: `connect` opens the file once more, whose lock is `file_lock`."""
        self._connect = connect
        self._log = log
        self._file_lock = file_lock
        self.lock = Lock()

    def start(self, db: sqlite3.Connection) -> None:
        """Starts the thread, unless it is at it; without one the log grows until its end.

        `db` is the file's own connection, which stays while the thread has `lock`.
        """
        copy = partial(self._copy, db)
        copier = Thread(target=copy, name="orchestrator-sqlite-log", daemon=True)
        if self.lock.acquire(False):
            try:
                copier.start()
            except (RuntimeError, MemoryError):  # after an interrupt it may run
                self.lock.release()
                raise

    def _copy(self, own: sqlite3.Connection) -> None:
        # Others write meanwhile; while the rest is copied, they wait.
        try:
            with closing(self._connect()) as reader, closing(self._connect()) as db:
                # While somebody reads the log, nobody begins it anew, however much of it is copied.
                reader.execute("BEGIN")
                reader.execute("SELECT 1 FROM sqlite_master").fetchone()
                if copy_what_is_there(db) is not None:
                    self._copy_rest(reader, own)
        except FAILURES:
            pass  # whoever finds the log endless is told
        finally:
            self.lock.release()

    def _copy_rest(self, reader: sqlite3.Connection, own: sqlite3.Connection) -> None:
        # Who has the file's lock may wait for all readers, with everybody else.
        has_lock = self._file_lock.acquire(timeout=_PATIENCE)
        try:
            # Also of one that is not long: a log that somebody has begun anew before it was copied.
            self._log.note_copied()
            reader.execute("ROLLBACK")
            if has_lock:  # else whoever writes next, and may wait, does it
                self._log.begin_anew(own)
        finally:
            if has_lock:
                self._file_lock.release()
