"""Where a template uses its inputs first."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["first_uses"]

_TAG = re.compile(r"\{\{(?:(?!\{\{).)*?\}\}|\{%(?:(?!\{%).)*?%\}", re.DOTALL)
_WORD = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|(?<![.\w])[A-Za-z_]\w*")


def first_uses(text: str, names: Collection[str], line: int = 1) -> dict[str, tuple[int, int]]:
    """The line and column of each name's first use, in the order of these uses.

    Args:
        text: The template, whose tags are `{{ }}` and `{% %}`.
        names: The names of its inputs.
        line: The number of the text's first line.
    """
    found: dict[str, tuple[int, int]] = {}
    for tag in _TAG.finditer(text):
        for word in _WORD.finditer(tag[0]):
            if word[0] in names and word[0] not in found:
                at = tag.start() + word.start()
                column = at - text.rfind("\n", 0, at)
                found[word[0]] = line + text.count("\n", 0, at), column
    return found
