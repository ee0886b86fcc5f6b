"""Lines of a Prompty body that the author meant as marks of roles, and that are none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from orchestrator.diagnostics import Diagnostic
from orchestrator.prompts.languages.prompty.markers import Marks

__all__ = ["find_misspelt_marks"]

_COMMENT = re.compile(r"\{#.*?#\}|\{%.*?%\}", re.DOTALL)
_PRINTED = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_MEANT = re.compile(r"[^\S\n]*+(?:#[^\S\n]*+)?([A-Za-z]\w*+)[^\S\n]*+(\[[^\n]*+|:[^\S\n]*+)")
_CLOSE = 0.7
_WORDS = frozenset(("read", "steam", "stem", "toll", "use", "used", "uses"))
# Words that are near to roles, and begin lists in prompts.


def find_misspelt_marks(
    body: str, line: int, marks: Marks, others: Sequence[str], source: str | None
) -> Iterator[Diagnostic]:
    """What is said against lines that are nearly marks: their text is that of the message before.

    Args:
        body: The template's body.
        line: The line of the file that it begins in.
        marks: The marks of its dialect.
        others: Roles that only the other dialect has.
        source: The file, for messages.
    """
    is_data = False
    for at, text in enumerate(_blank_tags(body).split("\n")):
        if opened := marks.parse_role_line(text):
            is_data = opened[1]
            continue
        found = None if is_data else _MEANT.fullmatch(text)
        if found is None:
            continue
        doubt = _suggest_mark(found[1].lower(), found[2], marks.roles, others)
        if doubt is not None:
            yield Diagnostic(
                severity="warning",
                code="misspelt-mark",
                message=f"{text.strip()[:80]!r} is no role's mark; it is text of the message that "
                "it stands in",
                suggestion=doubt,
                file=source,
                line=line + at,
                column=len(text) - len(text.lstrip()) + 1,
            )


def _suggest_mark(word: str, rest: str, roles: Sequence[str], others: Sequence[str]) -> str | None:
    """What may be meant, where a line is nearly a mark."""
    has_attributes = rest.startswith("[")
    if has_attributes and "=" not in rest and not rest.rstrip().endswith(":"):
        return None
    if word in roles:
        return f'write it as {word}[name="value"]: in a line of its own'
    if word in others:
        return f"the other dialect has the role {word!r}"
    if word in _WORDS:
        return None
    close = get_close_matches(word, roles, n=1, cutoff=_CLOSE)
    return f"did you mean '{close[0]}:'?" if close else None


def _blank_tags(body: str) -> str:
    """A body without its tags, whose lines are where they were."""
    body = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), body)
    return _PRINTED.sub(lambda found: "x" + "\n" * found[0].count("\n"), body)
