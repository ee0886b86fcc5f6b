"""The days that a user named: dates are never taken from anything else.

A number in an id, in a result or in an amount is no day. What is not known to be a date here makes
the model leave the value open, and the user is asked. "A week later" moves the dates of the last
call: small models repeat them as they are. "Tomorrow" and "next week" are no dates: nobody tells a
model which day it is, and one that guesses plans for the wrong year.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import date, timedelta
from typing import NamedTuple

from orchestrator.support.numbers import NUMBER_WORDS

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

_ONE = "a an one the ein eine einen einem einer un une una"
_SHIFT = re.compile(
    r"\b(?P<count>\d{1,3}|[^\W\d_]+)\s+"
    r"(?:(?P<day>days?|tage?n?|jours?|d[ií]as?)|(?P<week>weeks?|wochen?|semaines?|semanas?)"
    r"|(?P<month>months?|monate?n?|mois|mes|meses))\s+"
    r"(?:(?P<later>later|after|später|danach|plus tard|más tarde|después)"
    r"|earlier|sooner|before|früher|vorher|davor|plus tôt|antes)\b"
    r"|\bthe\s+(?:next|following)\s+(?P<next>day|week|month)\b",
    re.IGNORECASE,
)

_SPAN = (
    r"(?:weeks?|week-?ends?|fortnights?|months?|wochen?|wochenende|monate?n?|semaines?|mois"
    r"|semanas?|mes(?:es)?)"
)
_UNIT = rf"(?:{_SPAN}|days?|tage?n?|jours?|d[ií]as?)"
_WEEKDAY = (
    r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?|(?:mon|diens|donners|frei|sams|sonn)tag"
    r"|mittwoch|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
    r"|lunes|martes|mi[ée]rcoles|jueves|viernes|s[áa]bado|domingo)"
)
# A day for those who know which one it is on. "This day" is one that was named.
_FROM_TODAY = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|heute|(?<!guten )morgen|(?:ü|ue)bermorgen|gestern"
    r"|aujourd['’]hui|demain|hoy|ma[ñn]ana|ayer)\b"
    rf"|\b(?:next|coming|n(?:ä|ae)chste\w*|kommende\w*|pr[óo]xim[oa])\s+(?:{_UNIT}|{_WEEKDAY})\b"
    rf"|\b(?:this|diese\w*|ce(?:tte)?|est[ea]|on|am)\s+(?:{_SPAN}|{_WEEKDAY})\b"
    rf"|\b{_UNIT}\s+(?:prochaine?|que\s+viene)\b"
    "|今天|明天|后天|昨天|下周|下个月|今日|明日",
    re.IGNORECASE,
)
_AFTER_TODAY = re.compile(
    rf"\b(?:in|dans|en)\s+(\d{{1,3}}|[^\W\d_]+)\s+{_UNIT}\b"
    rf"|\b(\d{{1,3}}|[^\W\d_]+)\s+{_UNIT}\s+from\s+(?:now|today)\b",
    re.IGNORECASE,
)


# Two amounts, or none: "2 weeks and 3 days later", "two days before Christmas", "not a week later".
_AMOUNT = re.compile(
    r"\b(\d{1,3}|[^\W\d_]+)\s+(?:days?|tage?n?|jours?|d[ií]as?|weeks?|wochen?|semaines?|semanas?"
    r"|months?|monate?n?|mois|mes|meses)\b",
    re.IGNORECASE,
)
_OF_SOMETHING = re.compile(r"(?:before|after|antes|después)\Z", re.IGNORECASE)
_NEGATION = re.compile(
    r"\b(?:not|no|don't|never|nicht|kein\w*|nie|pas|jamais|nunca)\b", re.IGNORECASE
)


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


class Shift(NamedTuple):
    """How far dates are moved; into the past with negative numbers."""

    days: int
    months: int

    def move(self, day: str) -> str:
        """Moves a day, which is `YYYY-MM-DD`; the 31st becomes a shorter month's last day.

        Raises:
            ValueError: There is no such day.
            OverflowError: The year has more than four digits.
        """
        found = date.fromisoformat(day)
        years, month = divmod(found.month - 1 + self.months, 12)
        year, month = found.year + years, month + 1
        moved = date(year, month, min(found.day, monthrange(year, month)[1]))
        return (moved + timedelta(self.days)).isoformat()


def counts_from_today(text: str) -> bool:
    """Whether a text without a date names a day by the day on which it is said, as "tomorrow"."""
    counts = ((one or other).casefold() for one, other in _AFTER_TODAY.findall(text))
    counted = any(_read_count(count) is not None for count in counts)
    return bool(counted or _FROM_TODAY.search(text)) and not any(find_dates([text]))


def find_shift(text: str) -> Shift | None:
    """How far a text without a date moves dates that were named before, as "two days later".

    Raises:
        ValueError: It speaks of moving them, and does not say clearly how far.
    """
    found = _SHIFT.search(text)
    if found is None or any(find_dates([text[: found.start()], text[found.end() :]])):
        return None
    if _is_unclear(text, found):
        raise ValueError("how far dates are moved is not clear")
    count = 1 if found["next"] else _read_count(found["count"].casefold())
    if count is None:
        return None
    if not found["later"] and not found["next"]:
        count = -count
    unit = found["next"] or next(name for name in ("day", "week", "month") if found[name])
    days = {"day": count, "week": 7 * count}.get(unit.casefold(), 0)
    return Shift(days, 0 if days else count)


def _is_unclear(text: str, found: re.Match[str]) -> bool:
    rest = text[: found.start()] + " " + text[found.end() :]
    of_something = _OF_SOMETHING.search(found[0]) and re.match(r"\s+\w", text[found.end() :])
    counts = [it for it in map(str.casefold, _AMOUNT.findall(rest)) if it != "the"]
    return bool(
        of_something
        or _SHIFT.search(rest)
        or any(_read_count(it) is not None for it in counts)
        or _NEGATION.search(rest)
    )


def _read_count(word: str) -> int | None:
    if word.isdigit():
        return int(word)
    if word in _ONE.split():
        return 1
    return next((names.index(word) for names in NUMBER_WORDS if word in names), None)


def is_date(value: object) -> bool:
    """Whether a value is a day as YYYY-MM-DD."""
    return isinstance(value, str) and _ISO.fullmatch(value) is not None
