"""What a user types: questions with a history, answers, and texts to change."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.support.private_files import open_private

_PASTE_SECONDS = 0.02
_HISTORY = 1000


class Keyboard:
    """Reads questions and answers from a terminal, with a history of the questions."""

    def __init__(self, history: Path | None, *, colour: str | None) -> None:
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

    def __exit__(self, *_: object) -> None:
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

    def edit(self, text: str) -> str:
        """What the user makes of a text, in the editor of `VISUAL` or `EDITOR`, or on a line.

        Raises:
            KeyboardInterrupt: The user would rather not; also at the end of the input.
            ValidationError: There is no such editor, it failed, or there is none and no line.
        """
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if editor:
            return _edit_in(editor, text).strip()
        if self._readline is None:
            raise ValidationError("there is no line to edit here; set EDITOR, or give the text")
        line = text.replace("\n", " ")
        self._readline.set_startup_hook(lambda: self._readline.insert_text(line))
        try:
            return self.answer(self._prompt).strip()
        finally:
            self._readline.set_startup_hook(None)

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


def _edit_in(editor: str, text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "question.md"
        with open_private(file, encoding="utf-8") as stream:
            stream.write(text + "\n")
        try:
            done = subprocess.run([*shlex.split(editor), str(file)], check=False)
            if done.returncode == 0:
                return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ValidationError(f"the editor {editor!r} cannot be started: {error}") from error
        raise ValidationError(f"the editor {editor!r} failed (exit code {done.returncode})")
