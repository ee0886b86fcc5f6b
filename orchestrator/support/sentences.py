"""Where sentences end."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Possessive: a long row of marks is gone through once. A title goes with the name after it.
SENTENCE_END = re.compile(
    r"(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bProf)[.!?]++[\"')\]”»]*+\s++|[。！？]++[”」》]*+\s*+|\n++"
)
"""A sentence's last marks, with the blanks after them."""

QUESTION_MARK = re.compile("[?？؟]")

_DAY = re.compile(r"(?<!\d)\d{1,2}\. $")
_LETTERS = re.compile(r"[^\W\d_]{2}|[\u3040-\u30ff\u4e00-\u9fff]")


def find_sentences(text: str) -> Iterator[tuple[int, int]]:
    """The spans of a text's sentences, without the blanks around them.

    What has no word of two letters goes with the sentence after it: the number of a list's entry,
    the halves of `z. B.`; and so does what goes on with a small letter (`approx. two days`), or
    after a number that may be a day's (`3. Mai`).
    """
    start = read = 0
    has_word = False
    for end in SENTENCE_END.finditer(text):
        has_word = has_word or _LETTERS.search(text, read, end.end()) is not None
        read = end.end()
        if has_word and not _goes_on(text, start, end):
            yield from _strip(text, start, read)
            start, has_word = read, False
    yield from _strip(text, start, len(text))


def _goes_on(text: str, start: int, end: re.Match[str]) -> bool:
    if "\n" in end[0]:
        return False
    follows = text[end.end() : end.end() + 1]
    return follows.islower() or bool(_DAY.search(text, max(end.start() - 3, start), end.end()))


def _strip(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    found = text[start:end].strip()
    if found:
        start = text.index(found, start)
        yield start, start + len(found)
