"""A template's text and its place in a file: errors and findings say where they are."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError

# Rendered texts have these private-use characters around what stands for a value
# (`languages/values.py`), and so no author may write them.
OPEN, SHUT = "\ue000", "\ue001"

_BREAK = re.compile("\r\n?")
_TOKENS = re.compile(f"[{OPEN}{SHUT}]")


def find_token(text: str) -> int | None:
    """Where a text has a character that no author may write; `None` where it has none."""
    found = _TOKENS.search(text)
    return found.start() if found is not None else None


class Source:
    """A template's text, and the file that it is from, if any."""

    __slots__ = ("_indent", "_line", "_starts", "file", "text")

    def __init__(
        self, text: str, file: str | None = None, *, line: int = 1, indent: int = 0
    ) -> None:
        """The text begins in this line of the file; its lines are indented there."""
        self.text = text
        self.file = file
        self._line = line
        self._indent = indent
        self._starts = [0, *[found.end() for found in re.finditer("\n", text)]]

    def refuse_tokens(self) -> Source:
        """The same."""
        if (at := find_token(self.text)) is not None:
            raise self.error(f"the character {self.text[at]!a} may not be in a template", at)
        return self

    def with_newlines(self) -> Source:
        """The same with line feeds for all line breaks, as Jinja2 reads it."""
        text = _BREAK.sub("\n", self.text)
        return Source(text, self.file, line=self._line, indent=self._indent)

    def place(self, at: int) -> tuple[int, int]:
        """Line and column in the file, both from 1."""
        index = bisect_right(self._starts, at) - 1
        return self._line + index, at - self._starts[index] + self._indent + 1

    def offset(self, line: int) -> int:
        """Where a line of the text begins; lines are counted from 1."""
        return self._starts[min(max(line, 1), len(self._starts)) - 1]

    def error(self, message: str, at: int) -> TemplateError:
        """An error at this offset of the text."""
        line, column = self.place(at)
        return TemplateError(message, file=self.file, line=line, column=column)

    def warn(
        self,
        code: str,
        message: str,
        at: int,
        suggestion: str = "",
        *,
        severity: Literal["warning", "info"] = "warning",
    ) -> Diagnostic:
        """A finding at this offset of the text."""
        line, column = self.place(at)
        return warn(code, message, suggestion, self.file, line, column, severity=severity)


def warn(
    code: str,
    message: str,
    suggestion: str = "",
    file: str | None = None,
    line: int | None = None,
    column: int | None = None,
    *,
    severity: Literal["error", "warning", "info"] = "warning",
) -> Diagnostic:
    """A finding, with its place as far as that is known."""
    return Diagnostic(
        severity=severity,
        code=code,
        message=message,
        suggestion=suggestion,
        file=file,
        line=line,
        column=column,
    )
