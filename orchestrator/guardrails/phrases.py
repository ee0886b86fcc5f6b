"""Finding words and phrases in a text, however they are spelled, spaced and punctuated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from orchestrator.guardrails.fold import FoldedText, letters

# Signs in a row that may stand between the words of a phrase: `insider **trading**`.
_SKIPPED = 3

_END = ""  # no word is empty


class PhraseMatch(NamedTuple):
    """A phrase in a text."""

    phrase: str
    start: int  # where it begins in the text as it was written
    end: int  # one past its last character


@cache
def _words() -> re.Pattern[str]:
    # Scripts that are written without spaces have a word a character; in others a sign that is no
    # ordinary punctuation is a word, so that C++ and C# are not C.
    unspaced = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    unspaced += "\U00020000-\U0003ffff"
    return re.compile(
        rf"[{unspaced}]|[^\W_{unspaced}]+"
        r"|[^\w\s\-.,;:!?'\"()\[\]{}/‐-―‘’“”…«»¡¿、。・]"
    )


def words_of(text: str) -> list[str]:
    """The words of a phrase, as they are compared."""
    return _words().findall(letters(text).text)


class Words:
    """A text's words, read once for all lists of phrases.

    `reading` is the text as words are compared; `places` has each word, its start and its end.
    """

    def __init__(self, text: str) -> None:
        self.reading: FoldedText = letters(text)
        found = _words().finditer(self.reading.text)
        self.places = [(it[0], it.start(), it.end()) for it in found]


class Phrases:
    """A list of phrases, found in linear time. `longest`: letters and digits of the longest."""

    def __init__(self, phrases: Iterable[str]) -> None:
        """Raises `ValueError` when a phrase has no words."""
        self._tree: dict[str, Any] = {}
        self.longest = 0
        for phrase in phrases:
            node = self._tree
            words = words_of(phrase)
            if not words:
                raise ValueError(f"{phrase!r} has no word in it")
            for word in words:
                node = node.setdefault(word, {})
            node.setdefault(_END, phrase)
            self.longest = max(self.longest, sum(map(len, words)))

    def __bool__(self) -> bool:
        return bool(self._tree)

    def find(self, words: Words) -> Iterator[PhraseMatch]:
        """The phrases in a text, the longest at each place."""
        if not self._tree:
            return
        for first, (word, start, _) in enumerate(words.places):
            if word in self._tree and (found := self._longest(words.places, first)):
                phrase, end = found
                yield PhraseMatch(phrase, *words.reading.span(start, end))

    def _longest(self, places: list[tuple[str, int, int]], first: int) -> tuple[str, int] | None:
        node, found, skipped = self._tree, None, 0
        for index in range(first, len(places)):
            word, _, end = places[index]
            if word in node:
                node, skipped = node[word], 0
            elif len(word) == 1 and not word.isalnum() and skipped < _SKIPPED:
                skipped += 1
                continue
            else:
                break
            if _END in node:
                found = node[_END], end
        return found
