"""The calls of a turn for its chat: those of the agent, and those that were handed to the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.engine.trace.past_steps import PastStep

_OUTCOMES = {"CONFIRM": "confirmed", "DENY": "denied"}


def list_calls(steps: Sequence[PastStep], is_open: bool) -> Iterator[dict[str, Any]]:
    """Calls in their order; `outcome` says what became of one that was handed over."""
    answers = {it.record["invocation_id"]: it.record["results"] for it in steps if _answers(it)}
    for step in steps:
        if step.kind in ("action", "search", "agent"):
            told = step.name, dict(step.arguments), step.state, ""
            yield _describe(step, *told)
        elif step.kind == "return_control":
            # Without an answer it waits, or another question was asked instead.
            left = answers.get(step.record["invocation_id"])
            given = None if left is None else [next(iter(one.values())) for one in left]
            for item in step.record["inputs"]:
                call = next(iter(item.values()))
                if given is None:
                    outcome = "waits for you" if is_open else "not answered"
                else:
                    outcome = _take_outcome(call, given)
                yield _describe(step, "::".join(_name(call)), find_arguments(call), "", outcome)


def _answers(step: PastStep) -> bool:
    return step.kind == "results"


def _describe(
    step: PastStep, name: str, arguments: Mapping[str, Any], state: str, outcome: str
) -> dict[str, Any]:
    return {
        "name": name,
        "arguments": arguments,
        "state": state,
        "index": step.index,
        "outcome": outcome,
    }


def _name(call: Mapping[str, Any]) -> tuple[str, str]:
    path = f"{call.get('httpMethod', '')} {call.get('apiPath', '')}".strip()
    return str(call.get("actionGroup", "")), str(call.get("function") or path)


def _take_outcome(call: Mapping[str, Any], given: list[Mapping[str, Any]]) -> str:
    # Several calls of one name have their results in the same order.
    place = next((at for at, one in enumerate(given) if _name(one) == _name(call)), None)
    result = {} if place is None else given.pop(place)
    confirmed = _OUTCOMES.get(str(result.get("confirmationState")), "")
    if result.get("responseState"):
        return str(result["responseState"])
    return confirmed or ("carried out by you" if result else "not answered")


def find_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    """What a call of `invocationInputs` was called with, by name."""
    found = list(call.get("parameters") or ())
    for content in ((call.get("requestBody") or {}).get("content") or {}).values():
        found += content.get("properties", ()) if isinstance(content, Mapping) else content
    return {one["name"]: one.get("value") for one in found}
