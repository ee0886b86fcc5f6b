"""Every operation through boto3: whatever the server cannot do, it says so as AWS's models do."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.model import ListShape, MapShape, Shape, StringShape, StructureShape
from control_support import Served, served
from shape_values import ALL, CALLED, Operation

from orchestrator.server.wire.api import Api
from orchestrator.server.wire.shapes import SERVICES, operation_model


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(lambda request: "Yes.") as running:
        yield running


def sample(shape: Shape) -> Any:
    """A value that boto3 sends, whatever the server makes of it."""
    if isinstance(shape, StructureShape):
        names = shape.required_members or (list(shape.members)[:1] if shape.is_tagged_union else [])
        return {} if shape.is_document_type else {it: sample(shape.members[it]) for it in names}
    if isinstance(shape, ListShape):
        return [sample(shape.member)] * max(shape.metadata.get("min", 0), 1)
    if isinstance(shape, MapShape):
        return {sample(shape.key): sample(shape.value)}
    if isinstance(shape, StringShape):
        return shape.enum[0] if shape.enum else "x" * max(shape.metadata.get("min", 0), 1)
    number = max(shape.metadata.get("min", 0), 1)
    return {"boolean": True, "blob": b"x", "timestamp": "2026-01-01T00:00:00Z"}.get(
        shape.type_name, number
    )


def call(server: Served, operation: Operation) -> dict[str, Any]:
    """The answer to a call with few members, or the error that it ends with."""
    service, name = operation
    client = server.clients(service)
    shape = operation_model(*operation).input_shape
    try:
        answer = getattr(client, xform_name(name))(**(sample(shape) if shape else {}))
    except ClientError as error:
        return error.response
    for value in answer.values():
        close = getattr(value, "close", None)
        if close is not None:
            close()
    return dict(answer)


@pytest.mark.parametrize("service", SERVICES)
def test_an_error_of_any_operation_is_one_of_its_model(server: Served, service: str) -> None:
    there, missing = Api(server.world.operations()).list_operations()[service]
    assert set(there) | set(missing) == {name for it, name in ALL if it == service}
    wrong = {}
    for operation in CALLED:
        if operation[0] != service:
            continue
        answer = call(server, operation)
        model, error = operation_model(*operation), answer.get("Error")
        statuses = {
            it.name: it.metadata.get("error", {}).get("httpStatusCode") for it in model.error_shapes
        }
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        if error is None:
            fine = operation[1] in there and status == model.http["responseCode"]
        elif operation[1] in missing:
            # Three operations of `bedrock` know no wrong request.
            known = "ValidationException" in statuses
            code = "ValidationException" if known else "AccessDeniedException"
            fine = error["Code"] == code and operation[1] in error["Message"]
        else:
            fine = statuses.get(error["Code"]) == status
        if not fine or (error is not None and error["Code"] not in statuses):
            wrong[operation[1]] = (status, error)
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())


def test_what_boto3_cannot_call_is_refused_too(server: Served) -> None:
    """boto3 has no call for an event stream of requests: it needs HTTP/2."""
    ((service, name),) = set(ALL) - set(CALLED)
    model = operation_model(service, name)
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    connection.request(model.http["method"], model.http["requestUri"].replace("{modelId}", "x"))
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == 400
    assert answer.headers["x-amzn-ErrorType"] == "ValidationException"
    assert b"InvokeModelWithBidirectionalStream of bedrock-runtime is not implemented" in body
