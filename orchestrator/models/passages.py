"""Which passage of a search an answer is made of: small models go on with the next ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from orchestrator.models.scope import find_subjects
from orchestrator.support.content_words import find_content_words
from orchestrator.support.sentences import QUESTION_MARK

# As the dialect writes what was found; what stands inside of it is encoded.
_OPEN, _CLOSE = "<content>\n", "\n</content>"
_SEVERAL = re.compile(
    r"\b(?:and|or|both|all|every\w*|list|und|oder|beide[ns]?|alle[sn]?|et|ou|tou[st]\w*"
    r"|y|o|amb[oa]s|tod[oa]s?)\b|[和或]",
    re.IGNORECASE,
)
_SHARE = 0.6  # of a sentence's words stand in the passage that it is made of
_FEW = 2  # words with which a sentence says too little to be compared
_STEM = 3  # letters that a word has in the singular and in the plural


class FirstPassage:
    """The passage that an answer begins with."""

    def __init__(self, question: str, result: str) -> None:
        """Begins an answer to `question` from what the search with this `result` found."""
        self._passages: Sequence[set[str]] = (
            ()
            if _asks_for_several(question)
            else [find_content_words(text) for text in _find_contents(result)]
        )
        self._subjects = _find_stems(question)
        self._first: int | None = None

    def leaves(self, sentence: str) -> bool:
        """Takes the next sentence, and says whether it goes on with what was not asked for.

        That is a sentence of another passage, without any word of the question.
        """
        words = find_content_words(sentence)
        if len(words) <= _FEW or len(self._passages) < 2:
            return False
        shares = [len(words & passage) / len(words) for passage in self._passages]
        best = max(shares)
        if best < _SHARE:
            return False
        if self._first is None:
            self._first = shares.index(best) if shares.count(best) == 1 else None
            return False
        return shares[self._first] < _SHARE and self._subjects.isdisjoint(_find_stems(sentence))


def _find_contents(result: str) -> Iterator[str]:
    for part in result.split(_OPEN)[1:]:
        text, closed, _ = part.partition(_CLOSE)
        if closed:
            yield text


def _find_stems(text: str) -> set[str]:
    return {word[:_STEM] for word in find_subjects(text)}


def _asks_for_several(question: str) -> bool:
    # After its first word: "and in Paris?" is of one.
    rest = question.split(maxsplit=1)[-1:]
    return bool(rest and _SEVERAL.search(rest[0])) or len(QUESTION_MARK.findall(question)) > 1
