"""What a running program holds of the disk, where no file system of its own bounds it.

A file that no folder has any more takes its place on the disk as long as a thread has it open, or
the program has it mapped. The kernel counts neither for us.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["check_hidden_usage"]

_GONE = (FileNotFoundError, ProcessLookupError)
_REMOVED = " (deleted)"


def check_hidden_usage(process: int, folder: Path, most_bytes: int) -> str:
    """Why a program must be ended for what it holds beside its folder; empty when it need not be.

    Args:
        process: The program's process.
        folder: Its scratch folder.
        most_bytes: The limit of all removed files that are open.
    """
    try:
        with _as_owner(process):
            return _check_hidden_usage(process, folder, most_bytes)
    except _GONE:
        return ""
    except PermissionError:
        return "what it holds of the disk cannot be watched here"


@contextmanager
def _as_owner(process: int) -> Iterator[None]:
    """Looks at a process as its own user may: root in a container may not look at all of them."""
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


def _has_ended(place: str) -> bool:
    """Whether a thread has ended: then nothing of its process can be seen through it."""
    return Path(place, "stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def _measure_removed_files(place: str) -> dict[tuple[int, int], int]:
    """The sizes of the removed files that a thread has open; it may have a table of its own."""
    found = {}
    for name in os.listdir(f"{place}/fd"):
        with suppress(FileNotFoundError):
            file = os.stat(f"{place}/fd/{name}")
            if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                found[file.st_dev, file.st_ino] = max(file.st_size, file.st_blocks * 512)
    return found


def _has_removed_mapping(place: str, folder: Path) -> bool:
    inside, removed = f" {folder}/".encode(), _REMOVED.encode()
    with open(f"{place}/maps", "rb") as lines:
        return any(inside in line and line.rstrip().endswith(removed) for line in lines)
