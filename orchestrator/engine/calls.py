"""The calls of one reply: from what the model wrote to validated calls, and to their results."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.actions import Catalog
from orchestrator.actions.base import Call, Operation, Parameter
from orchestrator.actions.lambda_contract import call_parameters
from orchestrator.engine.effects import Branch, WaitingCall
from orchestrator.engine.toolbox import search_name
from orchestrator.errors import ValidationError
from orchestrator.prompts import Dialect

_STATES = {
    "confirmationState": ("CONFIRM", "DENY"),
    "responseState": ("FAILURE", "REPROMPT"),
}


@dataclass(slots=True, eq=False)
class Slot:
    """One call of a reply, and what the model will read as its result."""

    id: str  # the tool-use id that the result answers
    name: str  # the tool name as the model wrote it
    call: Call | None = None  # the validated call, or `None` when it is wrong
    text: str | None = None  # the result; `None` until it is known
    error: bool = False  # whether the result tells of a mistake
    # How the call waits for the caller (`actionInvocationType`); empty: it does not
    waits: str = ""
    # The parameter whose value the model says that it does not know
    unknown: Parameter | None = None
    # The knowledge base and query of a search; its text is then made by a partial
    search: tuple[str, str] | None = None
    branch: Branch | None = None
    payloads: str = ""  # the text that has the payloads which it shares
    # Whether no guardrail has to read the text any more: it did, or the text is ours
    checked: bool = False

    def reject(self, text: str) -> None:
        """Answers the call with a mistake that the model can mend, in words of our own."""
        self.text = text
        self.error = self.checked = True

    def keep_back(self) -> None:
        """Keeps the result from later turns, if this one ended before it was checked."""
        if self.text and not self.checked:
            self.text, self.checked = "There was a result, which was not kept.", True

    def as_result(self) -> dict[str, Any]:
        """The result, as `Dialect.step_messages` takes it."""
        return {
            "id": self.id,
            "name": self.name,
            "text": self.text or "",
            "error": self.error,
            "markup": self.search is not None and not self.error,
        }


def prepare(catalog: Catalog, item: Mapping[str, Any], dialect: Dialect, id: str, key: str) -> Slot:
    """Finds and validates one action call; mistakes become results that the model can mend.

    `item` is a member of the parser's `actionGroupInvocations`. `id` names the call in the turn,
    because the model's own ids may come twice; `key` is its idempotency key.
    """
    group = item.get("actionGroupName") or ""
    name = item.get("functionName") or item.get("apiName") or ""
    verb = item.get("verb") or ""
    operation = catalog.find(group, name, verb, name)
    slot = Slot(item.get("id") or id, operation.xml_name if operation else "")
    if operation is None:
        mark = "__" if dialect.protocol == "tool_use" else "::"
        slot.name = mark.join([part for part in (verb, group, name) if part])
        slot.reject(catalog.unknown(slot.name, dialect.protocol))
        return slot
    values = item.get("actionGroupInput") or {}
    if dialect.unknown_value:
        slot.unknown = _find_unknown(operation, values, dialect.unknown_value)
        if slot.unknown is not None:
            return slot
    given = {parameter: value.get("value") for parameter, value in values.items()}
    arguments, problems = catalog.validate(operation, given, dialect.protocol)
    if problems:
        slot.reject(" ".join(problems))
        return slot
    slot.call = Call(id, operation, arguments, key)
    slot.waits = catalog.waits(operation)
    return slot


def _find_unknown(operation: Operation, values: Mapping[str, Any], mark: str) -> Parameter | None:
    for parameter in operation.parameters:
        if (values.get(parameter.name) or {}).get("value") == mark:
            return parameter
    return None


def prepare_search(
    known: Collection[str], item: Mapping[str, Any], dialect: Dialect, id: str
) -> Slot:
    """The same for a member of the parser's `agentKnowledgeBases`."""
    base = item.get("knowledgeBaseId") or ""
    query = (item.get("searchQuery") or {}).get("value") or ""
    slot = Slot(item.get("id") or id, search_name(base, dialect.protocol))
    if base not in known:
        there = ", ".join(known) or "none"
        slot.reject(f"{base!r} is not a knowledge base; there are: {there}.")
    elif mistake := _query_mistake(str(query)):
        slot.reject(mistake)
    else:
        slot.search = (base, str(query))
    return slot


def _query_mistake(query: str) -> str:
    # Checked here, since what a knowledge base refuses is its configuration, too: that is not the
    # model's to mend.
    from orchestrator.knowledge.settings import check_query

    try:
        check_query(query)
    except ValidationError as error:
        return f"Nothing was searched: {error.message}."
    return ""


def identity(call: Call) -> tuple[str, str]:
    """What makes two calls the same: the operation and its arguments."""
    return call.operation.xml_name, json.dumps(call.arguments, sort_keys=True, default=str)


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
    waiting: Sequence[WaitingCall], results: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Brings the caller's results into the order of the calls that wait for them.

    Calls of the same operation take their results in order.

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
        _check_confirmation(item, result)
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
    found = isinstance(result, Mapping) and (
        result.get("functionResult") or result.get("apiResult")
    )
    if not isinstance(found, dict) or not isinstance(found.get("actionGroup"), str):
        raise ValidationError(
            "a result must be {'functionResult': {...}} or {'apiResult': {...}} with 'actionGroup'"
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
    # What the user was to confirm is never carried out because something else was said.
    if waiting.kind == "USER_CONFIRMATION" and not result.get("confirmationState"):
        raise ValidationError(
            f"the call of {waiting.call.operation.xml_name!r} asks for confirmation: its result "
            "needs 'confirmationState': 'CONFIRM' or 'DENY'"
        )


def _fits(call: Call, result: Mapping[str, Any]) -> bool:
    operation = call.operation
    if result["actionGroup"] != operation.group:
        return False
    if operation.verb:
        same_verb = str(result.get("httpMethod", operation.verb)).upper() == operation.verb
        return result.get("apiPath") == operation.path and same_verb
    return result.get("function") == operation.name
