"""Bedrock's form of a call: parameter list, request body, and the event of an action's Lambda."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.actions.base import Call, CallContext

_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode


def value_text(value: Any) -> str:
    """A value as Bedrock writes it: always a text; JSON for lists and objects, `true`, `false`."""
    # AWS: every parameter's value is a text in the event, also numbers and lists.
    if isinstance(value, str):
        return value
    return _encode(value)


def call_parameters(call: Call) -> tuple[list[dict[str, str]], dict[str, Any] | None]:
    """The `parameters` and the `requestBody` of a call, as in Bedrock's events and traces.

    The parameters are in the schema's order, without those of the body; the request body is
    `{"content": {type: {"properties": [...]}}}`, or `None` when the operation has none.
    """
    given, operation = call.arguments, call.operation
    parameters: list[dict[str, str]] = []
    properties: list[dict[str, str]] = []
    for parameter in operation.parameters:
        if parameter.name in given:
            entry = {
                "name": parameter.name,
                "type": parameter.type,
                "value": value_text(given[parameter.name]),
            }
            (properties if parameter.location == "body" else parameters).append(entry)
    if not operation.content_type:
        return parameters, None
    return parameters, {"content": {operation.content_type: {"properties": properties}}}


def lambda_event(call: Call, context: CallContext) -> dict[str, Any]:
    """The event that Bedrock gives to an action group's Lambda function.

    (Bedrock: "Configure Lambda functions to send information that an agent elicits".) Every member
    is a copy: a handler that changes its event changes nothing else.
    """
    operation = call.operation
    parameters, body = call_parameters(call)
    event: dict[str, Any] = {
        "messageVersion": "1.0",
        "agent": dict(context.agent),
        "inputText": context.input_text,
        "sessionId": context.session_id,
        "actionGroup": operation.group,
        "parameters": parameters,
        "sessionAttributes": dict(context.session_attributes),
        "promptSessionAttributes": dict(context.prompt_session_attributes),
    }
    # AWS: a function's event has `function`, an API operation's `apiPath` and `httpMethod`.
    if not operation.verb:
        event["function"] = operation.name
        return event
    event["apiPath"] = operation.path
    event["httpMethod"] = operation.verb
    if body is not None:
        event["requestBody"] = body
    return event
