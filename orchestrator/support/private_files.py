"""Files and folders that nobody but their owner may read, whatever the umask.

Conversations, keys, traces and what programs wrote are made here: files with the mode 0600, in
folders with the mode 0700. Files that are there already are changed to it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO, Any

from orchestrator.support.forks import ForkSafeLock

_FILE, _FOLDER = 0o600, 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_creating = ForkSafeLock()


def make_private_folder(folder: Path) -> None:
    """Makes a folder, and those above it, where they are missing.

    Raises:
        OSError: One cannot be made.
    """
    if folder.is_dir():
        return
    make_private_folder(folder.parent)
    try:
        folder.mkdir(_FOLDER)
    except FileExistsError:
        if folder.is_dir():  # somebody else was faster
            return
        raise
    folder.chmod(_FOLDER)  # a umask may have taken the owner's own rights


def open_private(file: str | Path, mode: str = "w", **options: Any) -> IO[Any]:
    """Opens a file for writing, as `open` does.

    Raises:
        OSError: The file cannot be opened.
    """
    return open(file, mode, opener=_open, **options)


def _open(file: str, flags: int) -> int:
    opened = os.open(file, flags, _FILE)
    _tighten(opened, file)
    return opened


def create_private(file: Path) -> None:
    """Makes an empty file, if there is none; for libraries that open files by their names.

    Raises:
        OSError: It cannot be made.
    """
    # SQLite's locks end when any handle of their file is closed ("How To Corrupt An SQLite Database
    # File", 2.2): what is there already is not opened, and the new one is closed before another
    # thread can see it.
    with _creating:
        if not file.exists():
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, _FILE))
            tighten_file(file)


def tighten_file(file: str | Path) -> None:
    """Takes a file from everybody but its owner, or logs that others can read it.

    Raises:
        OSError: There is no such file.
    """
    _tighten(file, str(file))


def _tighten(file: str | Path | int, name: str) -> None:
    found = os.stat(file)
    # Only files: a device, such as /dev/null, is everybody's. Windows has no such modes.
    if os.name == "nt" or not stat.S_ISREG(found.st_mode):
        return
    mode = stat.S_IMODE(found.st_mode)
    # An empty one may be new, and a umask may have taken its owner's own rights.
    wanted = mode & ~_OTHERS if found.st_size else _FILE
    if mode == wanted:
        return
    try:
        os.chmod(file, wanted)
    except OSError:
        from orchestrator.support.logs import get_logger

        log = get_logger("orchestrator.files")
        log.warning("the file %r can be read by others; run `chmod 600` on it", name)
