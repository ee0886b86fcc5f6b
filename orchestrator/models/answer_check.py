"""Whether a sentence of an answer says nothing that the model has made up.

Numbers over 12, ids, weekdays, dates, addresses, people, and quoted names must stand in the
conversation. So must the names of makers of language models: the embedded model has learned other
assistants' introductions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.models.grounds import Grounds
from orchestrator.models.scope import is_english
from orchestrator.support.content_words import find_content_words
from orchestrator.support.numbers import drop_list_marks

# Numbers up to this one count things, or name days and months in other words.
_MOST_COUNTED = 12
_STEM = 3  # letters of a month's name, which may be cut
_NUMBER = re.compile(r"\d+(?:[,.'\u202f\u00a0 ]\d{3})*(?:[.,]\d+)?")
_ID = re.compile(
    r"(?<![^\W_])(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[^\W\d_])[^\W_]++(?:[-_][^\W_]++)++(?![^\W_])"
)
_QUOTED = re.compile('["“„«「《]([^"“”„«»「」《》\n]{3,120})["”“»」》]')
_ADDRESS = re.compile(
    r"[a-z0-9.+_-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}"
    r"|\bhttps?://[^\s<>)\]\\\"“”„«»*`\u3000-\u9fff\uff00-\uffef]{1,500}"
)
# Where an English sentence names a person, not New York or the Customer Service.
_NAME = re.compile(
    r"\b(?:(?:Mr|Mrs|Ms|Miss|Dr)\.?|(?:is|was|called|named) [A-Z][a-zà-ÿ]+) "
    r"(?:[A-Z][a-zà-ÿ]+ )?(?P<last>[A-Z][a-zà-ÿ]{2,})\b"
)
_TAG = re.compile(r"<\s*+(?:/\s*+)?tool", re.IGNORECASE)  # the beginning of a call, as text
_SPACE = re.compile(r"[\W_]+")

_DAYS = (
    "monday montag lundi lunes lunedì maandag 星期一 周一 礼拜一",
    "tuesday dienstag mardi martes martedì dinsdag 星期二 周二 礼拜二",
    "wednesday mittwoch mercredi miércoles mercoledì woensdag 星期三 周三 礼拜三",
    "thursday donnerstag jeudi jueves giovedì donderdag 星期四 周四 礼拜四",
    "friday freitag vendredi viernes venerdì vrijdag 星期五 周五 礼拜五",
    "saturday samstag sonnabend samedi sábado sabato zaterdag 星期六 周六 礼拜六",
    "sunday sonntag dimanche domingo domenica zondag 星期日 星期天 周日 周天 礼拜天",
)
_MONTHS = (
    "January Januar janvier enero",
    "February Februar février febrero",
    "March März mars marzo",
    "April avril abril",
    "May Mai mai mayo",
    "June Juni juin junio",
    "July Juli juillet julio",
    "August août agosto",
    "September septembre septiembre",
    "October Oktober octobre octubre",
    "November novembre noviembre",
    "December Dezember décembre diciembre",
)
_MAKERS = re.compile(
    r"\b(?:anthropic|claude|open\s?ai|chatgpt|gpt-?\d|alibaba|aliyun|qwen|tongyi|google|gemini|"
    r"deepmind|microsoft|meta ai|llama|mistral|deepseek|baidu|tencent|moonshot|zhipu)\b"
    "|阿里|通义|千问|百度|腾讯|智谱|深度求索",
    re.IGNORECASE,
)


class Findings(NamedTuple):
    """What is wrong with a sentence."""

    made_up: bool = False  # it has something that nobody said
    names_maker: bool = False  # it says who made the model
    unsaid: bool = False  # it repeats what only the model was to read, or begins a call

    @property
    def fine(self) -> bool:
        """Whether nothing is."""
        return not any(self)


class AnswerCheck:
    """Holds sentences of one answer against a conversation."""

    def __init__(self, grounds: Grounds, unsaid: Sequence[str] = ()) -> None:
        self._text = "\n".join((*grounds.said, *grounds.returned, *grounds.answered))
        self._unsaid = [_simplify(text) for text in unsaid]
        self._folded = ""
        self._numbers: set[int] | None = None

    def find(self, sentence: str) -> Findings:
        """What is wrong with a sentence."""
        if not self._folded:
            self._folded = self._text.casefold()
        makers = {found.casefold() for found in _MAKERS.findall(sentence)}
        return Findings(
            not (
                self._knows_numbers(sentence)
                and self._knows_ids(sentence)
                and self._knows_days(sentence)
                and self._knows_months(sentence)
                and self._knows_quotations(sentence)
                and self._knows_addresses(sentence)
                and self._knows_names(sentence)
            ),
            any(maker not in self._folded for maker in makers),
            _TAG.search(sentence) is not None or self._is_unsaid(sentence),
        )

    def _knows_numbers(self, sentence: str) -> bool:
        written = _NUMBER.findall(drop_list_marks(sentence))
        over = [numbers for numbers in map(_to_numbers, written) if max(numbers) > _MOST_COUNTED]
        return not over or all(not self._read_numbers().isdisjoint(ways) for ways in over)

    def _read_numbers(self) -> set[int]:
        if self._numbers is None:
            found = _NUMBER.findall(self._text)
            self._numbers = {number for one in found for number in _to_numbers(one)}
            self._numbers |= {int(run) for run in re.findall(r"\d{1,18}", self._text)}
        return self._numbers

    def _knows_ids(self, sentence: str) -> bool:
        return all(found.casefold() in self._folded for found in _ID.findall(sentence))

    def _knows_days(self, sentence: str) -> bool:
        folded = sentence.casefold()
        return all(
            any(name in self._folded for name in names)
            for names in map(str.split, _DAYS)
            if any(name in folded for name in names)
        )

    def _knows_months(self, sentence: str) -> bool:
        words = set(re.findall(r"[^\W\d_]+", sentence))
        named = [
            (number, names.split())
            for number, names in enumerate(_MONTHS, 1)
            if any(name[0].isupper() and name in words for name in names.split())
        ]
        if not named:
            return True
        stems = {word[:_STEM] for word in re.findall(r"[^\W\d_]+", self._folded)}
        return all(
            number in self._read_numbers()
            or any(name[:_STEM].casefold() in stems for name in names)
            for number, names in named
        )

    def _knows_quotations(self, sentence: str) -> bool:
        known = _simplify(self._text)
        return all(_simplify(found) in known for found in _QUOTED.findall(sentence))

    def _knows_addresses(self, sentence: str) -> bool:
        found = _find_addresses(sentence)
        return not found or found <= _find_addresses(self._text)

    def _knows_names(self, sentence: str) -> bool:
        names = [found["last"].casefold() for found in _NAME.finditer(sentence)]
        return all(name in self._folded for name in names) or not is_english(sentence)

    def _is_unsaid(self, sentence: str) -> bool:
        simple = _simplify(sentence)
        return len(simple) > 15 and any(simple in text for text in self._unsaid)


def share_content(sentence: str, other: str) -> bool:
    """Whether two sentences have a content word in common, as far as that can be told."""
    return not find_content_words(sentence).isdisjoint(find_content_words(other))


def _find_addresses(text: str) -> set[str]:
    # A result may be JSON, in which a line ends with `\\n`.
    found = _ADDRESS.findall(text.casefold().replace("\\n", "\n"))
    return {one.rstrip(".,;:!?'’_/") for one in found}


def _simplify(text: str) -> str:
    return _SPACE.sub(" ", text.casefold()).strip()


def _to_numbers(written: str) -> set[int]:
    """What a number may mean, without its separators and without its decimals.

    Looser than `support.numbers.find_numbers`, for which `12.50` is neither 12 nor 1250: a sentence
    that is taken for made up is not shown, so what is doubtful passes.
    """
    whole = re.sub(r"\D", "", written)[:18]
    before = re.sub(r"\D", "", re.sub(r"[.,]\d{1,2}$", "", written))[:18]
    return {int(whole), int(before or 0)}
