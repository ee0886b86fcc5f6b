"""Scratch folders: one a session, in a private folder that ends with the interpreter.

The private folder of a process that was killed is removed by the next interpreter: a folder is in
use as long as somebody has locked its file `probe`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.actions.base import CallContext
from orchestrator.actions.code_interpreter.files import empty, open_folder
from orchestrator.errors import DependencyFailed, ThrottlingError

_PREFIX = "orchestrator-code-"
_TICK = 0.05  # seconds between two questions whether to go on waiting
_CLOSING = 5.0  # seconds that programs have to be ended in


def session_key(context: CallContext) -> str:
    """The name of a session's folder; a session id such as `..` is a valid one."""
    agent = context.agent
    parts = [agent.get("id", ""), agent.get("alias", ""), agent.get("name", ""), context.session_id]
    if context.tenant:
        parts.append(context.tenant)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]


@dataclass(slots=True)
class Session:
    """One session's files."""

    # The private folder that all sessions are in. It has an empty folder `root`, to build a file
    # system's root in, and `probe`, a file that no code may reach.
    base: Path
    folder: Path  # the scratch folder
    variables: Path  # what programs left of their variables, while none runs; no code may reach it
    # Digests of the user's files that were put there, by name
    user_files: dict[str, bytes] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while a program runs
    users: int = 0  # how many programs run or wait here

    def store_variables(self, content: bytes) -> None:
        """Keeps what a program left of its variables, instead of what there was."""
        self.variables.touch(0o600)
        self.variables.write_bytes(content)


class Scratch:
    """The folders of all sessions of one interpreter, and whose turn it is."""

    def __init__(self, sessions: int, parallel: int) -> None:
        self.closed = False  # whether programs must end, and no more can begin
        self._most = sessions
        self._slots = threading.Semaphore(parallel)
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._idle = threading.Condition()
        self._base: _PrivateFolder | None = None

    @contextmanager
    def turn(self, key: str, until: float, cancelled: Callable[[], bool]) -> Iterator[Session]:
        """A session's files, for one program alone, as soon as others let it, until `until`."""
        session = self._enter(key)
        try:
            with self._hold_lock(session.lock, until, cancelled):
                with self._hold_lock(self._slots, until, cancelled):
                    yield session
        finally:
            with self._idle:
                session.users -= 1
                self._idle.notify_all()

    @contextmanager
    def _hold_lock(
        self,
        lock: threading.Lock | threading.Semaphore,
        until: float,
        cancelled: Callable[[], bool],
    ) -> Iterator[None]:
        while not lock.acquire(timeout=_TICK):
            if time.monotonic() >= until or cancelled() or self.closed:
                raise ThrottlingError(
                    "the code interpreter was busy with other programs all the time; try again, or "
                    "raise its setting 'parallel'"
                )
        try:
            yield
        finally:
            lock.release()

    def _enter(self, key: str) -> Session:
        with self._idle:
            if self.closed:
                raise DependencyFailed("the code interpreter was closed; make another one")
            if self._base is None or self._base.process != os.getpid():
                self._sessions.clear()  # a fork's are those of the process that it comes from
                self._base = _PrivateFolder()
            session = self._sessions.get(key)
            if session is None:
                self._make_room()
                base = self._base.folder
                session = self._sessions[key] = Session(base, base / key, base / f"{key}.variables")
                session.folder.mkdir(0o700)
            self._sessions.move_to_end(key)
            session.users += 1
            return session

    def _make_room(self) -> None:
        for key in [key for key, one in self._sessions.items() if not one.users]:
            if len(self._sessions) < self._most:
                return
            gone = self._sessions.pop(key)
            _remove(gone.folder)
            gone.variables.unlink(missing_ok=True)

    def close(self) -> None:
        """Has all programs ended, and removes all files."""
        self.closed = True
        with self._idle:
            self._idle.wait_for(
                lambda: not any(one.users for one in self._sessions.values()), _CLOSING
            )
            self._sessions.clear()
            base, self._base = self._base, None
        if base is not None and base.process == os.getpid():
            base.remove()


class _PrivateFolder:
    def __init__(self) -> None:
        import fcntl

        _sweep(Path(tempfile.gettempdir()))
        self.process = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        if os.geteuid() == 0:
            self.folder.chmod(0o711)  # code then runs as another user, who must be able to pass
        (self.folder / "root").mkdir(0o700)
        unlocked = self.folder / "new"
        unlocked.write_text("No program may read this.\n")
        self._lock = os.open(unlocked, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.folder / "probe")

    def remove(self) -> None:
        _remove(self.folder)
        os.close(self._lock)


# Processes that were killed leave their private folders behind.
def _sweep(temporary: Path) -> None:
    for folder in temporary.glob(f"{_PREFIX}*"):
        with suppress(OSError), open_folder(folder) as descriptor:
            if os.fstat(descriptor).st_uid == os.geteuid() and _is_abandoned(descriptor):
                empty(descriptor)
                folder.rmdir()


def _is_abandoned(folder: int) -> bool:
    import fcntl

    probe = os.open("probe", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(probe)
    return True


def _remove(folder: Path) -> None:
    with open_folder(folder) as descriptor:
        empty(descriptor)
    folder.rmdir()
