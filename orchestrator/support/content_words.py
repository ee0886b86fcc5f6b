"""What a text is about, as far as its words tell."""

from __future__ import annotations

import re

# The beginnings of its longer words; of scripts without spaces, pairs.
_PATTERN = (
    r"(?<![^\W_])[^\W\d_\u3040-\u30ff\u4e00-\u9fff]{%s,5}|(?=([\u3040-\u30ff\u4e00-\u9fff]{2}))"
)
_WORDS = {
    3: re.compile(_PATTERN % "3"),
    4: re.compile(_PATTERN % "4"),
    5: re.compile(_PATTERN % "5"),
}


def find_content_words(text: str, *, shortest: int = 5) -> set[str]:
    """The first five letters of each longer word; of Chinese and Japanese, each two letters.

    `shortest`: the letters of the shortest word that counts, from 3 to 5. Of those of four many say
    nothing of a subject (`with`), and of those of three most.
    """
    return {found[0] or found[1] for found in _WORDS[shortest].finditer(text.casefold())}
