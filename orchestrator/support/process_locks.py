"""Which of the processes that share a file still live: the system frees the locks of the dead."""

from __future__ import annotations

import os
import re
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from threading import Lock
from time import time
from typing import TYPE_CHECKING

from orchestrator.errors import DependencyFailed
from orchestrator.support.forks import ForkSafeLock, begin_anew_in_child
from orchestrator.support.private_files import create_private, make_private_folder

if TYPE_CHECKING:  # a process whose sessions are in memory does without it
    import sqlite3

_STALE = 86_400  # seconds; a process locks its file much sooner than that after it has made it

# Connections that came with a fork. SQLite forbids a child to close what its parent has opened.
_inherited: list[sqlite3.Connection] = []
# Files that were locked in this process or one that it was forked from, and in which one
_lockers: dict[Path, int] = {}


class NamedProcess(ABC):
    """This process under a name that no other ever has; the first use of `me` takes it.

    A subclass has others see that the process lives.
    """

    _NAME = re.compile(r"[0-9a-f]{32}")

    def __init__(self) -> None:
        """Takes no name yet."""
        self._pid = 0
        self._name = ""
        self.begin_anew()
        begin_anew_in_child(self)

    def begin_anew(self) -> None:
        """See `forks.Renewable`: a thread that is not in a forked process may hold the lock."""
        self._guard = Lock()

    @property
    def me(self) -> str:
        """This process's name.

        Raises:
            DependencyFailed: Others cannot be shown that it lives.
        """
        with self._guard:
            if self._pid != os.getpid():  # the first use, or the first one after a fork
                name = os.urandom(16).hex()
                self._show_alive(name)
                self._name, self._pid = name, os.getpid()
            return self._name

    @abstractmethod
    def _show_alive(self, name: str) -> None:
        """Has others see that the process of this name lives, from now on."""

    @property
    def is_held(self) -> bool:
        """Whether `me` was used in this process: from then on it waits for nothing."""
        return self._pid == os.getpid()

    def is_own(self, process: str) -> bool:
        """Whether a name is this process's."""
        return process == self._name and self._pid == os.getpid()


class ProcessLocks(NamedProcess):
    """This process among those that share a folder of lock files.

    Work that is left half done names its process, and is free when that process has ended. A
    process holds a lock on an empty file until it ends, however it ends. Unlike a process id, the
    lock means the same in every container that sees the folder, and no later process has it.
    """

    # The lock is SQLite's, since Python has no other one that works on every system.

    def __init__(self, folder: Path | None) -> None:
        """Takes no lock yet; without a folder all is in memory, where no other process is."""
        super().__init__()
        self._folder = folder
        self._release: weakref.finalize[..., ProcessLocks] | None = None

    def _show_alive(self, name: str) -> None:
        self._release = None
        if self._folder is not None:
            path = self._folder / f"{name}.lock"
            lock = _acquire_lock(path)
            _lockers[path] = os.getpid()
            self._release = weakref.finalize(self, _release_lock, lock, path, os.getpid())
            _remove_stale_files(self._folder)

    def is_alive(self, process: str) -> bool | None:
        """Whether a process lives; `None` when nobody can know."""
        if self.is_own(process):
            return True
        if self._folder is None or not self._NAME.fullmatch(process):
            return None
        return _is_locked(self._folder / f"{process}.lock")

    def close(self) -> None:
        """Gives the lock back: from now on this process counts as ended."""
        with self._guard:
            if self._release is not None:
                self._release()


_shared: weakref.WeakValueDictionary[Path, ProcessLocks] = weakref.WeakValueDictionary()
_shared_guard = ForkSafeLock()


def share_locks(folder: Path) -> ProcessLocks:
    """The locks in a folder, the same object for all of this process that use it."""
    with _shared_guard:
        locks = _shared.get(folder)
        if locks is None:
            locks = _shared[folder] = ProcessLocks(folder)
        return locks


def _acquire_lock(path: Path) -> sqlite3.Connection:
    import sqlite3

    lock: sqlite3.Connection | None = None
    try:
        make_private_folder(path.parent)
        create_private(path)
        lock = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN EXCLUSIVE")
    except (OSError, sqlite3.Error) as error:
        if lock is not None:
            lock.close()
        raise DependencyFailed(
            f"the file {str(path)!r} cannot be made ({error}): check that its folder is writable "
            "and has room",
            resource=str(path),
        ) from error
    return lock


def _release_lock(lock: sqlite3.Connection, path: Path, pid: int) -> None:
    if pid != os.getpid():
        _inherited.append(lock)
        return
    lock.close()
    path.unlink(missing_ok=True)
    _lockers.pop(path, None)


def _remove_stale_files(folder: Path) -> None:
    # Those of processes that were killed. A young file may be one that is about to be locked.
    for path in folder.glob("*.lock"):
        try:
            if time() - path.stat().st_mtime > _STALE and _is_locked(path) is False:
                path.unlink(missing_ok=True)
        except OSError:  # another process was faster, or the file is another user's
            continue


def _is_locked(path: Path) -> bool | None:
    import sqlite3

    reader: sqlite3.Connection | None = None
    try:
        if not path.is_file():
            return False
        if _lockers.get(path, os.getpid()) != os.getpid():
            return _is_locked_by_ancestor(path)
        reader = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=0)
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except (OSError, sqlite3.OperationalError) as error:
        # Anything but "busy" (no permission, a disk that fails) says nothing of the process.
        is_busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
        return True if is_busy else None
    finally:
        if reader is not None:
            reader.close()
    return False


# With an inherited connection to the file, SQLite believes that this process has the lock. The
# bytes are those that it locks for whoever reads ("The SQLite OS Interface": SHARED_FIRST).
def _is_locked_by_ancestor(path: Path) -> bool:
    import fcntl  # where there are forks, there is this

    with path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 510, 0x40000002)
        except BlockingIOError:
            return True
    return False
