"""Where a template stands in its file: places of errors and findings."""

from __future__ import annotations

import re
from bisect import bisect_right
from copy import copy
from typing import Literal

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError
from orchestrator.prompts.languages.tokens import OPEN, SHUT

_BREAK = re.compile("\r\n?")


class Source:
    """A template's text, and where it is.

    Attributes:
        text: The text.
        file: Its file, if any.
    """

    __slots__ = ("_indent", "_line", "_starts", "file", "text")

    def __init__(
        self, text: str, file: str | None = None, *, line: int = 1, indent: int = 0
    ) -> None:
        """Takes a text.

        Args:
            text: The text.
            file: Its file, if any.
            line: The line of the file that it begins in.
            indent: How far its lines are indented there.

        Raises:
            TemplateError: It has a character that no template may have.
        """
        self.text = text
        self.file = file
        self._line = line
        self._indent = indent
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        for letter in (OPEN, SHUT):
            if letter in text:
                raise self.error(f"the character {letter!a} may not be in a template", letter)

    def with_newlines(self) -> Source:
        """The same with line feeds for all line breaks, as Jinja2 reads it."""
        made = copy(self)
        made.text = _BREAK.sub("\n", self.text)
        made._starts = [0, *(found.end() for found in re.finditer("\n", made.text))]
        return made

    def place(self, at: int) -> tuple[int, int]:
        """Line and column in the file, both from 1."""
        index = bisect_right(self._starts, at) - 1
        return self._line + index, at - self._starts[index] + self._indent + 1

    def line(self, at: int) -> int:
        """The line in the file, from 1."""
        return self.place(at)[0]

    def offset(self, line: int) -> int:
        """Where a line of the text begins.

        Args:
            line: The line in the text, from 1.
        """
        return self._starts[min(max(line, 1), len(self._starts)) - 1]

    def error(self, message: str, at: int | str) -> TemplateError:
        """An error.

        Args:
            message: What is wrong.
            at: Where, or what is wrong there.
        """
        line, column = self.place(self.text.find(at) if isinstance(at, str) else at)
        return TemplateError(message, file=self.file, line=line, column=column)

    def make_diagnostic(
        self,
        severity: Literal["error", "warning", "info"],
        code: str,
        message: str,
        at: int,
        suggestion: str = "",
    ) -> Diagnostic:
        """A finding; see `Diagnostic`."""
        line, column = self.place(at)
        return Diagnostic(
            severity=severity,
            code=code,
            message=message,
            suggestion=suggestion,
            file=self.file,
            line=line,
            column=column,
        )
