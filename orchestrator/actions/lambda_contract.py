"""Bedrock's contract with an action's Lambda function: the event, and the response.

Responses are read as leniently as handlers are written; the trace has a note of every leniency.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from orchestrator.actions.base import ActionResult, Call, CallContext, Operation
from orchestrator.actions.results import as_text
from orchestrator.message import clean
from orchestrator.support.safe_json import read_json

LARGEST_PAYLOAD = 6 * 1024 * 1024
"""Bytes of an event, and of a response (AWS: "Lambda quotas", synchronous payload)."""

# What the model reads of a function that ran, when its answer cannot be read.
DONE = "The function ran: do not repeat it. Its answer"

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
    arguments, operation = call.arguments, call.operation
    parameters: list[dict[str, str]] = []
    properties: list[dict[str, str]] = []
    for parameter in operation.parameters:
        if parameter.name in arguments:
            entry = {
                "name": parameter.name,
                "type": parameter.type,
                "value": value_text(arguments[parameter.name]),
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


_ENVELOPE = ("response", "functionResponse", "responseBody")
_STATES = ("REPROMPT", "FAILURE")
_BASES, _PAIR = "knowledgeBasesConfiguration", ("knowledgeBaseId", "retrievalConfiguration")
_LONGEST_CONFIGURATIONS = 100_000
_PYTHON_TEXT = re.compile(r"\s*[\[({][\s\[({]*(?:'|\w+\()")


def read_response(returned: object, operation: Operation) -> ActionResult:
    """What a handler's return value means, at best Bedrock's response object. Never raises."""
    try:
        return _read(returned, operation)
    except Exception as error:  # classes of the handler's own may raise anything when looked at
        note = f"the response could not be read ({type(error).__name__})"
        return ActionResult(_repr(returned), notes=(note,))


def _read(returned: object, operation: Operation) -> ActionResult:
    notes: list[str] = []
    envelope = _envelope(returned, notes)
    if envelope is None:
        text = _text(returned, notes)
        return ActionResult(text, notes=tuple(notes))
    response = _response(envelope, operation, notes)
    inner = response.get("functionResponse", response)
    if not isinstance(inner, Mapping):
        notes.append("`functionResponse` is not an object")
        inner = {"responseBody": inner}
    return ActionResult(
        text=_body(inner, response, operation, notes),
        state=_state(inner, response, notes),
        session_attributes=_attributes(envelope, "sessionAttributes", notes),
        prompt_session_attributes=_attributes(envelope, "promptSessionAttributes", notes),
        http_status=_status(response, notes) if operation.verb else None,
        knowledge_bases=_configurations(envelope, notes),
        notes=tuple(notes),
    )


def _envelope(returned: object, notes: list[str]) -> Mapping[str, Any] | None:
    if isinstance(returned, str) and returned.lstrip()[:1] == "{":
        try:
            read = read_json(returned)
        except (ValueError, RecursionError):
            read = None
        if isinstance(read, dict) and any(key in read for key in _ENVELOPE):
            notes.append("the response is JSON text, not an object")
            returned = read
    if isinstance(returned, Mapping):
        if any(key in returned for key in _ENVELOPE):
            return returned
        if "statusCode" in returned and "body" in returned:
            notes.append("the response has API Gateway's form (`statusCode`, `body`)")
            body = {"application/json": {"body": returned["body"]}}
            inner = {"httpStatusCode": returned["statusCode"], "responseBody": body}
            return {"messageVersion": "1.0", "response": inner}
    kind = "nothing" if returned is None else f"a bare {type(returned).__name__}"
    notes.append(f"the handler returned {kind}, without `messageVersion` and `response`")
    return None


def _response(
    envelope: Mapping[str, Any], operation: Operation, notes: list[str]
) -> Mapping[str, Any]:
    version = envelope.get("messageVersion")
    if version is None:
        notes.append("`messageVersion` is missing")
    elif str(version) != "1.0":
        notes.append(f"`messageVersion` is {_short(version)}, not '1.0'")
    response = envelope.get("response", envelope)
    if response is envelope:
        notes.append("the response is not inside `response`")
    if not isinstance(response, Mapping):
        notes.append("`response` is not an object")
        return {"responseBody": response}
    _compare(response, operation, notes)
    return response


def _compare(response: Mapping[str, Any], operation: Operation, notes: list[str]) -> None:
    expected = {"actionGroup": operation.group}
    if operation.verb:
        expected.update(apiPath=operation.path, httpMethod=operation.verb)
    else:
        expected["function"] = operation.name
    for key, value in expected.items():
        written = response.get(key, value)
        is_verb = key == "httpMethod" and isinstance(written, str)
        if (written.upper() if is_verb else written) != value:
            notes.append(f"`{key}` is {_short(written)}, not {value!r}")


def _body(
    inner: Mapping[str, Any], response: Mapping[str, Any], operation: Operation, notes: list[str]
) -> str:
    contents = inner.get("responseBody", response.get("responseBody"))
    if contents is None:
        notes.append("`responseBody` is missing")
        return ""
    if not isinstance(contents, Mapping):
        notes.append(
            f"`responseBody` is a {type(contents).__name__}, not an object by content type"
        )
        return _text(contents, notes)
    wanted = "application/json" if operation.verb else "TEXT"
    content = contents.get(wanted)
    if content is None and contents:
        key = next(iter(contents))
        if key == "body":
            notes.append(f"`responseBody` has no content type; it should have {wanted!r}")
            return _text(contents["body"], notes)
        notes.append(f"the content type is {_short(key)}, not {wanted!r}")
        content = contents[key]
    if not isinstance(content, Mapping) or "body" not in content:
        notes.append("`body` is missing in the response's content")
        return _text(content, notes)
    return _text(content["body"], notes)


def _text(body: object, notes: list[str]) -> str:
    if isinstance(body, str):
        if _PYTHON_TEXT.match(body):
            notes.append("the body looks like Python's text of a value; `json.dumps` gives JSON")
        return body
    if body is not None:
        notes.append(f"the body is a {type(body).__name__}, not a text; made into JSON")
    else:
        notes.append("the body is empty")
    try:
        return as_text(body)
    except (TypeError, ValueError, RecursionError, OverflowError):
        notes.append("the body has no JSON form; shown as Python's text of it")
        return _repr(body)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # a handler's own class may raise anything here
        return f"<{type(value).__name__}: its text failed with {type(error).__name__}>"


def _state(inner: Mapping[str, Any], response: Mapping[str, Any], notes: list[str]) -> str:
    written = inner.get("responseState", response.get("responseState"))
    if written is None or written == "":
        return ""
    state = written.upper() if isinstance(written, str) else ""
    if state not in _STATES:
        notes.append(f"`responseState` is {_short(written)}, not REPROMPT or FAILURE; ignored")
        return ""
    if state != written:
        notes.append(f"`responseState` is {_short(written)}, not {state!r}")
    return state


def _attributes(envelope: Mapping[str, Any], key: str, notes: list[str]) -> dict[str, str] | None:
    written = envelope.get(key)
    if written is None:
        return None
    if not isinstance(written, Mapping):
        notes.append(f"`{key}` is not an object; ignored")
        return None
    if all(type(k) is str and type(v) is str for k, v in written.items()):
        return dict(written)
    notes.append(f"`{key}` has values that are not texts; made into texts")
    return {str(k): value_text(v) for k, v in written.items() if v is not None}


def _configurations(
    envelope: Mapping[str, Any], notes: list[str]
) -> dict[str, dict[str, Any]] | None:
    written = envelope.get(_BASES)
    if written is None:
        return None
    try:
        text = json.dumps(written)
        # A round trip through JSON: what a handler returns may be any Python object.
        listed = read_json(text) if len(text) <= _LONGEST_CONFIGURATIONS else None
    except (TypeError, ValueError, RecursionError):
        listed = None
    found = {}
    for one in listed if isinstance(listed, list) else [None]:
        base, configuration = (one.get(key) for key in _PAIR) if isinstance(one, dict) else (0, 0)
        if isinstance(base, str) and isinstance(configuration, dict):
            found[base] = configuration
        else:
            notes.append(f"`{_BASES}` is not a list of {' and '.join(_PAIR)}; ignored")
            break
    return clean(found) or None


def _status(response: Mapping[str, Any], notes: list[str]) -> int | None:
    written = response.get("httpStatusCode")
    if written is None:
        return None
    if isinstance(written, str) and re.fullmatch(r"[1-5][0-9][0-9]", written):
        notes.append("`httpStatusCode` is a text, not a number")
        written = int(written)
    if type(written) is not int:
        notes.append(f"`httpStatusCode` is {_short(written)}, not a number; ignored")
        return None
    if written >= 400:
        # (Bedrock passes the body to the model whatever the status is; so do we.)
        notes.append(f"the HTTP status is {written}")
    return written


def _short(value: object) -> str:
    text = _repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
