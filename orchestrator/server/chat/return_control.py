"""Returned control as tool calls of OpenAI's protocol, and their results back.

A tool call's id says which session and which hand-over it belongs to. The hand-over's own id is
chance, and a session is its tenant's, so that no id can be guessed or used by another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.agent.agent import Agent
from orchestrator.engine.results import ControlReturn
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.message import to_json
from orchestrator.models._encoding import tool_name
from orchestrator.support.safe_json import json_or

_ID = re.compile(r"call_(?P<place>[0-9]{1,3})_(?P<hand_over>[0-9A-Za-z-]{8,64})_(?P<session>.+)")
_TYPED = ("integer", "number", "boolean", "array", "object")
_DENIED = ("deny", "denied", "false", "no")
_CONFIRMED = ("confirm", "confirmed", "true", "yes")


def to_tool_calls(control: ControlReturn, session_id: str) -> list[dict[str, Any]]:
    """The calls of a hand-over as `tool_calls`.

    Those that wait for the user's consent say so in `actionInvocationType`, as Bedrock does.
    """
    calls = []
    for place, call in enumerate(_calls(control.invocation_inputs)):
        function = {"name": _build_name(call), "arguments": to_json(dict(_arguments(call)))}
        id = f"call_{place}_{control.invocation_id}_{session_id}"
        tool_call: dict[str, Any] = {"id": id, "type": "function", "function": function}
        kind = call.get("actionInvocationType", "RESULT")
        if kind != "RESULT":
            tool_call["actionInvocationType"] = kind
        calls.append(tool_call)
    return calls


def find_session(results: Mapping[str, str], session_id: str) -> str:
    """The session that waits for results: the one that the ids of their tool calls name."""
    found = {(it["hand_over"], it["session"]) for it in map(_parse_id, results)}
    if len(found) != 1:
        raise ValidationError("the results at the end of 'messages' belong to several replies")
    ((_, session),) = found
    if session_id not in ("", session):
        raise ValidationError(f"the results belong to another session than {session_id!r}")
    return session


def build_results(
    agent: Agent, session_id: str, results: Mapping[str, str], denied: Collection[str] = ()
) -> dict[str, Any]:
    """The results as the agent takes them; reads the session, and so may block.

    Calls of the ids in `denied` are denied, where they ask for consent.
    """
    found = {int(it["place"]): it for it in map(_parse_id, results)}
    hand_over = next(iter(found.values()))["hand_over"]
    inputs = _find_inputs(agent, session_id, hand_over)
    calls = list(_calls(inputs))
    texts = {place: results[it[0]] for place, it in found.items()}
    missing = [_build_name(call) for place, call in enumerate(calls) if place not in texts]
    if missing or len(texts) > len(calls):
        raise ValidationError(
            f"every tool call needs one message of the role 'tool'; {missing} have none"
        )
    values: dict[str, list[str | bool]] = {}
    for place, call in enumerate(calls):
        name = str(call.get("function") or call["apiPath"])
        asks = call.get("actionInvocationType", "RESULT") != "RESULT"
        text = "DENY" if asks and found[place][0] in denied else texts[place]
        values.setdefault(name, []).append(_to_answer(call, text))
    answers = {name: them if len(them) > 1 else them[0] for name, them in values.items()}
    return ControlReturn(hand_over, inputs).answer(answers)


def _parse_id(id: str) -> re.Match[str]:
    found = _ID.fullmatch(id)
    if found is None:
        raise ValidationError(f"the tool_call_id {id[:120]!r} is none of an agent's tool calls")
    return found


def _find_inputs(agent: Agent, session_id: str, hand_over: str) -> list[dict[str, Any]]:
    for turn in reversed(agent.turns(session_id)):
        for record in reversed(turn.records):
            if record["kind"] == "suspend" and record["invocation_id"] == hand_over:
                inputs: list[dict[str, Any]] = record["inputs"]
                return inputs
    raise ResourceNotFound("no call waits under these ids: the session has expired, or never was")


def _calls(inputs: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for item in inputs:
        yield from item.values()


def _build_name(call: Mapping[str, Any]) -> str:
    group = call["actionGroup"]
    if "function" in call:
        return tool_name(f"{group}__{call['function']}")
    path = str(call["apiPath"]).strip("/")
    return tool_name(f"{call['httpMethod']}__{group}__{path}")


def _arguments(call: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for parameter in call.get("parameters") or ():
        yield parameter["name"], _parse_value(parameter)
    for content in ((call.get("requestBody") or {}).get("content") or {}).values():
        for member in content.get("properties") or ():
            yield member["name"], _parse_value(member)


def _parse_value(parameter: Mapping[str, Any]) -> Any:
    value = parameter.get("value", "")
    if isinstance(value, str) and parameter.get("type") in _TYPED:
        return json_or(value, value)
    return value


def _to_answer(call: Mapping[str, Any], text: str) -> str | bool:
    """A result as `ControlReturn.answer` takes it."""
    kind = call.get("actionInvocationType", "RESULT")
    if kind == "RESULT":
        return text
    answer = text.strip().casefold()
    if answer in _DENIED:
        return False
    if kind == "USER_CONFIRMATION_AND_RESULT":
        return text
    if answer in _CONFIRMED:
        return True
    raise ValidationError(
        f"the call of {_build_name(call)!r} asks for the user's consent: answer it with "
        "CONFIRM or DENY"
    )
