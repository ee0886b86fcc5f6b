"""Ids in a conversation: the words that have the form of the examples in a parameter's description.

Small models make ids up: they copy examples, shorten ids, and put them together of any number
that stands near. So a value of such a parameter is one of the words found here, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_MARK = re.compile(
    r"(?:for example|for instance|e\.\s?g\.|such as|example:?|like|zum beispiel|z\.\s?B\."
    r"|par exemple|por ejemplo|例如|比如)\s*(?=\S*\d)",
    re.IGNORECASE,
)
_PART = r"[^\s\"'`<>(){}\[\],;:!?=|\\，。；：！？、（）]"
# It begins where a word does, so that a long one without digits is read once.
_WORD = re.compile(rf"(?<!{_PART})(?<!\d:(?=\d)){_PART}*\d(?:{_PART}|(?<=\d):(?=\d))*")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_RUN = re.compile(r"\d+|[^\W\d_]+|[\W_]+")
# A number that no word follows, which would say what it counts.
_NUMBER = re.compile(r"(?<![\w.,/-])\d{1,12}(?![^\W_]|[.,:/-]\d|[%€$£]|\s+[^\W\d_A-Z]{3})")
_ASIAN = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_SEAM = re.compile(f"(?<=[{_ASIAN}])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?=[{_ASIAN}])")
# A number of so many digits counts seldom what comes after it.
_LONG = 3
_LONG_NUMBER = re.compile(r"(?<![\w.,/-])\d{3,12}(?![^\W_]|[.,:/-]\d|\s*[%€$£])")
_GAP = 3  # characters between the parts of an id
_MOST_EXAMPLES = 4
_MOST_IDS = 200
# Characters of one text that are searched: a result may have any number.
_MOST_TEXT = 50_000


def find_words(text: str) -> Iterator[str]:
    """The words of a text that have digits."""
    for found in _WORD.finditer(_part_words(text)):
        if word := found[0].rstrip(".-/"):
            yield word


def read_examples(description: str) -> tuple[str, ...]:
    """The ids that a parameter's description names as examples; empty when it names none."""
    mark = _MARK.search(description)
    if mark is None:
        return ()
    words = [*find_words(description[mark.end() :])]
    return tuple(words[:_MOST_EXAMPLES])


def find_ids(
    examples: Sequence[str], said: Iterable[str], returned: Iterable[str], now: str
) -> list[str]:
    """The words that may be ids of the examples' form, in the examples' spelling.

    Args:
        examples: Ids of that form.
        said: What the user said, and whoever set the conversation up.
        returned: What functions returned.
        now: What the user has said last. A word that looks like an id counts there although its
            form is another one; elsewhere it counts when nothing has the examples' form.
    """
    said, returned = [it[-_MOST_TEXT:] for it in said], [it[:_MOST_TEXT] for it in returned]
    found = [*find_formed(examples, said)]
    for text in returned:
        found += _match_words(examples, text)
    found += _number_alone(examples, now)
    found += _find_others(examples, [now], found)
    return [*dict.fromkeys(found or _find_others(examples, (*said, *returned)))][-_MOST_IDS:]


def find_formed(examples: Sequence[str], said: Iterable[str]) -> Iterator[str]:
    """The ids of the examples' form that the user said, also as `claim 857`, `v15` or `857`."""
    for text in said:
        plain = _part_words(_ISO_DATE.sub(" ", text))
        for example in examples:
            yield from _match_loosely(example, plain)


def _number_alone(examples: Sequence[str], text: str) -> Iterator[str]:
    # `number 12`, where the example has three digits; `12 days` is none.
    for example in examples:
        runs = _RUN.findall(example)
        if runs[-1].isdigit() and sum(map(str.isdigit, runs)) == 1:
            for match in _NUMBER.finditer(_part_words(_ISO_DATE.sub(" ", text))):
                yield _spell(example, [match[0]])


def _match_words(examples: Sequence[str], text: str) -> Iterator[str]:
    for word in find_words(text):
        runs = _RUN.findall(word)
        for example in examples:
            if _fits(runs, _RUN.findall(example)):
                yield _spell(example, [run for run in runs if run.isdigit()])


def _fits(runs: Sequence[str], like: Sequence[str]) -> bool:
    """Whether the runs of a word are those of an example, with other numbers."""
    return len(runs) == len(like) and all(
        run.isdigit() if other.isdigit() else run.casefold() == other.casefold()
        for run, other in zip(runs, like, strict=True)
    )


def _match_loosely(example: str, text: str) -> Iterator[str]:
    runs = _RUN.findall(example)
    like = [run for run in runs if run[0].isalnum()]
    if any(map(str.isalpha, like)):
        found = _RUN.findall(text)
        for start in range(len(found)):
            if found[start][0].isalnum() and not (start and found[start - 1][0].isalnum()):
                yield from (_spell(example, it) for it in _read_numbers(like, found, start))
    digits = [run for run in runs if run.isdigit()]
    if len(digits) > 1 and digits == like:  # nothing but numbers, as in `08:15`
        yield from _match_words([example], text)
    if len(digits) == 1 and runs[-1].isdigit():  # the number alone
        form = _NUMBER if len(digits[0]) < _LONG else _LONG_NUMBER
        numbers = (match[0] for match in form.finditer(text))
        yield from (_spell(example, [it]) for it in numbers if len(it) == len(digits[0]))


def _read_numbers(like: Sequence[str], found: Sequence[str], start: int) -> Iterator[list[str]]:
    """The numbers of an id that begins at a run, whatever stands between its parts."""
    at, taken = start, []
    for place, part in enumerate(like):
        if place and at < len(found) and not found[at][0].isalnum() and len(found[at]) <= _GAP:
            at += 1
        if at >= len(found) or not _fits([found[at]], [part]):
            return
        taken.append(found[at])
        at += 1
    goes_on = "".join(found[at : at + 2])
    if not goes_on[:1].isalnum() and not (goes_on[:1] == "-" and goes_on[1:2].isdigit()):
        yield [run for run in taken if run.isdigit()]


def _spell(example: str, numbers: list[str]) -> str:
    left = iter(numbers)
    return "".join(next(left) if run.isdigit() else run for run in _RUN.findall(example))


def _find_others(
    examples: Sequence[str], texts: Iterable[str], known: Sequence[str] = ()
) -> list[str]:
    plain = set(map(_simplify, known))
    return [
        word
        for text in texts
        for word in find_words(text)
        if not _ISO_DATE.fullmatch(word)
        and _simplify(word) not in plain
        and _may_be(word, examples)
    ]


def _simplify(word: str) -> str:
    return re.sub(r"[\W_]", "", word).casefold()


def _part_words(text: str) -> str:
    # Chinese and Japanese put no blanks round ids and numbers.
    return _SEAM.sub(" ", text)


def _may_be(word: str, examples: Sequence[str]) -> bool:
    # A number is no id where ids have letters: it counts days, or money.
    lettered = all(re.search(r"[^\W\d_]", example) for example in examples)
    if not lettered:
        return word.isdigit() or bool(re.search(r"[^\W\d_]", word))
    ordinal = re.fullmatch(r"\d+(?:st|nd|rd|th|e|er|ème|h|am|pm|[日号月年])", word, re.IGNORECASE)
    return bool(re.search(r"[^\W\d_]", word)) and ordinal is None
