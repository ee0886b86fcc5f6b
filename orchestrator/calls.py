"""The calls of one reply: from what the model wrote to validated calls, and to their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions import Catalog, ReturnControl
from orchestrator.actions.base import Call, Operation
from orchestrator.effects import WaitingCall
from orchestrator.errors import ValidationError
from orchestrator.reading import Invocation

__all__ = ["Slot", "identity", "invocation_input", "match_results", "prepare", "waiting_kind"]


class Slot:
    """One call of a reply, and what the model will read as its result.

    Attributes:
        id: The tool-use id that the result answers.
        name: The tool name as the model wrote it.
        call: The validated call, or `None` when it is wrong.
        text: The result; `None` until it is known.
        error: Whether the result tells of a mistake.
        search: The knowledge base and query of a search; its text is then made by a partial.
    """

    __slots__ = ("call", "error", "id", "name", "search", "text")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.call: Call | None = None
        self.text: str | None = None
        self.error = False
        self.search: tuple[str, str] | None = None

    def reject(self, text: str) -> None:
        """Answers the call with a mistake that the model can mend."""
        self.text = text
        self.error = True

    def as_result(self) -> dict[str, Any]:
        """The result, as `Dialect.step_messages` takes it."""
        return {
            "id": self.id,
            "name": self.name,
            "text": self.text or "",
            "error": self.error,
            "markup": self.search is not None and not self.error,
        }


def prepare(catalog: Catalog, invocation: Invocation, id: str, key: str) -> Slot:
    """Finds and validates one action call; mistakes become results that the model can mend.

    Args:
        catalog: The agent's operations.
        invocation: The call as the model wrote it.
        id: Names the call in the turn.
        key: Its idempotency key.
    """
    slot = Slot(invocation.id or id, invocation.name)
    operation = catalog.find(
        invocation.group, name=invocation.function, verb=invocation.verb, path=invocation.function
    )
    if operation is None:
        slot.reject(catalog.unknown(invocation.name))
        return slot
    arguments, problems = catalog.validate(operation, invocation.arguments)
    if problems:
        slot.reject(" ".join(problems))
        return slot
    slot.call = Call(id, operation, arguments, key)
    return slot


def identity(call: Call) -> tuple[str, str]:
    """What makes two calls the same: the operation and its arguments."""
    return call.operation.xml_name, json.dumps(call.arguments, sort_keys=True, default=str)


def waiting_kind(catalog: Catalog, operation: Operation) -> str:
    """How a call waits for the caller, as Bedrock's `actionInvocationType`; empty: not at all."""
    handed_over = isinstance(catalog.executor(operation), ReturnControl)
    if operation.require_confirmation:
        return "USER_CONFIRMATION_AND_RESULT" if handed_over else "USER_CONFIRMATION"
    return "RESULT" if handed_over else ""


def invocation_input(catalog: Catalog, waiting: WaitingCall, agent_id: str) -> dict[str, Any]:
    """A waiting call in the shape of Bedrock's `returnControl.invocationInputs`."""
    operation = waiting.call.operation
    parameters, body = catalog.parameters(waiting.call)
    shared = {
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
    waiting: Sequence[WaitingCall], results: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Brings the caller's results into the order of the calls that wait for them.

    Calls of the same operation take their results in order.

    Raises:
        ValidationError: A call has no result, or a result has no call.
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
        found.append(left.pop(index))
    if left:
        raise ValidationError(f"{len(left)} results fit no call of the hand-over: {_told(left[0])}")
    return found


def _result_member(result: Mapping[str, Any]) -> dict[str, Any]:
    member = result.get("functionResult") or result.get("apiResult")
    if not isinstance(member, dict) or not isinstance(member.get("actionGroup"), str):
        raise ValidationError(
            "a result must be {'functionResult': {...}} or {'apiResult': {...}} with 'actionGroup'"
        )
    return member


def _fits(call: Call, result: Mapping[str, Any]) -> bool:
    operation = call.operation
    if result["actionGroup"] != operation.group:
        return False
    if operation.verb:
        same_verb = str(result.get("httpMethod", operation.verb)).upper() == operation.verb
        return result.get("apiPath") == operation.path and same_verb
    return result.get("function") == operation.name


def _told(result: Mapping[str, Any]) -> str:
    return repr(f"{result['actionGroup']}::{result.get('function') or result.get('apiPath')}")
