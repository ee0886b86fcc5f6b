"""The numbers that a text says, in digits or in words, and what they count.

Two checks of answers have patterns of their own, since they compare other things; they say which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_DIGITS = re.compile(r"\d+(?:[,.'\u202f\u00a0 ]\d{3}(?!\d))*(?:[.,]\d+)?")
_THOUSANDS = re.compile(r"\d{1,3}(?:[,.'\u202f\u00a0 ]\d{3})+")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CHINESE = re.compile(r"[一二三四五六七八九十百千万两]+")
# `\s` at the line's beginning would go over all empty lines, again from each of them.
_LIST_MARK = re.compile(r"^[^\S\n]*\d{1,3}[.)]\s", re.MULTILINE)

_SMALL = (
    "two second twice zwei zweite zweiten deux dos",
    "three third drei dritte dritten trois tres",
    "four fourth vier vierte vierten quatre cuatro",
    "five fifth fünf fünfte fünften cinq cinco",
    "six sixth sechs sechste sechsten seis",
    "seven seventh sieben siebte siebten sept siete",
    "eight eighth acht achte achten huit ocho",
    "nine ninth neun neunte neunten neuf nueve",
    "ten tenth zehn zehnte zehnten dix diez",
    "eleven eleventh elf elfte elften onze once",
    "twelve twelfth zwölf zwölfte zwölften douze doce",
    "thirteen dreizehn treize trece",
    "fourteen vierzehn quatorze catorce",
    "fifteen fünfzehn quinze quince",
    "sixteen sechzehn seize",
    "seventeen siebzehn",
    "eighteen achtzehn",
    "nineteen neunzehn",
)
# Those up to twelve, from zero, by language.
NUMBER_WORDS = (
    *("zero one two three four five six seven eight nine ten eleven twelve".split(),),
    *("null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split(),),
    *("zéro un deux trois quatre cinq six sept huit neuf dix onze douze".split(),),
    *("cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce".split(),),
    tuple("零一二三四五六七八九十"),
)
_TENS = (
    "twenty zwanzig vingt veinte",
    "thirty dreißig dreissig trente treinta",
    "forty vierzig quarante cuarenta",
    "fifty fünfzig cinquante cincuenta",
    "sixty sechzig soixante sesenta",
    "seventy siebzig",
    "eighty achtzig",
    "ninety neunzig",
)
# `hundred` and `thousand` stand for themselves: both texts have them, or the digits.
_LARGE = {"hundred": 100, "hundert": 100, "thousand": 1000, "tausend": 1000, "million": 1_000_000}
_CHINESE_DIGITS = {sign: value for value, sign in enumerate("一二三四五六七八九", 1)} | {"两": 2}

# What numbers often count, each in several languages.
_UNITS = (
    "second seconds sekunde sekunden seconde secondes segundo segundos 秒",
    "minute minutes min minuten minuto minutos 分",
    "hour hours stunde stunden std heure heures hora horas 小时 时",
    "o'clock uhr 点",
    "day days tag tage tagen jour jours día días 天 日",
    "week weeks woche wochen semaine semaines semana semanas 周 星期 礼拜",
    "month months monat monate monaten mois mes meses 月",
    "year years jahr jahre jahren an ans année años año 年 岁",
    "euro euros eur € 欧元",
    "dollar dollars usd $ 美元",
    "pound pounds gbp pfund £",
    "yuan cny rmb 元 块",
    "percent % prozent",
    "metre metres meter meters mètre mètres metro metros m 米",
    "kilometre kilometres kilometer kilometers km 公里",
    "centimetre centimetres cm zentimeter 厘米",
    "kilogram kilograms kilo kilos kg kilogramm 公斤",
    "times mal fois veces 次 倍",
)
_UNIT_OF = {name: names.split()[0] for names in _UNITS for name in names.split()}
_NEAR = 3  # words after a number among which its unit is looked for
_AFTER = re.compile(r"[ \u00a0-]?([^\W\d_]+(?:'[a-z]+)?|[%€$£])")
_AFTER_CHINESE = re.compile(
    r"\s?个?(小时|星期|礼拜|欧元|美元|公里|厘米|公斤|[秒分时点天日周月年岁元块米次倍])"
)
_BEFORE = re.compile(r"(?:([€$£])|\b(eur|usd|gbp|cny|rmb))\s?$")


class Number(NamedTuple):
    """A number of a text."""

    values: frozenset[str]  # what it may mean: `1.200` is 1200 or 1.2
    unit: str = ""  # what it counts, in English, if that is near and known

    def matches(self, other: Number) -> bool:
        """Whether another text's number is the same, and of the same unit if this has one."""
        return not self.values.isdisjoint(other.values) and self.unit in ("", other.unit)


def _build_words() -> dict[str, int]:
    words = {"first": 1, "erste": 1, "ersten": 1, **_LARGE}
    for value, names in enumerate(_SMALL, 2):
        words |= dict.fromkeys(names.split(), value)
    for tens, names in enumerate(_TENS, 2):
        words |= dict.fromkeys(names.split(), tens * 10)
        english, german = names.split()[:2]
        units = [("one", "ein"), *((names.split()[0], _find_german(names)) for names in _SMALL[:8])]
        for value, (unit, einheit) in enumerate(units, 1):
            words[f"{english}-{unit}"] = words[f"{einheit}und{german}"] = tens * 10 + value
    return {word.casefold(): value for word, value in words.items()}


def _find_german(names: str) -> str:
    return next(name for name in names.split() if name in _GERMAN_UNITS)


_GERMAN_UNITS = frozenset("zwei drei vier fünf sechs sieben acht neun".split())
_WORDS = _build_words()


def drop_list_marks(text: str) -> str:
    """A text without the numbers of a list's entries."""
    return _LIST_MARK.sub("", text)


def spell_number(whole: str, decimals: str = "") -> str:
    """The one spelling of a number, from its digits: `007` and `50` are `7.5`."""
    rest = decimals.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{rest}" if rest else "")


def find_numbers(text: str) -> Iterator[Number]:
    """Each number of a text.

    Numbers of a list's entries are none, and neither are 0 (`10:00`) and 1 in words, which is an
    article in many languages.
    """
    plain = drop_list_marks(text).casefold()
    plain = _ORDINAL.sub("", plain)
    for found in _DIGITS.finditer(plain):
        values = frozenset(_read_digits(found[0])) - {"0"}
        if values:
            yield Number(values, _find_unit(plain, found.start(), found.end()))
    for found in _WORD.finditer(plain):
        value = _WORDS.get(found[0])
        if value is None:  # `five-day`
            value = _WORDS.get(found[0].partition("-")[0])
        if value is not None:
            yield _count(value, plain, found)
    for found in _CHINESE.finditer(plain):
        value = _read_chinese(found[0])
        if value > 1:
            yield _count(value, plain, found)


def _count(value: int, text: str, found: re.Match[str]) -> Number:
    return Number(frozenset((str(value),)), _find_unit(text, found.start(), found.end()))


def _find_unit(text: str, start: int, end: int) -> str:
    before = _BEFORE.search(text[max(start - 5, 0) : start])
    if before:
        return _UNIT_OF[before[1] or before[2]]
    chinese = _AFTER_CHINESE.match(text, end)
    if chinese:
        return _UNIT_OF[chinese[1]]
    for _ in range(_NEAR):
        word = _AFTER.match(text, end)
        if word is None:
            break
        if word[1] in _UNIT_OF:
            return _UNIT_OF[word[1]]
        end = word.end()
    return ""


def _read_digits(written: str) -> Iterator[str]:
    if _THOUSANDS.fullmatch(written):
        yield spell_number(re.sub(r"\D", "", written))
    whole, decimals = re.fullmatch(r"(.*?)(?:[.,](\d+))?", written).groups()  # type: ignore[union-attr]
    yield spell_number(re.sub(r"\D", "", whole), decimals or "")


def _read_chinese(written: str) -> int:
    # 十五 is 15, 二十 is 20, 二十八 is 28; what is no number below a hundred is none.
    tens, ten, units = written.partition("十")
    if not ten:
        return _CHINESE_DIGITS.get(tens, 0)
    if not {tens, units} <= {"", *_CHINESE_DIGITS}:
        return 0
    return 10 * _CHINESE_DIGITS.get(tens, 1) + _CHINESE_DIGITS.get(units, 0)
