"""What an answer says that nobody has said: numbers, days, weekdays and ids.

Only what can be compared exactly is looked at, so a verdict needs no model. A day is the same
however it is written (`2027-07-12`, `12 July`, `July 12th`, `12.7.`, `7月12日`), and so are a
number (`23800`, `23,800.00`, `23.800`) and a weekday in another language. Numbers up to twelve
are free: people count with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from orchestrator.errors import ValidationError
from orchestrator.support.numbers import drop_list_marks, spell_number

LARGEST_FREE_NUMBER = 12
# What is looked at: of an answer, and of all that was said and found before it.
MOST_STATED_CHARS = 100_000
MOST_KNOWN_CHARS = 1_000_000

_MONTHS = {
    number: names
    for number, names in enumerate(
        (
            "january|januar|jan",
            "february|februar|feb",
            "march|märz|maerz|mar",
            "april|apr",
            # "You may 12 times" is no date.
            "(?-i:May|MAY)|mai",
            "june|juni|jun",
            "july|juli|jul",
            "august|aug",
            "september|sept|sep",
            "october|oktober|oct|okt",
            "november|nov",
            "december|dezember|dec|dez",
        ),
        1,
    )
}
_MONTH = "(?:" + "|".join(_MONTHS.values()) + r")(?![^\W\d_])\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th|\.)?"
_TO = r"\s*(?:-|–|—|to|through|until|till|and|bis|und)\s*(?:the\s+|zum\s+)?"
_ALONE = r"(?<![\d.,])(?<![a-z]-)"

_ISO_DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_DAY_MONTH = re.compile(rf"{_ALONE}{_DAY}(?:{_TO}{_DAY})?\s*(?:of\s+|-)?({_MONTH})", re.IGNORECASE)
_MONTH_DAY = re.compile(
    rf"(?<![^\W\d_])({_MONTH})[\s-]*(?:the\s+)?{_DAY}(?!\d)(?:{_TO}{_DAY}(?![\d.-]))?"
    r"(?!\s*(?:working |vacation )?days?\b)",
    re.IGNORECASE,
)
_DOTTED_DAY = re.compile(
    # At a sentence's end `12.5.` is a number.
    r"(?<![\d.])(\d{1,2})\.\s?(\d{1,2})\.(?=\s?\d{4}(?!\d)|\s*[^\s\d])"
)
_SLASHED_DAY = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(?=\d{4}(?!\d))")
_CHINESE_DAY = re.compile(r"(\d{1,2})\s*月\s*(\d{1,2})\s*[日号]")

_WEEKDAY_NAMES = (
    "monday|montag",
    "tuesday|dienstag",
    "wednesday|mittwoch",
    "thursday|donnerstag",
    "friday|freitag",
    "saturday|samstag|sonnabend",
    "sunday|sonntag",
)
_WEEKDAYS = [
    re.compile(rf"(?<![^\W\d_])(?:{names})|(?:星期|周|礼拜)(?:{chinese})", re.IGNORECASE)
    for names, chinese in zip(
        _WEEKDAY_NAMES, ("一", "二", "三", "四", "五", "六", "日|天"), strict=True
    )
]
_MOST_CODES = 8  # of one id
_CODE = "[a-z0-9]{0,20}[0-9][a-z0-9]{0,20}"
_ID = re.compile(
    rf"(?<![a-z0-9-])([a-z]{{1,20}})-({_CODE}(?:-{_CODE}){{0,{_MOST_CODES - 1}}})", re.IGNORECASE
)
_WORD = re.compile("[a-z0-9]+")
_LETTERS_CODE = re.compile("([a-z]{1,20})([0-9][a-z0-9]*)")
_SEPARATOR = re.compile(r"[\s#-]+")
_LONG_NUMBER = re.compile(r"(?<![\w-])\d{3,}")
_NUMBER = re.compile(r"\d+(?:[.,' ’\u00a0\u202f]\d+)*")
_CENTS = re.compile(r"[.,](\d{1,2})$")

# "12. Juli" is one sentence.
_SENTENCE = re.compile(rf"(?<=[.!?])\s+(?!{_MONTH})|(?<=[。！？])|\n+", re.IGNORECASE)
_REQUEST = re.compile(
    r"[?？]|\bplease (?:tell|give|provide|name|specify|enter|share|send|confirm)\b|\blet me know\b"
    r"|\bbitte (?:nenn|geb|gib|sag|teil|bestätig)|请(?:提供|告诉|告知|确认|输入)",
    re.IGNORECASE,
)


def find_questions(text: str) -> list[str]:
    """The sentences of a text that ask something of the user, as a question or a request."""
    return [sentence for sentence in _SENTENCE.split(text) if _REQUEST.search(sentence)]


def find_inventions(answer: str, given: Iterable[str]) -> list[str]:
    """What an answer states and none of the texts in `given` says, in the answer's own spelling.

    What stands in a question to the user is no statement.

    Raises:
        ValidationError: The answer, or what was said before it, is too long to be looked at.
    """
    said = "\n".join(given)
    for what, text, most in (
        ("the answer", answer, MOST_STATED_CHARS),
        ("what was said and found before it", said, MOST_KNOWN_CHARS),
    ):
        if len(text) > most:
            raise ValidationError(
                f"{what} has {len(text):,} characters, and 'grounded' looks at {most:,} at most"
            )
    known = Facts.read(said)
    sentences = _SENTENCE.split(drop_list_marks(answer))
    stated = "\n".join(one for one in sentences if not _REQUEST.search(one))
    return list(dict.fromkeys(known.find_unknown(stated)))


class Day(NamedTuple):
    """Where a text names a day, without its year."""

    start: int
    end: int
    name: str
    meanings: frozenset[tuple[int, int]]  # (month, day); `1/2/2027` has two


@dataclass
class Facts:
    """What texts have said."""

    ids: set[str] = field(default_factory=set)  # in lower case, as `claim-857`
    long_numbers: set[str] = field(default_factory=set)  # that may be an id without its letters
    days: set[tuple[int, int]] = field(default_factory=set)  # (month, day)
    weekdays: set[int] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, text: str) -> Facts:
        """The facts of a text."""
        facts = cls(set(_read_ids(text.lower())), set(_LONG_NUMBER.findall(text)))
        # Users write months as they like; the dot ends a day at the very end of the text.
        for day in _find_days(re.sub(r"\bmay\b", "May", text) + "\n."):
            facts.days |= day.meanings
        facts.weekdays = {number for number, _ in _find_weekdays(text)}
        for number in _NUMBER.findall(text):
            facts.numbers |= {*_spell(number), *_runs(number)}
        return facts

    def find_unknown(self, text: str) -> Iterator[str]:
        """What a text says besides these facts."""
        days = list(_find_days(text))
        yield from (day.name for day in days if not day.meanings & self.days)
        rest = _blank(text, days)
        yield from (day for number, day in _find_weekdays(rest) if number not in self.weekdays)
        for found in _ID.finditer(rest):
            if not self._knows_id(*found.groups()):
                yield found[0]
        for number in _NUMBER.findall(_ID.sub(" ", rest)):
            if not self._knows_number(number):
                yield number

    def _knows_id(self, letters: str, rest: str) -> bool:
        # `claim-857` is also what a user means who says "claim 857", "Claim #857" or "857".
        return f"{letters}-{rest}".lower() in self.ids or rest in self.long_numbers

    def _knows_number(self, number: str) -> bool:
        if self._knows(_spell(number)):
            return True
        # `5550 1214` is the end of a telephone number, but `13.5` is not said by 13 and 5.
        return "." not in number and all(self._knows({run}) for run in _runs(number))

    def _knows(self, spellings: set[str]) -> bool:
        return any(one in self.numbers or float(one) <= LARGEST_FREE_NUMBER for one in spellings)


def _read_ids(text: str) -> Iterator[str]:
    """The ids of a text in lower case, and what longer ones begin with: `v-15` of `V 15-2`.

    Word by word, and not by a pattern: each id would have many ways to match it.
    """
    words = list(_WORD.finditer(text))
    gaps = [text[one.end() : two.start()] for one, two in pairwise(words)]
    gaps.append("")
    for place, word in enumerate(words):
        if found := _LETTERS_CODE.fullmatch(word[0]):  # `claim857`
            yield from _extend_id(f"{found[1]}-{found[2]}", place, words, gaps)
        elif word[0].isalpha() and _SEPARATOR.fullmatch(gaps[place]):
            yield from _extend_id(f"{word[0]}-{words[place + 1][0]}", place + 1, words, gaps)


def _extend_id(
    name: str, place: int, words: Sequence[re.Match[str]], gaps: Sequence[str]
) -> Iterator[str]:
    """An id that ends with the word at a place, and with each of the codes that follow it."""
    if not any(character.isdigit() for character in words[place][0]):
        return
    yield name
    for _ in range(_MOST_CODES - 1):
        if gaps[place] != "-":
            return
        place += 1
        name = f"{name}-{words[place][0]}"
        yield name


def _blank(text: str, days: Iterable[Day]) -> str:
    """A text with spaces instead of its days."""
    pieces, end = [], 0
    for day in sorted(days, key=lambda it: it.start):
        pieces += [text[end : day.start], " " * (day.end - day.start)]
        end = day.end
    return "".join([*pieces, text[end:]])


def _spell(number: str) -> set[str]:
    """A number without separators; with decimals it is that number and no other.

    Stricter than `support.numbers.find_numbers`, for which `1.200` may be 1.2, too. And it has
    digits in groups of any size, such as those of telephone numbers.
    """
    cents = _CENTS.search(number)
    whole = number[: cents.start()] if cents else number
    return {spell_number(re.sub(r"\D", "", whole), cents[1] if cents else "")}


def _runs(number: str) -> set[str]:
    return {spell_number(run) for run in re.findall(r"\d+", number)}


def _find_weekdays(text: str) -> Iterator[tuple[int, str]]:
    for number, weekday in enumerate(_WEEKDAYS):
        if found := weekday.search(text):
            yield number, found[0]


def _find_days(text: str) -> Iterator[Day]:
    taken: set[int] = set()
    for day in _read_days(text):
        place = range(day.start, day.end)
        if taken.isdisjoint(place):
            taken.update(place)
            yield day


def _read_days(text: str) -> Iterator[Day]:
    for found in _ISO_DAY.finditer(text):
        # The year is a number like others.
        yield _day(found, found.start(2), found.end(3), (int(found[2]), int(found[3])))
    for found in _CHINESE_DAY.finditer(text):
        yield _day(found, *found.span(), (int(found[1]), int(found[2])))
    for found in _DAY_MONTH.finditer(text):
        yield from _read_range(found, month=3, days=(1, 2))
    for found in _MONTH_DAY.finditer(text):
        yield from _read_range(found, month=1, days=(2, 3))
    for pattern in (_DOTTED_DAY, _SLASHED_DAY):
        for found in pattern.finditer(text):
            one, other = int(found[1]), int(found[2])
            yield _day(found, *found.span(), (one, other), (other, one))


def _read_range(found: re.Match[str], *, month: int, days: tuple[int, int]) -> Iterator[Day]:
    name = found[month].rstrip(".")
    number = next(n for n, names in _MONTHS.items() if re.fullmatch(names, name, re.IGNORECASE))
    for group in days:
        if found[group]:
            day = _day(found, *found.span(group), (number, int(found[group])))
            yield day._replace(name=day.name.rstrip("."))


def _day(found: re.Match[str], start: int, end: int, *meanings: tuple[int, int]) -> Day:
    return Day(start, end, found[0].strip(), frozenset(meanings))
