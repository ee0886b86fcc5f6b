"""Every operation of the four services: what botocore sends is read, what is answered it reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shape_values import ALL, CALLED, STREAMED, Operation, parsed, sent, values

from orchestrator.server.wire.api import Api
from orchestrator.server.wire.requests import get_request_reader
from orchestrator.server.wire.responses import get_response_writer
from orchestrator.server.wire.shapes import operation_model

# For each of many operations.
SOME = settings(max_examples=settings().max_examples // 10, suppress_health_check=list(HealthCheck))
API = Api({})


def named(operation: Operation) -> str:
    return "-".join(operation)


@pytest.mark.parametrize("operation", CALLED, ids=named)
@SOME
@given(data=st.data())
def test_a_request_is_read_as_it_was_given(operation: Operation, data: st.DataObject) -> None:
    model = operation_model(*operation)
    params = data.draw(values(model.input_shape)) if model.input_shape is not None else {}
    method, path, query, headers, body = sent(model, params)
    matched = API.match(method, path, query)
    assert matched is not None
    route = next(it for it in matched.routes if (it.service, it.operation) == operation)
    labels = dict(zip(route.labels, matched.labels, strict=True))
    read = get_request_reader(*operation).read(labels, query, headers, body)
    assert read == _given(model, params, headers)


def _given(model: Any, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """The parameters; an empty list in a query and an empty body are not sent, a type always is."""
    told = dict(params)
    for name, shape in model.input_shape.members.items() if model.input_shape else ():
        where = shape.serialization.get("location")
        if where == "querystring" and told.get(name) == []:
            if name not in model.input_shape.required_members:
                del told[name]
        if where is None and model.input_shape.serialization.get("payload") == name:
            if told.get(name) == b"":
                del told[name]
        if where == "header" and shape.serialization["name"].lower() in headers:
            told.setdefault(name, headers[shape.serialization["name"].lower()])
    return told


@pytest.mark.parametrize("operation", [it for it in ALL if it not in STREAMED], ids=named)
@SOME
@given(data=st.data())
def test_an_answer_is_what_botocore_reads(operation: Operation, data: st.DataObject) -> None:
    model = operation_model(*operation)
    output = data.draw(values(model.output_shape)) if model.output_shape is not None else {}
    answer = get_response_writer(*operation).answer(output)
    assert answer.status == model.http["responseCode"]
    assert isinstance(answer.body, bytes)
    read = parsed(model, answer.status, answer.headers, answer.body)
    if operation[1] == "InvokeModel":
        output.setdefault("contentType", "application/octet-stream")
    assert read == output
