"""A SQLite file's write-ahead log: how long it is, and when it is copied into the file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

PATIENCE = 30.0
"""Seconds that a connection waits for another one."""

# How many bytes the log has when it is copied into the file. It is what SQLite itself copies after
# ("Write-Ahead Logging"): its head, and 1000 pages of usual size with a head each.
_PAGE, _PAGE_HEAD, _LOG_HEAD = 4096, 24, 32
_LONG = _LOG_HEAD + 1000 * (_PAGE_HEAD + _PAGE)
# Whoever copies the rest of it keeps others from writing meanwhile, and waits for those who read:
# for long every so many bytes more, or those who never pause would let it grow without end.
_ENDLESS = 4 * _LONG
_SHORT_PATIENCE, _READERS_PATIENCE = 0.05, 1.0  # seconds
# A transaction may write so many bytes besides its rows in each place, since all of a page is
# written.
_BESIDE = 4 * _PAGE
# After so many somebody looks how long the log is: that takes a fifth of an append.
MANY_BYTES = _LONG // 16
"""The size of a transaction after which somebody looks at the log."""


class WriteAheadLog:
    """The log beside a file; for who has the file's lock.

    Attributes:
        unseen: How many bytes may be written without a look at its length.
        is_long: Whether it was to be copied when somebody last looked.
        is_copied: Whether all of it is copied, or may be: who writes next begins it anew.
    """

    def __init__(self, path: str) -> None:
        self._path = f"{os.path.realpath(path)}-wal"
        self._pressed_at = 0  # how long it was when others were last kept from writing
        self.unseen = 0
        self.is_long = False
        self.is_copied = False

    def count(self, size: int, places: int) -> None:
        """Counts a transaction whose rows have about so many bytes, in so many places."""
        self.unseen -= size + places * _BESIDE

    def note_opened(self) -> None:
        """Notes that SQLite may have copied all of a long one by itself, until now."""
        self._measure()
        self.is_copied, self.unseen = self.is_long, 0

    def note_copied(self) -> None:
        """Notes that all of it may be copied: nobody begins it anew before a look at it."""
        self.is_copied, self.unseen = True, 0

    def note_written(self) -> None:
        """Notes that something was written that is not copied, to this log or a new one."""
        self.is_copied = False

    def look(self) -> bool:
        """Whether a transaction neither begins it nor has to copy it."""
        size = self._measure()
        is_usual = 0 < size < self._pressed_at + _ENDLESS and not self.is_copied
        self.unseen = MANY_BYTES if is_usual else 0
        return is_usual

    def copy_if_long(self, db: sqlite3.Connection) -> None:
        """Copies a long log, so that the transaction that comes next begins it anew.

        For that SQLite syncs it.
        """
        size = self._measure()
        self.unseen = MANY_BYTES if size else 0
        if self.is_long:
            with suppress(sqlite3.Error):  # as when SQLite does it by itself: the log has it all
                self._copy(db, size)
        if self.is_copied:
            self.unseen = 0

    def begin_anew(self, db: sqlite3.Connection) -> None:
        """Copies a long log, and begins one that is copied anew: it writes what is there already.

        Raises:
            sqlite3.Error: Somebody else has the file, or it failed; another transaction does it.
        """
        self.copy_if_long(db)
        if not self.is_copied:
            return
        _set_patience(db, _SHORT_PATIENCE)
        try:
            db.execute("BEGIN IMMEDIATE")
            (version,) = db.execute("PRAGMA user_version").fetchone()
            db.execute(f"PRAGMA user_version = {version:d}")  # something to write
            db.execute("COMMIT")
            self.note_written()
        finally:
            _set_patience(db, PATIENCE)
            if db.in_transaction:
                db.execute("ROLLBACK")

    def _copy(self, db: sqlite3.Connection, size: int) -> None:
        # Nobody waits while most of it is copied; the rest is what others write meanwhile.
        is_endless = size - self._pressed_at >= _ENDLESS
        is_all = copy_what_is_there(db)
        if is_all is None or not (is_all or is_endless):  # somebody reads for long
            return
        self.is_copied = is_all  # who still reads it may have ended when it is written to
        _set_patience(db, _READERS_PATIENCE if is_endless else _SHORT_PATIENCE)
        try:
            is_busy, length, _ = db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        finally:
            _set_patience(db, PATIENCE)
        if is_endless and length >= 0:
            self._pressed_at = size
        if not is_busy:
            self.is_copied = True

    def _measure(self) -> int:
        # Of all processes, and no less than what is not copied: see `set_up_log`.
        try:
            size = os.stat(self._path).st_size
        except OSError:  # there is none
            size = 0
        self.is_long = size >= _LONG
        if not self.is_long:
            self._pressed_at = 0
        return size


def copy_what_is_there(db: sqlite3.Connection) -> bool | None:
    """Copies what a log has now, while others go on: whether that was all.

    Not what came after the snapshot of somebody who reads; `None` while another process copies it.
    """
    _, length, copied = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return None if length < 0 else bool(copied >= length)


def set_up_log(db: sqlite3.Connection) -> None:
    """Has a connection cut and copy the log as this module expects it."""
    # A log that is begun anew is cut to what it has then, so that its file's size says how long it
    # is: SQLite tells that in no other way.
    db.execute("PRAGMA journal_size_limit=0")
    (page,) = db.execute("PRAGMA page_size").fetchone()
    db.execute(f"PRAGMA wal_autocheckpoint={_LONG // (_PAGE_HEAD + page)}")


def _set_patience(db: sqlite3.Connection, seconds: float) -> None:
    db.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")
