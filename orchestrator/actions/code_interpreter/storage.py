"""Where a program's files are while it runs.

With namespaces that is a file system of its own, in memory, which can hold no more than it was made
for; its files are copied in before the program and out after it. Without them it is the session's
folder itself, which is looked at while the program runs.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.actions.code_interpreter import files
from orchestrator.actions.code_interpreter.settings import CodeInterpreterSettings

_PAGE = 4096
_BESIDE = 2  # its root, and a folder that the sandbox makes to try itself out


def bounds(settings: CodeInterpreterSettings) -> dict[str, int]:
    """What the file system holds: `bytes` and `inodes`.

    It is a little larger than the limit, since every file takes whole pages of it; a program that
    uses that, too, loses its files.
    """
    rest = min(settings.scratch_files * _PAGE, settings.scratch_bytes)
    return {"bytes": settings.scratch_bytes + rest, "inodes": settings.scratch_files + _BESIDE}


class Storage:
    """The files of one execution."""

    def __init__(self, descriptor: int) -> None:
        # The folder that the program uses: the session's, as long as no other is there.
        self._session_folder = self.used = descriptor
        self.bounded = False  # whether it is a file system that bounds itself
        self.before = files.marks(descriptor)

    def move(self, folder: int) -> None:
        """Takes a file system that was made for the program, and copies the files in.

        `close` closes `folder`, the descriptor of its root.
        """
        self.close()
        self.used, self.bounded = folder, True
        files.copy(self._session_folder, folder)
        self.before = files.marks(folder)

    def keep(self) -> None:
        """Copies what the program left into the session's folder; it was found not too large."""
        if self.bounded and files.marks(self.used) != self.before:
            files.empty(self._session_folder)
            files.copy(self.used, self._session_folder)

    def close(self) -> None:
        """Lets the program's own file system go."""
        if self.bounded:
            os.close(self.used)
            self.used, self.bounded = self._session_folder, False


_GONE = (FileNotFoundError, ProcessLookupError)


def check_hidden_usage(process: int, folder: Path, most_bytes: int) -> str:
    """Why a program must be ended for the removed files that it has open; else empty.

    They take room beside `folder`, its scratch folder; `most_bytes` is the limit of all together.
    """
    try:
        with _as_owner(process):
            return _check_hidden_usage(process, folder, most_bytes)
    except _GONE:
        return ""
    except PermissionError:
        return "what it holds of the disk cannot be watched here"


# Root in a container may not look at every process; a process's own user may look at it.
@contextmanager
def _as_owner(process: int) -> Iterator[None]:
    owner = os.stat(f"/proc/{process}")
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    libc = ctypes.CDLL(None)  # these two change this thread only, and files only
    libc.setfsgid(owner.st_gid)
    libc.setfsuid(owner.st_uid)
    try:
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(os.getegid())


def _check_hidden_usage(process: int, folder: Path, most_bytes: int) -> str:
    removed: dict[tuple[int, int], int] = {}
    threads = os.listdir(f"/proc/{process}/task")
    for thread in threads:
        place = f"/proc/{process}/task/{thread}"
        with suppress(*_GONE):  # the thread has ended
            if thread == str(process) and len(threads) > 1 and _has_ended(place):
                return "its first thread ended, and others went on"
            removed |= _measure_removed_files(place)
            if _has_removed_mapping(place, folder):
                return "it keeps a file in memory that it has removed"
    if sum(removed.values()) > most_bytes:
        return f"its files have more than {most_bytes} bytes"
    return ""


# Nothing of a process can be seen through a thread that has ended.
def _has_ended(place: str) -> bool:
    return Path(place, "stat").read_text().rpartition(")")[2].split()[0] in "ZX"


# A thread may have a table of open files of its own.
def _measure_removed_files(place: str) -> dict[tuple[int, int], int]:
    found = {}
    for name in os.listdir(f"{place}/fd"):
        with suppress(FileNotFoundError):
            file = os.stat(f"{place}/fd/{name}")
            if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                found[file.st_dev, file.st_ino] = max(file.st_size, file.st_blocks * 512)
    return found


def _has_removed_mapping(place: str, folder: Path) -> bool:
    inside = f" {folder}/".encode()
    with open(f"{place}/maps", "rb") as lines:
        return any(inside in line and line.rstrip().endswith(b" (deleted)") for line in lines)
