"""What is left of a call's values after nobody but the model has said some of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.models.base import OperationFormat
from orchestrator.models.grammar import find_kind
from orchestrator.models.grounds import Grounds
from orchestrator.models.user_dates import is_date
from orchestrator.support.numbers import NUMBER_WORDS
from orchestrator.support.words import part_camel_case

# As many letters of a word say which word it is, in whatever form.
_STEM = 5
_LEAST = 2  # letters of a word that says something
_UNTIL = re.compile(
    r"\b(?:until|till?|to|through|end|ends|ending|last|by|bis|ende|jusqu|fin|hasta|al?|fino|tot|até)\b"
    "|[到至止]",
    re.IGNORECASE,
)


def settle_values(
    operation: OperationFormat, arguments: Mapping[str, Any], grounds: Grounds, unknown: str
) -> dict[str, Any]:
    """A call's arguments without what was made up.

    Optional values that the user did not speak of are left out. Numbers that nobody named, and a
    date or an id that was said once and fills a second parameter, become the `unknown` value. Dates
    that the user moved ("a week later") are those of the call before, whatever the model made.
    """
    properties = operation.schema.get("properties") or {}
    required = set(operation.schema.get("required") or ())
    settled = {}
    moved = grounds.move_dates() or {}
    arguments = {
        name: moved.get(name, value) if is_date(value) or value == unknown else value
        for name, value in arguments.items()
    }
    for name, value in arguments.items():
        schema = properties.get(name)
        schema = schema if isinstance(schema, Mapping) else {}
        if name in required:
            known = not _is_number(value) or _is_named(value, (*grounds.said, *grounds.returned))
            settled[name] = value if known else unknown
        elif _was_meant(name, value, schema, grounds):
            settled[name] = value
    return _spread(settled, properties, grounds.now, unknown)


def _was_meant(name: str, value: Any, schema: Mapping[str, Any], grounds: Grounds) -> bool:
    if isinstance(value, str):
        return _speaks_of(value, grounds.said)
    if isinstance(value, bool):
        return _speaks_of(re.sub("[_-]", " ", part_camel_case(name)), grounds.said)
    if _is_number(value):
        return _is_named(value, grounds.said)
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _speaks_of(value: str, said: tuple[str, ...]) -> bool:
    """Whether one of the words of a value begins as one that was said, or stands in a text."""
    text = "\n".join(said).casefold()
    stems = {word[:_STEM] for word in re.findall(r"[^\W_]+", text)}
    words = [word for word in re.findall(r"[^\W_]+", value.casefold()) if len(word) >= _LEAST]
    if not words:
        return value.casefold() in text
    # A language that does not part its words has them inside of others.
    return any(word[:_STEM] in stems or (not word.isascii() and word in text) for word in words)


def _is_named(value: float, texts: tuple[str, ...]) -> bool:
    text = re.sub(r"(?<=\d)[ ,'](?=\d{3})", "", "\n".join(texts).casefold())
    numbers = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)[:5000]}
    numbers |= {float(f"{a}.{b}") for a, b in re.findall(r"(\d+),(\d+)", text)[:5000]}
    if abs(value) in numbers:
        return True
    words = set(re.findall(r"[^\W\d_]+", text))
    return any(
        names[int(value)] in words or _is_part(names[int(value)], text)
        for names in NUMBER_WORDS
        if 0 <= value < len(names) and value == int(value)
    )


def _is_part(name: str, text: str) -> bool:
    return len(name) == 1 and not name.isascii() and name in text


def _spread(
    arguments: dict[str, Any], properties: Mapping[str, Any], now: str, unknown: str
) -> dict[str, Any]:
    places: dict[str, list[str]] = {}
    for name, value in arguments.items():
        schema = properties.get(name)
        if isinstance(value, str) and value != unknown and isinstance(schema, Mapping):
            if schema.get("type") == "string" and find_kind(schema) != "loose":
                places.setdefault(value, []).append(name)
    for value, names in places.items():
        if len(names) > 1 and now.casefold().count(value.casefold()) == 1:
            stays = names[-1] if _UNTIL.search(now) else names[0]
            arguments.update((name, unknown) for name in names if name != stays)
    return arguments


def fill_once(
    arguments: Mapping[str, Any], before: Mapping[str, Any], now: str, unknown: str
) -> dict[str, Any]:
    """The arguments of a call that goes on, in which a value that was said once fills one gap."""
    filled = dict(arguments)
    gaps = [name for name in filled if before.get(name) == unknown and filled[name] != unknown]
    for value in {str(filled[name]) for name in gaps}:
        same = [name for name in gaps if str(filled[name]) == value]
        if len(same) > 1:
            stays = same[-1] if _UNTIL.search(now) else same[0]
            filled.update((name, unknown) for name in same if name != stays)
    return filled
