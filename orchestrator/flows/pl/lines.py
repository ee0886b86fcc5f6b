"""The lines of a program, and errors at places in it."""

from __future__ import annotations

import re
from typing import NoReturn

from orchestrator.flows.expressions import LineStarts
from orchestrator.flows.steps import Place

CALL = re.compile(r"@(?P<name>[^\W\d]\w*)[ \t]*(?P<open>[(（])")
"""How a call begins; a full-width bracket is a mistake with a special message."""


class Lines(LineStarts):
    """A program's text by lines, without their ends, and errors at places in it."""

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
        """Refuses the program with a `FlowError`."""
        place = self.place(max(0, min(offset, len(self.text))))
        raise place.error(message, message_zh, self.file, with_column=True)


ARROW = re.compile(r"(?P<arrow>->|>>)[ \t]*\$?(?P<name>[A-Za-z_]\w*)[ \t]*$", re.ASCII)
WRONG_ARROW = re.compile(r"(?:->|>>)[ \t]*(?P<name>\$?[^\s$]{1,100})[ \t]*$")
"""An arrow at a line's end that is none, when `ARROW` finds none: what it names is no variable."""

BREAKPOINT = re.compile(r"@?\((?:bp)\)\s*$")
ELSE = re.compile(r"else[ \t]*[:：]")
_OPEN_END = re.compile(r"(?:(?<![\w$.])(?:IF|elif|and|or|not|in)|[=<>&|+*/%!,\\-])$")
_GOES_ON = re.compile(
    r"[ \t]*(?:(?:and|or|in|not[ \t]+in)(?![\w$])|[=!]=|[<>]=?|&&|\|\||[+*/%)\]])"
)
_KEYWORDS = ("FOR", "IF", "elif", "else", "END")
_KEYWORD = re.compile(
    r"(?P<word>for(?=[ \t]+\$\S+[ \t]+in\b)|(?:if|elif)\b(?=.*[:：]$)|else(?=[ \t]*[:：]$)|end$)",
    re.IGNORECASE,
)


def suggest_keyword(line: str) -> str:
    """The keyword that a line would begin with in other letters; empty when there is none."""
    found = _KEYWORD.match(line.strip())
    if found is None:
        return ""
    written = found["word"]
    word = next(it for it in _KEYWORDS if it.casefold() == written.casefold())
    return "" if word == written else word


def is_comment(line: str) -> bool:
    """Whether it begins with `#`."""
    return line.strip().startswith("#")


def is_for(line: str) -> bool:
    """Whether it is the header of a loop."""
    return line.startswith("FOR ") and (line.endswith((":", "：")) or line.startswith("FOR $"))


def is_if(line: str) -> bool:
    """Whether it is the header of an `IF`."""
    if not re.match(r"IF[ \t(]", line):
        return False
    return line.endswith((":", "(", ",")) or is_incomplete(line) or ARROW.search(line) is None


def is_incomplete(line: str) -> bool:
    """Whether a condition needs more than this line."""
    return _OPEN_END.search(line.rstrip()) is not None


def continues_condition(line: str) -> bool:
    """Whether a line can only go on with the condition of the line before it."""
    return _GOES_ON.match(line) is not None


def is_elif(line: str) -> bool:
    """Whether it is the header of an `elif`."""
    return re.match(r"elif[ \t(]", line) is not None


def ends_block(line: str) -> bool:
    """Whether a block ends before it."""
    return line == "END" or ELSE.match(line) is not None or is_elif(line)


def begins_statement(line: str) -> bool:
    """Whether a line begins a statement that is no text for the model."""
    if line == "END" or ELSE.fullmatch(line) or BREAKPOINT.match(line) or CALL.match(line):
        return True
    return line.endswith(":") and line.startswith(("FOR $", "IF ", "elif "))
