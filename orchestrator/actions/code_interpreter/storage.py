"""Where a program's files are while it runs.

With namespaces that is a file system of its own, in memory, which can hold no more than it was made
for; its files are copied in before the program and out after it. Without them it is the session's
folder itself, which is looked at while the program runs.
"""

from __future__ import annotations

import os

from orchestrator.actions.code_interpreter import files
from orchestrator.actions.code_interpreter.settings import CodeInterpreterSettings

__all__ = ["Storage", "bounds"]

_PAGE = 4096
_BESIDE = 2  # its root, and a folder that the sandbox makes to try itself out


def bounds(settings: CodeInterpreterSettings) -> dict[str, int]:
    """What the file system holds: `bytes` and `inodes`.

    It is a little larger than the limit, since every file takes whole pages of it; a program that
    uses that, too, loses its files.
    """
    rest = min(settings.scratch_files * _PAGE, settings.scratch_bytes)
    return {
        "bytes": settings.scratch_bytes + rest,
        "inodes": settings.scratch_files + _BESIDE,
    }


class Storage:
    """The files of one execution.

    Attributes:
        used: The descriptor of the folder that the program uses.
        bounded: Whether that is a file system that bounds itself.
        before: What was in it when the program began.
    """

    def __init__(self, kept: int) -> None:
        """The session's folder, as long as no other is there.

        Args:
            kept: Its descriptor.
        """
        self._kept = self.used = kept
        self.bounded = False
        self._mark()

    def _mark(self) -> None:
        self.before = files.marks(self.used)
        self._folders = files.folders(self.used)

    def move(self, folder: int) -> None:
        """Takes a file system that was made for the program, and copies the files in.

        Args:
            folder: The descriptor of its root; it is closed by `close`.

        Raises:
            OSError: They do not fit.
        """
        self.close()
        self.used, self.bounded = folder, True
        files.copy(self._kept, folder)
        self._mark()

    def keep(self) -> None:
        """Copies what the program left into the session's folder; it was found not too large."""
        if not self.bounded:
            return
        if files.marks(self.used) != self.before or files.folders(self.used) != self._folders:
            files.empty(self._kept)
            files.copy(self.used, self._kept)

    def close(self) -> None:
        """Lets the program's own file system go."""
        if self.bounded:
            os.close(self.used)
            self.used, self.bounded = self._kept, False
