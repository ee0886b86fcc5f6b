"""What the user types: lines with history, pasted texts of several lines, interruptions."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

_PASTE_SECONDS = 0.02
_HISTORY = 1000


class Keyboard:
    """Reads questions and answers from a terminal, with a history of the questions."""

    def __init__(self, history: Path | None, *, colour: str | None) -> None:
        """Makes the keyboard.

        Args:
            history: The file that keeps the questions, if any does.
            colour: The terminal's colour system; `None` when it has none.
        """
        self._file = history
        # The marks tell readline which characters take no room.
        self._prompt = "\001\033[1;32m\002›\001\033[0m\002 " if colour else "› "
        self._readline: Any = None

    def __enter__(self) -> Keyboard:
        with suppress(ImportError):  # Windows has none
            import readline

            self._readline = readline
            if self._file is not None and self._file.exists():
                with suppress(OSError):
                    readline.read_history_file(self._file)
            readline.set_auto_history(False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._readline is not None and self._file is not None:
            self._readline.set_history_length(_HISTORY)
            with suppress(OSError):
                self._readline.write_history_file(self._file)

    def question(self) -> str | None:
        """The next question, `""` when there is none, `None` when the user leaves."""
        try:
            text = self._read_lines(self._prompt).strip()
        except EOFError:
            print()
            return None
        except KeyboardInterrupt:
            print("\n(Ctrl-D leaves)", end="")
            return ""
        if text and self._readline is not None:
            self._readline.add_history(text.replace("\n", " "))
        return text

    def answer(self, prompt: str) -> str:
        """One answer, outside the history.

        Raises:
            KeyboardInterrupt: The user would rather not; also at the end of the input.
        """
        try:
            return input(prompt)
        except EOFError:
            raise KeyboardInterrupt from None

    def _read_lines(self, prompt: str) -> str:
        lines = [input(prompt)]
        while lines[-1].endswith("\\") or _has_more_input():
            lines[-1] = lines[-1].removesuffix("\\")
            lines.append(input("  "))
        return "\n".join(lines)


def _has_more_input() -> bool:
    # Lines that are there before anybody can have typed them were pasted.
    import select

    with suppress(OSError, ValueError):
        return bool(select.select([sys.stdin], [], [], _PASTE_SECONDS)[0])
    return False
