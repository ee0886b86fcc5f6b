"""Citations of answers whose model cannot cite: by comparing their sentences with what was found.

A sentence is attributed to a passage when one sentence of that has each number and id of it, and
most of its words, and no part of the one denies what the other says. Words are compared, so that
`before` can't be told from `after`, and nothing is found where the languages differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

from orchestrator.support.content_words import find_content_words
from orchestrator.support.numbers import find_numbers
from orchestrator.support.sentences import find_sentences

SHARE = 0.6
"""How many of a sentence's words have to stand in a sentence of the passage."""

# Bounds of the work, a quarter of a second: characters of an answer, and of all passages together.
_MOST_ANSWER = 5_000
_MOST_FOUND = 30_000
_MOST_SOURCES = 3  # of one sentence

_FEW = 1  # content words with which a sentence says too little to be compared alone

_ID = re.compile(r"(?<![a-z0-9_-])(?=[a-z_-]{0,60}\d)(?=[\d_-]{0,60}[a-z])[a-z0-9_-]++")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_CLAUSE = re.compile(
    r"[.!?;:,]\s|[。！？；：，、\n]|\s(?:[-–—]|and|or|but|und|oder|aber|sondern|et|ou|mais|y|o|pero)\s"
)
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|cannot|neither|nor|without|nicht|nichts|nie|niemals|"
    r"niemand|kein\w{0,2}|ohne|weder|ne|pas|jamais|aucune?|sans|nunca|nadie|ning[uú]n\w?|sin)\b"
    r"|n['’]t\b|[不没無无未勿]"
)
# What a passage's first line says that is no sentence is said of all that follows.
_TITLE = re.compile(r"[^\n]{1,200}(?<![.!?:;。！？：；\s])\s*\n\s*\n")
# A line that goes on, and is no heading, entry of a list or row of a table.
_LINE_BREAK = re.compile(r"(?<!\n)\n(?![\n#*|>\d-])")
# Words that say nothing about the subject, by their first letters, in English and German.
_COMMON = frozenset(
    "able about above after again along also among answe aroun because becau been befor behin "
    "being below betwe both could curre does durin each even ever every find first follo from "
    "give have havin hello help here howev inclu info infor into just kind know like made make "
    "many menti more most much must need once only other over part pleas regar said same says "
    "shall shoul some sorry speci such sure take tell than thank that their them then there these "
    "they thing this those throu today told under until upon used using very want well were what "
    "when where which while will with withi witho would your yours "
    "aber alle aller allen alles also ander auch außer beim bitte danac dann dass dafür damit "
    "danke daran darau darum davon dazu dein deine denen denn deren desse dich diese doch durch "
    "eine einem einen einer eines etwas euch euer gegen habe haben hast hatte hier hinte ihnen "
    "ihre immer innen inner jeden jeder jedes kann kein könne manch mehr mein meine mich muss "
    "müsse nach nachd nicht noch oder ohne schon sehr sein seine seite sich sind soll sollt sonde "
    "sonst sowie über unser unter viel viele wann ware weil welch wenig wenn werde wiede wird "
    "wohl würde wurd zwar zwisc".split()
)


def attribute(
    text: str, question: str, sources: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The parts of an answer that say what a source says, as `generatedResponseParts`.

    Neighbouring sentences of the same sources are one part. `question` is what was asked: an answer
    may leave out what it is about.
    """
    passages = [*_read_passages(sources)]
    if not passages:
        return []
    found = [
        (_find_sources(text[start:end], question, passages), start, end)
        for start, end in find_sentences(text[:_MOST_ANSWER])
    ]
    parts = []
    for ids, group in groupby(found, itemgetter(0)):
        sentences = [*group]
        if ids:
            references = [{"sourceId": id} for id in ids]
            said = text[sentences[0][1] : sentences[-1][2]]
            parts.append({"text": said, "references": references})
    return parts


def _read_passages(sources: Mapping[str, Mapping[str, Any]]) -> Iterator[_Passage]:
    left = _MOST_FOUND
    for id, source in sources.items():
        text = source["content"].get("text") or ""
        if left > 0 and text:
            yield _Passage(id, text[:left])
            left -= len(text)


def _find_sources(sentence: str, question: str, passages: Sequence[_Passage]) -> tuple[str, ...]:
    if sentence.rstrip("\"')]”»」》").endswith(("?", "？")):
        return ()  # a question says nothing
    statement = _Statement(sentence, question)
    if not statement.asserts or len(statement.words) <= _FEW:
        return ()
    shares = [(passage.measure(statement), passage.id) for passage in passages]
    best = max(share for share, _ in shares)
    return tuple(id for share, id in shares if share == best >= SHARE)[:_MOST_SOURCES]


def _find_words(text: str) -> set[str]:
    return find_content_words(text, shortest=4) - _COMMON


class _Text:
    """What is compared of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = _find_words(text)
        self.numbers = [*find_numbers(text)]
        self.ids = {
            found for found in _ID.findall(text.casefold()) if not _ORDINAL.fullmatch(found)
        }

    @cached_property
    def clauses(self) -> list[tuple[set[str], bool]]:
        """The words of each clause, and whether it denies something."""
        clauses = filter(None, _CLAUSE.split(self.text))
        return [(_find_words(one), bool(_DENIAL.search(one.casefold()))) for one in clauses]


class _Statement(_Text):
    """A sentence of an answer."""

    def __init__(self, sentence: str, question: str) -> None:
        super().__init__(sentence)
        self.asserts = bool(self.words or self.numbers or self.ids)
        if len(self.words) <= _FEW:
            self.words |= _find_words(question)


class _Passage:
    """What was found: its words, and its sentences."""

    def __init__(self, id: str, text: str) -> None:
        self.id = id
        self._text = _LINE_BREAK.sub(" ", text)
        self._words = _find_words(text)

    @cached_property
    def _sentences(self) -> list[_Text]:
        found = [_Text(self._text[start:end]) for start, end in find_sentences(self._text)]
        title = found.pop(0).words if found and _TITLE.match(self._text) else set()
        sentences = [one for one in found if one.words]  # a title alone says nothing
        for one in sentences:
            one.words |= title
        return sentences

    def measure(self, statement: _Statement) -> float:
        """The share of a statement's words that the passage has; 0 where it says otherwise."""
        if _share(statement, self._words) < SHARE:
            return 0
        best = 0.0
        for sentence in self._sentences:
            best = max(best, _compare(statement, sentence))
            if best == 1:
                break
        return best


def _share(statement: _Statement, words: set[str]) -> float:
    return len(statement.words & words) / len(statement.words)


def _compare(statement: _Statement, sentence: _Text) -> float:
    share = _share(statement, sentence.words)
    if share < SHARE or not statement.ids <= sentence.ids:
        return 0
    if not all(any(one.matches(other) for other in sentence.numbers) for one in statement.numbers):
        return 0
    return share if all(_agrees(*clause, sentence) for clause in statement.clauses) else 0


def _agrees(words: set[str], denies: bool, sentence: _Text) -> bool:
    """Whether what is nearest to a clause denies something exactly if the clause does."""
    shared = [(len(words & others), denial) for others, denial in sentence.clauses]
    most = max((count for count, _ in shared), default=0)
    return not most or (most, denies) in shared
