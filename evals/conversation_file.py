"""Files of conversations: one JSON object a line, checked before a model is asked.

A check that is misspelt would pass whatever the agent does, so nothing unknown is let through.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.asking import EXAMPLES, find_agent
from orchestrator import ValidationError

MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Conversation:
    """One conversation: an agent, and what the user says, turn for turn."""

    id: str
    agent: str
    folder: Path  # the agent's
    turns: list[dict[str, Any]]
    kinds: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)


def read_conversations(path: Path) -> list[Conversation]:
    """The conversations of a file.

    Raises:
        ValidationError: The file cannot be read, or a line is no conversation; the message has the
            line's number.
    """
    conversations: dict[str, Conversation] = {}
    for number, line in enumerate(_read_text(path).split("\n"), 1):
        if line.strip():
            try:
                one = _read_line(line, path.parent)
                if one.id in conversations:
                    raise ValueError(f"the id {one.id!r} is on an earlier line, too")
            except ValueError as error:
                raise ValidationError(f"{path}:{number}: {error}") from error
            conversations[one.id] = one
    return list(conversations.values())


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValidationError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise ValidationError(f"{str(path)!r} has more than {MOST_BYTES:,} bytes")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValidationError(f"{str(path)!r} is not in UTF-8") from error


def _read_line(line: str, folder: Path) -> Conversation:
    try:
        members = json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check(members, _CONVERSATION, ("id", "agent", "turns"), "the conversation")
    for number, turn in enumerate(members["turns"], 1):
        where = f"turn {number}"
        _check(turn, _TURN, ("say",), where)
        for call in turn.get("calls", []):
            _check(call, _CALL, ("name",), f"a call of {where}")
        for one, other in _CONTRADICTIONS:
            if turn.get(one) and turn.get(other):
                raise ValueError(f"{where} has both {one!r} and {other!r}")
    place = find_agent(members["agent"], folder)
    if place is None:
        raise ValueError(
            f"there is no agent {members['agent']!r}: name an example "
            f"({', '.join(_list_examples())}) or a folder beside the file"
        )
    return Conversation(folder=place, **members)


def _check(
    members: Any, allowed: Mapping[str, Callable[[Any], bool]], needed: tuple[str, ...], where: str
) -> None:
    if not isinstance(members, dict):
        raise ValueError(f"{where} is no JSON object")
    for name in needed:
        if name not in members:
            raise ValueError(f"{where} has no {name!r}")
    for name, value in members.items():
        if name not in allowed:
            raise ValueError(f"{where} has {name!r}; there are: {', '.join(allowed)}")
        if not allowed[name](value):
            raise ValueError(f"{name!r} of {where} cannot be {json.dumps(value)[:80]}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_true(value: Any) -> bool:
    return value is True


def _is_list_of(item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(item, value))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_CONVERSATION = {
    "id": _is_text,
    "agent": _is_text,
    "kinds": _is_list_of(_is_text),
    "attributes": _is_table,
    "turns": _is_list_of(_is_object),
}
_TURN = {
    "say": _is_text,
    "calls": _is_list_of(_is_object),
    "no_calls": _is_true,
    "contains": _is_list_of(_is_list_of(_is_text)),
    "lacks": _is_list_of(_is_text),
    "asks": _is_true,
    "refuses": _is_true,
    "no_refusal": _is_true,
}
_CALL = {"name": _is_text, "arguments": _is_table}
_CONTRADICTIONS = (("calls", "no_calls"), ("refuses", "no_refusal"))


def _list_examples() -> Iterator[str]:
    return (place.parent.name for place in sorted(EXAMPLES.glob("*/agent.yaml")))
