"""The lines of a program, and errors at places in it."""

from __future__ import annotations

from typing import NoReturn

from orchestrator.errors import FlowError
from orchestrator.flows.scanning import LineStarts
from orchestrator.flows.steps import Place

__all__ = ["Lines"]


class Lines(LineStarts):
    """A program's text by lines, and errors at places in it.

    Attributes:
        text: The text.
        lines: Its lines, without their ends.
        file: The file that it is from, if any.
    """

    __slots__ = ("file", "lines", "text")

    def __init__(self, text: str, file: str | None) -> None:
        self.text = text.replace("\r\n", "\n")
        super().__init__(self.text)
        self.lines = self.text.split("\n")
        self.file = file

    def indent(self, line: int) -> int:
        """By how many spaces a line is indented; a tab stands for up to four."""
        text = self.lines[line].expandtabs(4)
        return len(text) - len(text.lstrip())

    def begins(self, line: int) -> int:
        """Where what stands in a line begins in the text."""
        text = self.lines[line]
        return self.start(line) + len(text) - len(text.lstrip())

    def place(self, offset: int) -> Place:
        """A place in the text, with its line."""
        line = self.line_of(offset)
        return Place(line + 1, offset - self.start(line) + 1, self.lines[line].strip())

    def fail(self, offset: int, message: str, message_zh: str) -> NoReturn:
        """Refuses the program.

        Raises:
            FlowError: Always.
        """
        place = self.place(max(0, min(offset, len(self.text))))
        raise FlowError(
            message,
            file=self.file,
            line=place.line,
            column=place.column,
            statement=place.statement,
            message_zh=f"第 {place.line} 行第 {place.column} 列：{message_zh}",
        )
