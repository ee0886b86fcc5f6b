"""Programs in a (pseudo) terminal, for tests and for pages that show what a user sees."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys

PATIENCE = 60  # seconds until a silent program counts as hanging


class Pane:
    """The command line in a terminal."""

    def __init__(self, *words: str, columns: int = 60, **environment: str) -> None:
        self.main, side = pty.openpty()
        around = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "30"}
        around.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *words],
            stdin=side,
            stdout=side,
            stderr=side,
            env={**around, **environment},
            start_new_session=True,
        )
        os.close(side)
        self.raw = b""
        self.seen = 0

    def until(self, *texts: str) -> str:
        """Reads until one of `texts` is shown after what was waited for before; what came."""
        while not (found := [it for it in map(self._find, texts) if it >= 0]):
            self._read()
        start, self.seen = self.seen, min(found)
        return plain(self.raw)[start : self.seen]

    def _find(self, text: str) -> int:
        """Where `text` ends."""
        at = plain(self.raw).find(text, self.seen)
        return at if at < 0 else at + len(text)

    def type(self, text: str) -> None:
        os.write(self.main, text.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        with contextlib.suppress(OSError):  # how Linux tells that the other side is closed
            while self.process.poll() is None or select.select([self.main], [], [], 0)[0]:
                self._read()
        os.close(self.main)
        return self.process.wait(timeout=PATIENCE)

    def _read(self) -> None:
        ready, _, _ = select.select([self.main], [], [], PATIENCE)
        assert ready, f"nothing more came: {self.raw!r}"
        chunk = os.read(self.main, 4096)
        assert chunk, f"the program ended: {self.raw!r}"
        self.raw += chunk


def plain(raw: bytes) -> str:
    """What a program wrote, without what only moves the cursor or colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw.decode(errors="replace"))


_WRITTEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Screen:
    """What a terminal shows of what a program wrote, with all that has scrolled away.

    It knows what readline and rich write, and refuses anything else.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0

    @classmethod
    def of(cls, text: str, columns: int) -> str:
        """The lines of what was written."""
        screen = cls(columns)
        for numbers, kind, letter in _WRITTEN.findall(text):
            if kind:
                screen._obey(kind, numbers)
            else:
                screen._write(letter)
        return "\n".join("".join(row).rstrip() for row in screen._rows).rstrip() + "\n"

    def _write(self, letter: str) -> None:
        if letter == "\r":
            self._column = 0
        elif letter == "\n":
            self._move_down()
        elif letter == "\b":
            self._column = max(self._column - 1, 0)
        elif letter >= " ":
            if self._column == self._columns:
                self._column = 0
                self._move_down()
            row = self._rows[self._row]
            row += " " * (self._column + 1 - len(row))
            row[self._column] = letter
            self._column += 1
        elif letter != "\a":
            raise ValueError(f"the program wrote {letter!r}, which this screen does not know")

    def _move_down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])

    def _obey(self, kind: str, numbers: str) -> None:
        count = int(numbers or 1) if numbers.isdigit() or not numbers else 0
        row = self._rows[self._row]
        if kind == "K" and numbers in ("", "0"):
            del row[self._column :]
        elif kind == "K" and numbers == "2":
            row.clear()
        elif kind == "A":
            self._row = max(self._row - count, 0)
        elif kind == "C":
            self._column = min(self._column + count, self._columns)
        elif kind == "D":
            self._column = max(self._column - count, 0)
        elif kind == "J" and numbers in ("", "0"):
            del row[self._column :]
            del self._rows[self._row + 1 :]
        elif kind not in "mhl":
            raise ValueError(f"the program wrote ESC[{numbers}{kind}, which is not known here")
