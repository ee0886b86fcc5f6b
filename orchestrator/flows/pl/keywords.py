"""What a line of a program is, by its first words: a keyword, a call, or text for the model."""

from __future__ import annotations

import re

from orchestrator.flows.pl.calls import CALL

__all__ = [
    "ARROW",
    "BREAKPOINT",
    "ELSE",
    "WRONG_ARROW",
    "begins_statement",
    "ends_block",
    "is_comment",
    "is_elif",
    "is_for",
    "is_if",
    "is_incomplete",
    "suggest_keyword",
]

ARROW = re.compile(r"(?P<arrow>->|>>)[ \t]*\$?(?P<name>[A-Za-z_]\w*)[ \t]*$", re.ASCII)
WRONG_ARROW = re.compile(r"(?:->|>>)[ \t]*(?P<name>\$?[^\s$]+)[ \t]*$")
"""An arrow at a line's end that is none, when `ARROW` finds none: what it names is no variable."""

BREAKPOINT = re.compile(r"@?\((?:bp)\)\s*$")
ELSE = re.compile(r"else[ \t]*[:：]")
_OPEN_END = re.compile(r"(?:(?<![\w$.])(?:IF|elif|and|or|not|in)|[=<>&|+*/%!-])$")
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
