"""The days that a user named: dates are never taken from anything else.

A number in an id, in a result or in an amount is no day. What is not known to be a date here makes
the model leave the value open, and the user is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_ISO = re.compile(r"(?<![\d-])\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?![\d-])")
# `8.3.`, `3/8/2027`, `08-03-2027`: which number is the day, the model has to know.
_NUMERIC = re.compile(
    r"(?<![\w./-])(?P<one>\d{1,2})(?P<mark>[./-])(?P<two>\d{1,2})(?:(?P=mark)(?:\d{4}|\d\d)?)?(?![\w/-])"
)
_DAY = re.compile(
    r"(?<![^\s(,–-])(?<![^\W\d_]-)(?P<day>\d{1,2})(?P<mark>st|nd|rd|th|er|\.|º|ª)?(?![\w%€$£:/]|[.,]\d)"
    r"(?:\s*(?P<next>[^\W\d_]+))?"
)
_ASIAN_DAY = re.compile("(?<!\\d)(\\d{1,2})\\s*[日号號일]")
# A word after a bare number that does not make it an amount.
_JOINTS = frozenset(
    "to until till through and or of in at on for as please next this the then"
    " bis und oder im am der des de du au et à al a y e o bis til tot en".split()
)
_SHORT = 4  # words of an input that is a date and nothing else


class UserDates(NamedTuple):
    """The dates of a conversation."""

    whole: tuple[str, ...]  # as YYYY-MM-DD
    days: tuple[int, ...]  # days of a month, where the rest was said in another way


def find_dates(texts: Iterable[str]) -> UserDates:
    """The dates that the texts name."""
    whole: dict[str, None] = {}
    days: set[int] = set()
    for text in texts:
        whole.update(dict.fromkeys(_ISO.findall(text)))
        days.update(_find_days(_ISO.sub(" ", text)))
    return UserDates(tuple(whole), tuple(sorted(day for day in days if 1 <= day <= 31)))


def _find_days(text: str) -> Iterable[int]:
    for found in _NUMERIC.finditer(text):
        yield from (int(found["one"]), int(found["two"]))
    yield from map(int, _ASIAN_DAY.findall(text))
    for found in _DAY.finditer(text):
        following = found["next"] or ""
        if found["mark"] or not following or _may_follow(following):
            yield int(found["day"])


def _may_follow(word: str) -> bool:
    # Months have capitals, or are short words here.
    return word[0].isupper() or word.lower() in _JOINTS or word.lower() in _MONTHS


_MONTHS = frozenset(
    "january february march april may june july august september october november december"
    " jan feb mar apr jun jul aug sep sept oct nov dec"
    " januar februar märz mai juni juli oktober dezember"
    " janvier février mars avril juin juillet août septembre octobre novembre décembre"
    " enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
    .split()
)  # fmt: skip
