"""What a text is about, as far as its words tell."""

from __future__ import annotations

import re

# The beginnings of its longer words; of scripts without spaces, pairs.
_PATTERN = (
    r"(?<![^\W_])[^\W\d_\u3040-\u30ff\u4e00-\u9fff]{%s}|(?=([\u3040-\u30ff\u4e00-\u9fff]{2}))"
)
_LONG = re.compile(_PATTERN % "5")
_MEDIUM = re.compile(_PATTERN % "4,5")


def find_content_words(text: str, *, medium: bool = False) -> set[str]:
    """The first five letters of each longer word; of Chinese and Japanese, each two letters.

    `medium`: words of four letters, too, of which many say nothing of a subject (`with`).
    """
    pattern = _MEDIUM if medium else _LONG
    return {found[0] or found[1] for found in pattern.finditer(text.casefold())}
