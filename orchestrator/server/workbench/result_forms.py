"""Forms for calls that were handed to the user: what they were called with, and fields for results.

A caller gives a call's *result*, and can change none of its arguments (AWS: `sessionState`,
`returnControlInvocationResults`). So arguments are shown beside what their schema says of them, and
fields are those of the schema of the response, where an API's document has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Operation, Parameter
from orchestrator.engine.plan import Plan
from orchestrator.message import to_json
from orchestrator.server.workbench.handed_calls import find_arguments

_MOST_FIELDS = 200  # of one form
_MOST_CHOICES = 200
_MOST_DEPTH = 4  # of fields in fields; what is deeper is written as JSON
_LONGEST = 1_000  # characters of a description
_KINDS = {"string": "text", "number": "number", "integer": "integer"}


Find = Callable[[Mapping[str, Any]], Operation | None]
"""Finds the operation of a call."""


def describe_forms(inputs: Sequence[Mapping[str, Any]], find: Find) -> list[dict[str, Any]]:
    """A form for each call of `invocationInputs`: its `parameters`, and the `result`'s field.

    `result` is `None` where no schema says what comes back: a text or JSON is written then.
    """
    calls = [next(iter(item.values())) for item in inputs]
    return [_describe_form(call, find(call)) for call in calls]


def _describe_form(call: Mapping[str, Any], operation: Operation | None) -> dict[str, Any]:
    given = find_arguments(call)
    known = operation.parameters if operation is not None else ()
    parameters = [_describe_parameter(one, given) for one in known]
    names = {one.name for one in known}
    more = [Parameter(name, "") for name in given if name not in names]
    return {
        "parameters": [*parameters, *(_describe_parameter(one, given) for one in more)],
        "result": None if operation is None else _describe_result(operation.read_result_schema()),
    }


def find_operation(plan: Plan, call: Mapping[str, Any]) -> Operation | None:
    """The operation of a call, which may be one of a collaborator's."""
    group, name = str(call.get("actionGroup", "")), str(call.get("function") or "")
    verb, path = str(call.get("httpMethod", "")), str(call.get("apiPath", ""))
    plans = list(_iterate_plans(plan))
    # A team's agents may have groups of one name: the call says whose it is.
    plans.sort(key=lambda one: one.agent_id != call.get("agentId"))
    found = (one.catalog.find(group, name, verb, path) for one in plans)
    return next((one for one in found if one is not None and one.group == group), None)


def _iterate_plans(plan: Plan) -> Iterator[Plan]:
    yield plan
    for member in plan.collaborators.values():
        if member.agent is not None:
            yield from _iterate_plans(member.agent)


def _describe_parameter(parameter: Parameter, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "required": parameter.required,
        "description": parameter.description[:_LONGEST],
        "choices": list(parameter.schema.get("enum", ()))[:_MOST_CHOICES],
        "is_given": parameter.name in given,
        "value": given.get(parameter.name),
    }


def _describe_result(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    field = _Fields().read("", schema, required=True)
    # One text needs no field of its own: that is what one writes without a schema.
    return None if field["kind"] in ("text", "json") else field


class _Fields:
    def __init__(self) -> None:
        self._left = _MOST_FIELDS

    def read(
        self, name: str, schema: Mapping[str, Any], *, required: bool, depth: int = 0
    ) -> dict[str, Any]:
        """A field; one that is too deep, or of no single type, is of JSON."""
        self._left -= 1
        made: dict[str, Any] = {
            "name": name,
            "kind": _KINDS.get(str(schema.get("type")), "json"),
            "required": required,
            "description": str(schema.get("description", ""))[:_LONGEST],
        }
        choices = [True, False] if schema.get("type") == "boolean" else schema.get("enum")
        if isinstance(choices, list) and len(choices) <= _MOST_CHOICES:
            return {**made, "kind": "choice", "choices": [to_json(one) for one in choices]}
        if depth >= _MOST_DEPTH or self._left <= 0 or "anyOf" in schema:
            return {**made, "kind": "json"}
        properties, items = schema.get("properties"), schema.get("items")
        if schema.get("type") == "object" and properties:
            return {**made, **self._read_members(schema, depth)}
        if schema.get("type") == "array" and isinstance(items, Mapping):
            item = self.read("", items, required=True, depth=depth + 1)
            return {**made, "kind": "list", "item": item}
        return made

    def _read_members(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema["properties"], schema.get("required", ())
        if len(properties) > self._left:
            return {"kind": "json"}
        fields = [
            self.read(name, one, required=name in required, depth=depth + 1)
            for name, one in properties.items()
        ]
        return {"kind": "object", "fields": fields}
