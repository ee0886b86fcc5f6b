"""Keeps a question about the user's own things from being answered with somebody else's id.

Small models take the id that was said last. After "my friend has 1042", a question about the user's
own order needs another one, or is answered by asking for it. The words are English; where it is not
clear whose an id is, it may be the user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.models.grounds import Grounds
from orchestrator.models.identifiers import find_formed, read_examples

_CLAUSE = re.compile(r"(?<=[.!?;])\s++|,\s++|(?<!\s)\s++(?:and|but|while)\s++", re.IGNORECASE)
_MINE = re.compile(r"\b(?:mine|my own)\b", re.IGNORECASE)
_MY_THING = re.compile(r"\b(?:my|our)\s+(?P<thing>[^\W\d_]+)", re.IGNORECASE)
# "They told me that 1042 is late" does not say whose it is: only words that own something do.
_THEIRS = re.compile(
    r"\b(?:his|hers|theirs|for (?:him|her|them)(?! to\b)|(?:some|any)(?:one|body) else)\b",
    re.IGNORECASE,
)
_THEIR_THING = re.compile(r"\b(?:her|their)\s+(?P<thing>[^\W\d_]+)", re.IGNORECASE)
_PEOPLE = (
    "friend|girlfriend|boyfriend|colleague|coworker|co-worker|boss|manager|neighbou?r|roommate"
    "|flatmate|teammate|classmate|partner|wife|husband|mother|mum|mom|father|dad|parent|sister"
    "|brother|daughter|son|child|children|kid|grandmother|grandfather|grandma|grandpa|aunt|uncle"
    "|cousin|niece|nephew|customer|client|guest|employee|student|teacher"
)
_HAS = r"\s+(?:has|have|had|got|wants?|[^\W\d_]+ed)\b"
# "my friend has", "a colleague's", "our neighbour ordered", "she has"
_PERSON = re.compile(
    rf"\b(?:my|our|an?|another)\s+(?:{_PEOPLE})s?(?:['’]|{_HAS})|\bs?he{_HAS}", re.IGNORECASE
)
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][^\W\d_]+['’]s\b")
_BRIEF = 4  # words of an input that only gives what was asked for


def keep_to_own(grounds: Grounds, ids: Sequence[Mapping[str, Any]]) -> Grounds | None:
    """The grounds without somebody else's ids, when the user asks of what is his own.

    `None` when he does not, gives an id with it, or has named nobody else's.

    Args:
        grounds: The texts of the conversation.
        ids: The JSON Schemas of the parameters that are ids.
    """
    descriptions = [str(schema.get("description", "")) for schema in ids]
    examples = [one for text in descriptions for one in read_examples(text)]
    things = frozenset(re.findall(r"[^\W\d_]+", " ".join(descriptions).lower()))
    if not _asks_of_own(grounds.now, things) or any(find_formed(examples, [grounds.now])):
        return None
    others = {*_find_others(grounds.said, things)}
    theirs = {*find_formed(examples, others)}
    if not theirs:
        return None
    said = tuple(text for one in grounds.said for text in _CLAUSE.split(one) if text not in others)
    return grounds._replace(said=said, returned=_drop_words(grounds.returned, theirs))


def _asks_of_own(text: str, things: frozenset[str]) -> bool:
    own = _MINE.search(text) or _has_thing(_MY_THING, text, things)
    return bool(own) and not any(_is_others(clause, things) for clause in _CLAUSE.split(text))


def _find_others(said: Sequence[str], things: frozenset[str]) -> Iterator[str]:
    """The clauses of the user's inputs, oldest first, that are about somebody else's."""
    before = False
    for text in said:
        clauses = _CLAUSE.split(text)
        found = [clause for clause in clauses if _is_others(clause, things)]
        # "1042" alone answers what the agent asked after the input before.
        follows = before and len(text.split()) <= _BRIEF and not _asks_of_own(text, things)
        yield from clauses if follows else found
        before = follows or bool(found)


def _drop_words(texts: Iterable[str], words: Iterable[str]) -> tuple[str, ...]:
    pattern = re.compile(
        rf"(?<![\w-])(?:{'|'.join(map(re.escape, words))})(?![\w-])", re.IGNORECASE
    )
    return tuple(pattern.sub("", text) for text in texts)


def _is_others(clause: str, things: frozenset[str]) -> bool:
    if _MINE.search(clause):
        return False
    return any(form.search(clause) for form in (_THEIRS, _NAME, _PERSON)) or _has_thing(
        _THEIR_THING, clause, things
    )


def _has_thing(form: re.Pattern[str], text: str, things: frozenset[str]) -> bool:
    return any(found["thing"].lower() in things for found in form.finditer(text))
