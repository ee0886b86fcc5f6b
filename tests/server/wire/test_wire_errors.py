"""What goes wrong arrives at boto3's own clients as the exception that the service models."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError
from shape_values import ALL, Operation, parsed
from wired import client, served

from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DefinitionError,
    DependencyFailed,
    LimitExceeded,
    ModelNotReady,
    ModelOutputError,
    OrchestratorError,
    ResourceNotFound,
    SessionConflict,
    TemplateError,
    ThrottlingError,
    ValidationError,
)
from orchestrator.server.operations import EventStream, Fault, Request
from orchestrator.server.wire.api import Api, OperationMatch, Route
from orchestrator.server.wire.shapes import operation_model

AGENT = "ABCDEFGHIJ"


def raising(error: BaseException) -> Callable[[Request], Mapping[str, Any]]:
    def handler(request: Request) -> Mapping[str, Any]:
        raise error

    return handler


def named(operation: Operation) -> str:
    return "-".join(operation)


@pytest.mark.parametrize("operation", ALL, ids=named)
def test_every_modelled_error_is_the_one_that_botocore_reads(operation: Operation) -> None:
    model = operation_model(*operation)
    for shape in model.error_shapes:
        fault = Fault(shape.name, "It is not so.")
        answer = Api({}).refuse(fault, OperationMatch((Route(*operation),), ()), "r-1")
        assert isinstance(answer.body, bytes)
        assert answer.status == shape.metadata["error"]["httpStatusCode"]
        assert answer.headers["x-amzn-RequestId"] == "r-1"
        read = parsed(model, answer.status, answer.headers, answer.body)
        assert read["Error"] == {"Code": shape.name, "Message": "It is not so."}
        assert model.service_model.shape_for_error_code(shape.name) is not None


ERRORS: list[tuple[BaseException, str, int]] = [
    (ValidationError("Wrong."), "ValidationException", 400),
    (DefinitionError("Wrong."), "ValidationException", 400),
    (TemplateError("Wrong."), "ValidationException", 400),
    (ResourceNotFound("None."), "ResourceNotFoundException", 404),
    (SessionConflict("Busy."), "ConflictException", 409),
    (AccessDenied("No."), "AccessDeniedException", 403),
    (ThrottlingError("Slower."), "ThrottlingException", 429),
    (DependencyFailed("Broken."), "DependencyFailedException", 424),
    (ActionOutcomeUnknown("Unknown."), "DependencyFailedException", 424),
    (ModelOutputError("Odd."), "DependencyFailedException", 424),
    (ModelNotReady("Loading."), "ModelNotReadyException", 424),
    (LimitExceeded("Enough.", limit="tokens"), "ServiceQuotaExceededException", 400),
    (OrchestratorError("Ours."), "InternalServerException", 500),
    (Fault("BadGatewayException", "Gone."), "BadGatewayException", 502),
]


@pytest.mark.parametrize(("error", "name", "status"), ERRORS, ids=lambda it: type(it).__name__)
def test_an_error_is_raised_by_boto3_as_the_class_of_its_name(
    error: BaseException, name: str, status: int
) -> None:
    with served({"bedrock-agent-runtime": {"InvokeAgent": raising(error)}}) as url:
        runtime = client("bedrock-agent-runtime", url)
        with pytest.raises(getattr(runtime.exceptions, name)) as caught:
            runtime.invoke_agent(agentId=AGENT, agentAliasId="TSTALIASID", sessionId="s-1")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert caught.value.response["Error"]["Message"] == getattr(error, "message", "")


@pytest.mark.parametrize(
    ("service", "operation", "name", "becomes"),
    [
        ("bedrock-agent", "GetAgent", "DependencyFailedException", "InternalServerException"),
        ("bedrock-agent", "GetAgent", "ConflictException", "ValidationException"),
        ("bedrock-runtime", "Converse", "DependencyFailedException", "ModelErrorException"),
        ("bedrock-runtime", "Converse", "ServiceQuotaExceededException", "ValidationException"),
        ("bedrock-agent-runtime", "Retrieve", "ModelNotReadyException", "DependencyFailed"),
        ("bedrock-agent", "GetAgent", "SomethingElseException", "InternalServerException"),
    ],
)
def test_an_error_that_is_not_modelled_becomes_the_nearest_that_is(
    service: str, operation: str, name: str, becomes: str
) -> None:
    answer = Api({}).refuse(Fault(name, "x"), OperationMatch((Route(service, operation),), ()))
    assert answer.headers["x-amzn-ErrorType"].startswith(becomes)


def test_a_mistake_of_ours_tells_the_caller_only_the_requests_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with served({"bedrock-agent": {"ListAgents": raising(KeyError("secret-7"))}}) as url:
        agents = client("bedrock-agent", url)
        with (
            caplog.at_level(logging.ERROR, "orchestrator.server"),
            pytest.raises(agents.exceptions.InternalServerException) as caught,
        ):
            agents.list_agents()
    found = caught.value.response
    assert "secret-7" not in str(found)
    assert found["ResponseMetadata"]["RequestId"] in found["Error"]["Message"]
    (record,) = [it for it in caplog.records if it.name == "orchestrator.server"]
    assert found["ResponseMetadata"]["RequestId"] in record.getMessage()
    assert "KeyError" in record.getMessage() and "in handler" in caplog.text
    assert "secret-7" not in caplog.text


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ({}, "agentSummaries"),
        ({"agentSummaries": [{}]}, "agentId"),
        ({"agentSummaries": "none"}, "list"),
        ({"agentSummaries": [], "total": 0}, "total"),
        ({"agentSummaries": [], "nextToken": 7}, "nextToken"),
        (EventStream(None), "must give back a mapping"),  # type: ignore[arg-type]
        (None, "must give back a mapping"),
    ],
    ids=["missing", "missing inside", "kind", "unknown", "kind of text", "a stream", "nothing"],
)
def test_an_output_that_is_not_modelled_is_an_internal_error(
    output: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with served({"bedrock-agent": {"ListAgents": lambda request: output}}) as url:
        agents = client("bedrock-agent", url)
        with pytest.raises(agents.exceptions.InternalServerException):
            agents.list_agents()
    assert says in caplog.text


def test_an_output_against_a_limit_is_answered_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    summary = {"agentId": "too-short", "agentName": "hr", "agentStatus": "PREPARED"}
    output = {"agentSummaries": [{**summary, "updatedAt": "2026-01-01T00:00:00Z"}] * 3}
    with served({"bedrock-agent": {"ListAgents": lambda request: output}}) as url:
        agents = client("bedrock-agent", url)
        for _ in range(2):
            assert agents.list_agents()["agentSummaries"][2]["agentId"] == "too-short"
    told = [it.getMessage() for it in caplog.records if it.name == "orchestrator.server"]
    assert len(told) == 1 and "agentSummaries.N.member.agentId" in told[0]
    assert "too-short" not in told[0]
    caplog.clear()


def test_an_operation_without_a_handler_is_named() -> None:
    with served({}) as url:
        agents = client("bedrock-agent", url)
        with pytest.raises(agents.exceptions.ValidationException, match="CreateFlow of bedrock-ag"):
            agents.create_flow(name="f", executionRoleArn="arn:aws:iam::000000000000:role/r")


def test_an_unknown_address_is_an_unknown_operation() -> None:
    with served({}) as url:
        runtime = client("bedrock-runtime", f"{url}/elsewhere")
        with pytest.raises(ClientError) as caught:
            runtime.converse(modelId="m", messages=[])
    assert caught.value.response["Error"]["Code"] == "UnknownOperationException"
    assert "there is no operation " in caught.value.response["Error"]["Message"]
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_handlers_of_what_no_model_has_are_refused() -> None:
    with pytest.raises(ValueError, match="'bedrock-data'"):
        Api({"bedrock-data": {}})
    with pytest.raises(ValueError, match="'MakeAgent'"):
        Api({"bedrock-agent": {"MakeAgent": raising(KeyError())}})
