"""How long a SQLite file's write-ahead log is, which SQLite tells nobody without copying it."""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO

# "WAL File Format": the log's head, and one before each page; both have the salt of the log.
_HEAD, _PAGE_HEAD = 32, 24
_PAGE_SIZE, _SALT, _SALT_OF_PAGE = slice(8, 12), slice(16, 24), 8

CAN_READ = hasattr(os, "pread")
"""Whether this system can read logs; where it cannot, none has a page."""


class WriteAheadLog:
    """The log of a file that is open, for whoever keeps others from writing to it.

    A log that is begun anew has another salt in its head; the pages behind those that were
    written since have the old one. So the file keeps its length, and room on the disk.
    """

    __slots__ = ("_file", "_path")

    def __init__(self, path: str) -> None:
        """The log at `path`, which need not be there yet."""
        self._path = path
        self._file: FileIO | None = None

    def has(self, pages: int) -> bool:
        """Whether the log has at least so many pages, from one on."""
        if not CAN_READ:
            return False
        # By a file of its own: to look at a path takes four times as long. SQLite deletes the log
        # only when the last connection is closed.
        try:
            if self._file is None:
                self._file = open(self._path, "rb", buffering=0)
            at = self._file.fileno()
            head = os.pread(at, _HEAD, 0)
            page = _PAGE_HEAD + int.from_bytes(head[_PAGE_SIZE], "big")
            salt = os.pread(at, 8, _HEAD + (pages - 1) * page + _SALT_OF_PAGE)
            return len(salt) == 8 and salt == head[_SALT]
        except OSError:  # there is none
            return False

    def close(self) -> None:
        """Closes the log."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()

    def __del__(self) -> None:
        """As the connections of a file that nobody has closed."""
        self.close()
