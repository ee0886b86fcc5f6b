"""Which processes of one state still live: told by a lock that the system takes from the dead."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from secrets import token_hex

from orchestrator.errors import DependencyFailed

__all__ = ["ProcessLocks"]


class ProcessLocks:
    """This process among those that share a state.

    Whatever is left half done names its process; the work of one that lives no more has failed.
    The lock is SQLite's on an empty file, which all systems have.

    Attributes:
        me: This process's name, which no other ever has.
    """

    def __init__(self, folder: Path | None) -> None:
        """Takes the lock that says that this process lives.

        Args:
            folder: Where the processes' files are, made when needed; `None` when all is in memory,
                where there is no other process.

        Raises:
            DependencyFailed: The file cannot be made.
        """
        self.me = token_hex(16)
        self._folder = folder
        self._lock: sqlite3.Connection | None = None
        if folder is not None:
            self._lock = _acquire_lock(folder, self.me)

    def is_alive(self, process: str) -> bool:
        """Whether a process lives."""
        if process == self.me:
            return True
        if self._folder is None or not process.isalnum():
            return False
        return _is_locked(_lock_file(self._folder, process))

    def close(self) -> None:
        """Gives the lock back: from now on this process counts as ended."""
        if self._lock is not None and self._folder is not None:
            self._lock.close()
            _lock_file(self._folder, self.me).unlink(missing_ok=True)
        self._lock = None


def _lock_file(folder: Path, process: str) -> Path:
    return folder / f"{process}.lock"


def _acquire_lock(folder: Path, process: str) -> sqlite3.Connection:
    path = _lock_file(folder, process)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        lock = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN EXCLUSIVE")
    except (OSError, sqlite3.Error) as error:
        raise DependencyFailed(
            f"the file {str(path)!r} cannot be made ({error}): check that its folder is writable "
            "and has room",
            resource=str(path),
        ) from error
    return lock


def _is_locked(path: Path) -> bool:
    if not path.is_file():
        return False
    asked = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=0)
    try:
        asked.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode == sqlite3.SQLITE_BUSY
    finally:
        asked.close()
    return False
