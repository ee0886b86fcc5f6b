"""Conversations in the older form (`say`, `asks`, `kinds`), which are read as cases.

| older | now |
|---|---|
| `kinds`, `attributes` | `tags`, `session_attributes` |
| `say` | `question` |
| `calls` | `expect.calls`, each argument `{"like": …}` |
| `no_calls`, `contains`, `lacks`, `refuses` | the same in `expect` |
| `asks`, `no_refusal` | `expect.asks_user`, `expect.refuses: false` |
| always | `expect.answered`, `.no_side_effects` and `.grounded` |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CASE = {"id": "id", "agent": "agent", "kinds": "tags", "attributes": "session_attributes"}
_CHECKS = {
    **{name: name for name in ("calls", "no_calls", "contains", "lacks", "refuses")},
    "asks": "asks_user",
}
_TURN = ("say", *_CHECKS, "no_refusal")
# What was looked at in each turn.
_ALWAYS = {"answered": True, "no_side_effects": True, "grounded": True}


def is_older(data: Mapping[str, Any]) -> bool:
    """Whether a case is in the older form: its turns are said."""
    turns = data.get("turns")
    return (
        isinstance(turns, list)
        and bool(turns)
        and all(isinstance(turn, dict) and "say" in turn for turn in turns)
    )


def translate_case(data: Mapping[str, Any]) -> dict[str, Any]:
    """An older conversation as a case.

    Raises:
        ValueError: It has a member that the older form does not know.
    """
    _check_names(data, (*_CASE, "turns"), "the conversation")
    case = {now: data[older] for older, now in _CASE.items() if older in data}
    return {**case, "turns": [_translate_turn(turn) for turn in data["turns"]]}


def _translate_turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    _check_names(turn, _TURN, "a turn with 'say'")
    expect = {now: turn[older] for older, now in _CHECKS.items() if older in turn}
    if "no_refusal" in turn:
        if "refuses" in turn or turn["no_refusal"] is not True:
            raise ValueError("'no_refusal' is true, and beside it is no 'refuses'")
        expect["refuses"] = False
    if isinstance(calls := expect.get("calls"), list):
        expect["calls"] = [_translate_call(call) for call in calls]
    return {"question": turn["say"], "expect": {**_ALWAYS, **expect}}


def _translate_call(call: Any) -> Any:
    arguments = call.get("arguments") if isinstance(call, dict) else None
    if not isinstance(arguments, dict):
        return call
    return {**call, "arguments": {name: {"like": value} for name, value in arguments.items()}}


def _check_names(data: Mapping[str, Any], allowed: tuple[str, ...], what: str) -> None:
    for name in data:
        if name not in allowed:
            raise ValueError(f"{what} has no {name!r}; there are {', '.join(allowed)}")
