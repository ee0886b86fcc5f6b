"""Which passage of a search an answer tells: small models go on with the next ones."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.support.content_words import find_content_words

# As the dialect writes what was found; what stands inside of it is encoded.
_CONTENT = re.compile(r"<content>\n(.*?)\n</content>", re.DOTALL)
_SEVERAL = re.compile(
    r"\b(?:and|all|every\w*|list|und|alle[sn]?|et|tou[st]\w*|y|tod[oa]s?)\b|和", re.IGNORECASE
)
_QUESTION = re.compile("[?？]")
_SHARE = 0.6  # of a sentence's words stand in the passage that it tells
_FEW = 2  # words with which a sentence says too little to be compared


class ToldPassage:
    """Finds the sentences of an answer that tell another passage than its beginning."""

    def __init__(self, question: str, result: str) -> None:
        """Begins an answer to `question` of what the search with this `result` found."""
        self._passages: Sequence[set[str]] = (
            ()
            if _asks_for_several(question)
            else [find_content_words(text) for text in _CONTENT.findall(result)]
        )
        self._told: int | None = None

    def leaves(self, sentence: str) -> bool:
        """Takes the next sentence, and says whether it tells another passage."""
        words = find_content_words(sentence)
        if len(words) <= _FEW or len(self._passages) < 2:
            return False
        shares = [len(words & passage) / len(words) for passage in self._passages]
        best = max(shares)
        if best < _SHARE:
            return False
        if self._told is None:
            self._told = shares.index(best) if shares.count(best) == 1 else None
            return False
        return shares[self._told] < _SHARE


def _asks_for_several(question: str) -> bool:
    # After its first word: "and in Paris?" is of one.
    rest = question.split(maxsplit=1)[-1:]
    return bool(rest and _SEVERAL.search(rest[0])) or len(_QUESTION.findall(question)) > 1
