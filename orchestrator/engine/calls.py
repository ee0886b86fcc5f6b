"""What calls of a reply hand over to the caller, and what their results bring back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Call
from orchestrator.actions.lambda_contract import call_parameters
from orchestrator.engine.effects import WaitingCall
from orchestrator.errors import ValidationError

_STATES = {
    "confirmationState": ("CONFIRM", "DENY"),
    "responseState": ("FAILURE", "REPROMPT"),
}


def invocation_input(waiting: WaitingCall, agent_id: str) -> dict[str, Any]:
    """A waiting call in the shape of Bedrock's `returnControl.invocationInputs`."""
    operation = waiting.call.operation
    parameters, body = call_parameters(waiting.call)
    shared: dict[str, Any] = {
        "actionGroup": operation.group,
        "parameters": parameters,
        "actionInvocationType": waiting.kind,
        "agentId": agent_id,
    }
    if not operation.verb:
        return {"functionInvocationInput": {**shared, "function": operation.name}}
    made = {**shared, "apiPath": operation.path, "httpMethod": operation.verb}
    if body is not None:
        made["requestBody"] = body
    return {"apiInvocationInput": made}


def match_results(
    waiting: Sequence[WaitingCall],
    results: Sequence[Mapping[str, Any]],
    check: Callable[[WaitingCall, Mapping[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Brings the caller's results into the order of the calls that wait for them.

    Calls of the same operation take their results in order. `check` raises for a result that does
    not say what its call waits for.

    Raises:
        ValidationError: A call has no result, or a result has no call or is another agent's.
    """
    left: list[dict[str, Any]] = [_result_member(result) for result in results]
    found = []
    for item in waiting:
        index = next((i for i, result in enumerate(left) if _fits(item.call, result)), None)
        if index is None:
            raise ValidationError(
                f"no result was given for {item.call.operation.xml_name!r}; every call of the "
                "hand-over needs one, with its actionGroup and function, or apiPath and httpMethod"
            )
        result = left.pop(index)
        _check_agent(item, result)
        (check or _check_confirmation)(item, result)
        found.append(result)
    if left:
        first = left[0]
        named = f"{first['actionGroup']}::{first.get('function') or first.get('apiPath')}"
        raise ValidationError(f"{len(left)} results fit no call of the hand-over: {named!r}")
    return found


class AttributeMerger:
    """Session attributes that calls carried out at the same time return, brought together.

    Each call saw the attributes as they were before all of them and returns them whole; what it
    changed is the difference. Differences are applied in the calls' order.
    """

    __slots__ = ("_before", "_order", "_returned")

    def __init__(self, before: Mapping[str, str], calls: Sequence[Call]) -> None:
        self._before = before
        self._order = [call.id for call in calls]
        self._returned: dict[str, Mapping[str, str]] = {}

    def add(self, id: str, attributes: Mapping[str, str]) -> Mapping[str, str]:
        """Takes what a call returned; gives the attributes that the calls so far make."""
        self._returned[id] = attributes
        now = self._before
        for one in self._order:
            if one in self._returned:
                now = merge_changes(self._before, now, self._returned[one])
        return now


def merge_changes(
    before: Mapping[str, str], now: Mapping[str, str], returned: Mapping[str, str]
) -> Mapping[str, str]:
    """`now` with the changes that make `returned` out of `before`."""
    if now is before:
        return returned
    kept = {key: value for key, value in now.items() if key in returned or key not in before}
    changed = {key: value for key, value in returned.items() if before.get(key) != value}
    return {**kept, **changed}


def result_text(result: Mapping[str, Any]) -> str:
    """The text of a caller's result; empty when it has no body."""
    for content in (result.get("responseBody") or {}).values():
        return str(content["body"])
    return ""


def _result_member(result: Mapping[str, Any]) -> dict[str, Any]:
    kinds = ("functionResult", "apiResult")
    members = [result.get(kind) for kind in kinds] if isinstance(result, Mapping) else []
    given = [one for one in members if one is not None]
    # botocore: a union, of which exactly one member is set
    found = given[0] if len(given) == 1 else None
    if not isinstance(found, dict) or not isinstance(found.get("actionGroup"), str):
        raise ValidationError(
            "a result must be either {'functionResult': {...}} or {'apiResult': {...}}, with "
            "'actionGroup', and not both"
        )
    for member, allowed in _STATES.items():
        if found.get(member) not in (None, *allowed):
            raise ValidationError(
                f"{member} of a result must be {' or '.join(allowed)}, not {found[member]!r:.80}"
            )
    body = found.get("responseBody") or {}
    contents = body.values() if isinstance(body, Mapping) else [None]
    if not all(isinstance(one, Mapping) and isinstance(one.get("body"), str) for one in contents):
        raise ValidationError(
            "responseBody of a result must be {'TEXT': {'body': '...'}} for a function, or have "
            "a content type such as 'application/json' for an API operation"
        )
    return found


def _check_agent(waiting: WaitingCall, result: Mapping[str, Any]) -> None:
    if result.get("agentId") not in (None, waiting.agent_id):
        raise ValidationError(
            f"the result of {waiting.call.operation.xml_name!r} has the agentId "
            f"{result['agentId']!r:.80}, but the agent {waiting.agent_id!r} waits for it; repeat "
            "the agentId of the hand-over, or leave it out"
        )


def _check_confirmation(waiting: WaitingCall, result: Mapping[str, Any]) -> None:
    name, said = waiting.call.operation.xml_name, result.get("confirmationState")
    # What the user was to confirm is never carried out because something else was said.
    if waiting.kind == "USER_CONFIRMATION":
        if not said:
            raise ValidationError(
                f"the call of {name!r} asks for confirmation: its result needs "
                "'confirmationState': 'CONFIRM' or 'DENY'"
            )
        return
    if said == "DENY" and waiting.kind == "RESULT":
        raise ValidationError(
            f"the result of {name!r} has the confirmationState 'DENY', but the call asked for no "
            "confirmation: give its result, or the responseState 'FAILURE'"
        )
    has_result = result.get("responseBody") or result.get("responseState")
    if said == "CONFIRM" and not has_result:
        raise ValidationError(
            f"the call of {name!r} waits for what the caller's own carrying out gave, and a "
            "confirmation is no result: give 'responseBody'"
        )


def _fits(call: Call, result: Mapping[str, Any]) -> bool:
    operation = call.operation
    if result["actionGroup"] != operation.group:
        return False
    if operation.verb:
        same_verb = str(result.get("httpMethod", operation.verb)).upper() == operation.verb
        return result.get("apiPath") == operation.path and same_verb
    return result.get("function") == operation.name
