"""Whether a user wished for a call that changes something; if that is not certain, he is asked.

The words that are known here are English. They only ever say *yes*: what is not understood, in
English or in any other language, is no wish, and the call then waits for the user's consent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Operation

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# How the names of functions begin that change nothing. A name in another language begins
# otherwise, and its calls wait for consent unless the author says that they need none.
_READING = frozenset(
    "calculate check compare compute convert count describe estimate fetch find get is list look"
    " lookup preview query read retrieve search show summarise summarize validate view".split()
)

# Verbs that a wish may begin with, when the function has the same one.
_WISHES = frozenset(
    "accept activate add apply approve archive assign attach block book buy call cancel change"
    " charge close complete confirm copy create deactivate delete deliver disable download"
    " email enable enter enrol enroll extend file finish forward give hire install invite issue"
    " lock mail make mark merge move notify open order pay plan post print publish purchase put"
    " raise record refund register reject release remind remove rename renew rent reopen replace"
    " reply report request reschedule reserve reset restart restore resume return revoke save"
    " schedule sell send set share ship sign start stop store submit subscribe suspend switch"
    " tag transfer translate trigger turn unblock unlock unsubscribe update upgrade upload"
    " withdraw write".split()
)

# What may stand before the verb.
_LEADS = re.compile(
    r"(?:(?:please|kindly|ok|okay|yes|now|then|so|and|also|just|hello|hi|great|thanks|thank you|"
    r"can you|could you|will you|would you|i want to|i want you to|i need to|i need you to|"
    r"i'd like to|i'd like you to|i would like to|i would like you to|let's|let us|do it|go ahead|"
    r"go ahead and)\s+)*"
)

# Any of these, and it is not certain: conditions, doubts, other times, and refusals in the
# languages in which an English verb might stand beside them.
_DOUBTS = frozenset(
    "after before but cannot could'nt didn't doesn't don't except how however if instead later"
    " maybe might never no nobody none nor not nothing once only otherwise perhaps possibly rather"
    " should stop suppose supposed tomorrow undo unless wait what when whether which who why won't"
    " wouldn't would've"
    " nicht kein keine keinen nie niet geen ne pas jamais non não nao nunca inte ikke nie nem не"
    .split()
)  # fmt: skip
_REFUSALS = re.compile("[不别勿没]")
_QUESTIONS = re.compile('[?？؟;"“”„«»]')
_CLAUSE = re.compile(r"[.,:!\n]+(?:\s|$)|\s+-\s+|\b(?:and|then|please)\b")
_ID = re.compile(r"(?<![^\W_])[^\W_]*\d[\w./-]*")


def split_words(name: str) -> list[str]:
    """The words of a function's or parameter's name: `sendReminder`, `send_reminder`."""
    return _CAMEL.sub(" ", name).replace("_", " ").replace("-", " ").lower().split()


def only_reads(operation: Operation) -> bool:
    """Whether calls of an operation are known to change nothing.

    Those of an API with `GET` or `HEAD` do not, and functions whose names begin with a word such as
    `get`; of everything else it is not known.
    """
    if operation.verb:
        return operation.verb in ("GET", "HEAD", "OPTIONS")
    words = split_words(operation.name)
    return bool(words) and words[0] in _READING


def is_wished(question: str, operation: Operation) -> bool:
    """Whether a user's words are an English order to do what the operation does."""
    text = question.replace("\u2019", "'").strip()
    if _QUESTIONS.search(text) or _REFUSALS.search(text):
        return False
    lower = text.lower()
    if not _DOUBTS.isdisjoint(re.findall(r"[\w']+", lower)):
        return False
    verbs = _find_verbs(operation)
    return any(_begins_with(clause, verbs) for clause in _CLAUSE.split(lower))


def _find_verbs(operation: Operation) -> set[str]:
    first = operation.description.split(maxsplit=1)[:1]
    words = {word.lower().strip(".,") for word in (*split_words(operation.name)[:1], *first)}
    return {verb for word in words for verb in (word, word.removesuffix("s")) if verb in _WISHES}


def _begins_with(clause: str, verbs: Iterable[str]) -> bool:
    rest = clause.strip()
    rest = rest[_LEADS.match(rest).end() :]  # type: ignore[union-attr]  # it matches always
    first = re.match(r"[\w']+", rest)
    return first is not None and first[0] in verbs


def names_all_values(arguments: Mapping[str, Any], texts: Sequence[str]) -> bool:
    """Whether the user said every id, date and number of a call himself."""
    said = "\n".join(texts).casefold()
    numbers = set(re.findall(r"\d+", said))
    return all(
        value in said or (value.count("-") < 2 and set(re.findall(r"\d+", value)) <= numbers)
        for value in _find_ids(arguments)
    )


def _find_ids(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _find_ids(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _find_ids(one)
    elif isinstance(value, str):
        yield from _ID.findall(value.casefold())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield f"{value:g}"
