r"""The patterns of AWS's models, matched by Python: all of the text, as Java's `matches` does.

Three things are not as the models say. Unicode's categories (`\p{C}`) are not Python's, and are
translated; `.` is any character. One pattern has `/d` where digits were meant, and would refuse
every ARN. Some take a time that grows with the square of the text's length, or worse; a text for
such a one is never longer than 2,048, so that none costs more than milliseconds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

_DIGITS = re.compile(r"/d(?=[{+*])")
_CATEGORY_C = (r"\P{C}", r"[^\p{C}]")
_ONE_CLASS = re.compile(r"\^?(\(\?!\\s\*\$\))?(\[[^\]]*\]|\.|\\[sSdDwW])[*+]\$?")
_LONGEST = 2048


@cache
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """What says whether a text matches a pattern of a model."""
    translated = _DIGITS.sub(r"\\d", pattern)
    if any(text in pattern for text in _CATEGORY_C):
        for text in _CATEGORY_C:
            translated = translated.replace(text, r"[^\0]")
        match = re.compile(translated, re.DOTALL).fullmatch
        return lambda text: match(_without_category_c(text)) is not None
    match = re.compile(translated, re.DOTALL).fullmatch
    if _ONE_CLASS.fullmatch(pattern):
        return lambda text: match(text) is not None
    return lambda text: len(text) <= _LONGEST and match(text) is not None


def _without_category_c(text: str) -> str:
    """The text with NUL for what is in Unicode's category C: control, format, unassigned."""
    if text.isprintable():
        return text
    return "".join("\0" if unicodedata.category(each)[0] == "C" else each for each in text)
