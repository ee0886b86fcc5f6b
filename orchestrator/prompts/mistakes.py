"""What is wrong with a template, before anybody knows which file it is from."""

from __future__ import annotations


class Mistake(Exception):
    """A template is wrong, or cannot be rendered.

    Attributes:
        message: What is wrong.
        line: The line, from 1.
        file: The file, where it is another than the template's own.
    """

    def __init__(self, message: str, line: int = 1, file: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.file = file
