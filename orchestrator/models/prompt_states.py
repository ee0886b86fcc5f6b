"""The states of prompts that the embedded runtime has read, on disk, for later processes.

A state is what the runtime itself writes of the beginning of a prompt that an agent's definition
decides alone: some 15 to 30 kB a token, of the tokens and what the model made of them. Another
process loads it in milliseconds, where reading takes a minute on a busy machine.

The folder and its files are their owner's alone. The runtime ends the whole process when it meets a
damaged state, so each file's name has the sha256 of its content, which is compared before the
runtime sees the file. A state that does not fit is no error: the prompt is read as usual.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator.models import weights
from orchestrator.support.logs import get_logger
from orchestrator.support.private_files import create_private, make_private_folder

_log = get_logger(__name__)

# Bytes of all states together; what was not used for the longest time is deleted first.
MOST_BYTES = 512_000_000

# A state is not written where less than this would be left free.
_SPARE = 1_000_000_000

# Seconds after which a file that was not finished belongs to a process that is gone.
_STALE = 3600.0

_NAME = re.compile(r"([0-9a-f]{64})-([0-9]{1,9})-([0-9a-f]{64})\.state")
_UNFINISHED = ".unfinished"


class State(NamedTuple):
    """A state on disk."""

    file: Path
    key: str  # of the weights, the runtime and the prompt that it belongs to
    tokens: int
    digest: str  # the sha256 of its content
    size: int  # in bytes
    used: float  # when it was last used, in seconds since the epoch


class PromptStates:
    """A folder of states. Processes may read, write and delete in it at the same time."""

    def __init__(self, folder: Path | None = None, most: int = MOST_BYTES) -> None:
        """Names the folder, which need not exist: by default `prompts` beside the weights."""
        self.folder = folder or weights.folder() / "prompts"
        self._most = most

    def open(self) -> bool:
        """Makes the folder; whether nobody but this user can write to it."""
        try:
            make_private_folder(self.folder)
            return self._is_own()
        except OSError:  # weights that many share may lie where only root writes
            return False

    def find(self, key: str) -> State | None:
        """The state of `key`, if there is one whose content is what was written."""
        for state in self.entries():
            if state.key == key:
                if _is_intact(state):
                    with suppress(OSError):
                        os.utime(state.file)
                    return state
                _log.warning("the file %r is damaged; it is deleted", str(state.file))
                self.remove(state)
        return None

    def keep(self, key: str, write: Callable[[str], int]) -> None:
        """Has a state written, and the oldest ones deleted when there are too many.

        `write` is given the name of a file in the folder, and returns the tokens in it.

        Raises:
            OSError: It cannot be written.
        """
        if shutil.disk_usage(self.folder).free < _SPARE:
            return
        file = self.folder / f"{secrets.token_hex(16)}{_UNFINISHED}"
        try:
            create_private(file)
            tokens = write(file.name)
            name = f"{key}-{tokens}-{_digest(file)}.state"
            file.replace(self.folder / name)
        finally:
            file.unlink(missing_ok=True)
        self.prune()

    def entries(self) -> list[State]:
        """The states that are there, the one that was used last first."""
        found = []
        with suppress(OSError):
            if self._is_own():
                found = [_read_entry(Path(entry)) for entry in os.scandir(self.folder)]
        states = [state for state in found if state is not None]
        return sorted(states, key=lambda state: state.used, reverse=True)

    def prune(self) -> None:
        """Deletes what was not used for the longest time, while the files are too large together.

        `keep` does so by itself.
        """
        total = 0
        for state in self.entries():
            total += state.size
            if total > self._most:
                self.remove(state)
        for file in self.folder.glob(f"*{_UNFINISHED}"):
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > _STALE:
                    file.unlink()

    def clear(self) -> list[State]:
        """Deletes all states, and returns them."""
        states = self.entries()
        for state in states:
            self.remove(state)
        return states

    def remove(self, state: State) -> None:
        """Deletes a state; another process may have done so before."""
        with suppress(OSError):
            state.file.unlink()

    def _is_own(self) -> bool:
        status = self.folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or not _is_mine(status):
            return False
        if os.name != "nt" and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            _log.warning("others can write to %r, so it is not used", str(self.folder))
            return False
        if os.name != "nt" and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            self.folder.chmod(stat.S_IRWXU)
        return True


def _read_entry(file: Path) -> State | None:
    name = _NAME.fullmatch(file.name)
    try:
        status = file.lstat()
    except OSError:  # deleted meanwhile
        return None
    if name is None or not stat.S_ISREG(status.st_mode) or not _is_mine(status):
        return None
    return State(file, name[1], int(name[2]), name[3], status.st_size, status.st_mtime)


def _is_mine(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _is_intact(state: State) -> bool:
    try:
        return _digest(state.file) == state.digest
    except OSError:
        return False


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
