"""Cases from sessions that people really had: what they said, and what the agent then did.

A case expects the calls of its session again, and the same end of each turn. What was answered is
not expected: whoever keeps a case writes down what of it mattered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.agent.agent import Agent
from orchestrator.agent.evaluation.trace_reading import Call, list_calls, read_call
from orchestrator.engine.trace.past_turns import PastTurn
from orchestrator.errors import SessionConflict

# Ends of turns that nobody wants to see again.
_BROKEN = ("interrupted", "cancelled")


def build_session_cases(agent: Agent, session_id: str) -> Iterator[dict[str, Any]]:
    """The cases of a session, as a file of cases has them; a new one where it began anew.

    Raises:
        DependencyFailed: The session's journal cannot be read.
        ValidationError: The id is not valid.
    """
    for number, turns in enumerate(_split(agent.turns(session_id)), 1):
        first = turns[0].records[0]
        case: dict[str, Any] = {"id": session_id if number == 1 else f"{session_id}-{number}"}
        for name, member in (
            ("session_attributes", "attributes"),
            ("prompt_session_attributes", "prompt_attributes"),
        ):
            if first.get(member):
                case[name] = first[member]
        case["turns"] = [_build_turn(turn) for turn in turns]
        yield case


def _split(turns: Iterable[PastTurn]) -> Iterator[list[PastTurn]]:
    some: list[PastTurn] = []
    for turn in turns:
        if turn.new and some:
            yield some
            some = []
        # A turn without a question was begun by something else than a user.
        if turn.question.strip() and turn.stop_reason not in _BROKEN:
            some.append(turn)
    if some:
        yield some


def _build_turn(turn: PastTurn) -> dict[str, Any]:
    case: dict[str, Any] = {"question": turn.question}
    results = dict(_read_results(turn))
    if results:
        case["results"] = results
    expect: dict[str, Any] = {"stop_reason": turn.stop_reason}
    try:
        calls = list_calls(turn.trace)
    except SessionConflict:  # the agent is another one now, so its calls cannot be read
        return {**case, "expect": expect}
    # A trace has what was confirmed or carried out by the caller as handed over.
    calls += [call for call in _list_answered_calls(turn) if call not in calls]
    expect |= {"calls": calls} if calls else {"no_calls": True}
    return {**case, "expect": expect}


def _list_answers(turn: PastTurn) -> Iterator[Mapping[str, Any]]:
    """What the caller of the agent gave back (Bedrock: `returnControlInvocationResults`)."""
    for record in turn.records:
        if record["kind"] == "returned":
            for result in record["results"]:
                yield from result.values()


def _read_results(turn: PastTurn) -> Iterator[tuple[str, str]]:
    for answer in _list_answers(turn):
        for body in answer.get("responseBody", {}).values():
            yield _name(answer), body.get("body", "")


def _list_answered_calls(turn: PastTurn) -> Iterator[Call]:
    """The calls that the caller carried out or confirmed, with the arguments of the hand-over."""
    done = {
        _name(answer)
        for answer in _list_answers(turn)
        if answer.get("responseBody") or answer.get("confirmationState") == "CONFIRM"
    }
    for record in turn.records:
        if record["kind"] == "suspend":
            calls = [call for item in record["inputs"] for call in item.values()]
            yield from (read_call(call) for call in calls if _name(call) in done)


def _name(call: Mapping[str, Any]) -> str:
    return str(call.get("function") or call.get("apiPath", ""))
