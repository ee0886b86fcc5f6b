"""Converse and ConverseStream as boto3's own client sees them."""

from __future__ import annotations

import asyncio
from contextlib import closing
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError
from inference_support import CLAUDE, HELLO, TOOL, TOOL_USE, Failing, request

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    ModelNotReady,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.server.document_store import DocumentStore
from orchestrator.server.guardrails.store import GuardrailStore
from orchestrator.server.ids import Arns
from orchestrator.server.inference.handlers import Inference
from orchestrator.server.inference.models import Models
from orchestrator.server.operations import Caller
from orchestrator.server.prompt_management.store import PromptStore
from orchestrator.server.settings import Settings
from orchestrator.testing import ScriptedModel


def converse(server: Any, **params: Any) -> Any:
    return server.client.converse(modelId=CLAUDE, **{"messages": HELLO, **params})


def events_of(server: Any, **params: Any) -> list[dict[str, Any]]:
    given = {"modelId": CLAUDE, "messages": HELLO, **params}
    with closing(server.client.converse_stream(**given)["stream"]) as stream:
        return list(stream)


def test_a_whole_reply(start):
    server = start([ModelReply([{"text": "Hi."}, TOOL_USE], "tool_use", Usage(9, 4, 2, 1, 1))])
    answer = converse(server, toolConfig={"tools": [TOOL]})
    assert answer["output"]["message"] == {
        "role": "assistant",
        "content": [{"text": "Hi."}, TOOL_USE],
    }
    assert answer["stopReason"] == "tool_use"
    assert answer["usage"] == {
        "inputTokens": 9,
        "outputTokens": 4,
        "totalTokens": 16,
        "cacheReadInputTokens": 2,
        "cacheWriteInputTokens": 1,
    }
    assert answer["metrics"]["latencyMs"] >= 0


def test_the_events_of_a_streamed_reply(start):
    server = start([ModelReply([{"text": "Hi."}, TOOL_USE], "tool_use", Usage(9, 4))], chunk=2)
    *events, metadata = events_of(server, toolConfig={"tools": [TOOL]})
    assert events == [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"delta": {"text": "Hi"}, "contentBlockIndex": 0}},
        {"contentBlockDelta": {"delta": {"text": "."}, "contentBlockIndex": 0}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {
            "contentBlockStart": {
                "start": {"toolUse": {"toolUseId": "t-1", "name": "weather"}},
                "contentBlockIndex": 1,
            }
        },
        {
            "contentBlockDelta": {
                "delta": {"toolUse": {"input": '{"city": "Zürich"}'}},
                "contentBlockIndex": 1,
            }
        },
        {"contentBlockStop": {"contentBlockIndex": 1}},
        {"messageStop": {"stopReason": "tool_use"}},
    ]
    assert metadata["metadata"]["usage"]["totalTokens"] == 13


def test_what_a_model_is_asked(start):
    server = start(["ok"])
    converse(
        server,
        system=[
            {"text": "One."},
            {"cachePoint": {"type": "default"}},
            {"guardContent": {"text": {"text": "Two."}}},
        ],
        messages=[
            {
                "role": "user",
                "content": [
                    {"guardContent": {"text": {"text": "Marked."}}},
                    {"cachePoint": {"type": "default"}},
                    {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
                    {"document": {"format": "txt", "name": "a", "source": {"bytes": b"text"}}},
                ],
            }
        ],
        inferenceConfig={"maxTokens": 7, "temperature": 0.0, "topP": 0.5, "stopSequences": ["x"]},
        additionalModelRequestFields={"top_k": 3},
        toolConfig={"tools": [TOOL, {"cachePoint": {"type": "default"}}]},
        requestMetadata={"team": "a"},
        performanceConfig={"latency": "optimized"},
    )
    (got,) = server.model.requests
    assert got.system == "One.\n\nTwo."
    assert got.messages == [
        {
            "role": "user",
            "content": [
                {"text": "Marked."},
                {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
                {"document": {"format": "txt", "name": "a", "source": {"bytes": b"text"}}},
            ],
        }
    ]
    assert got.inference == {
        "maximumLength": 7,
        "temperature": 0.0,
        "topP": 0.5,
        "stopSequences": ["x"],
    }
    assert got.additional == {"top_k": 3}
    assert list(got.tools) == [TOOL]
    assert got.tool_choice is None


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"guardrailConfig": {"guardrailIdentifier": "g"}}, "without a guardrailVersion"),
        (
            {
                "outputConfig": {
                    "textFormat": {
                        "type": "json_schema",
                        "structure": {"jsonSchema": {"schema": "{}"}},
                    }
                }
            },
            "cannot be held to a form",
        ),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "system", "content": [{"text": "a"}]}]}, "has the role 'system'"),
        ({"toolConfig": {"tools": [{"systemTool": {"name": "web"}}]}}, "systemTool"),
        (
            {"toolConfig": {"tools": [TOOL], "toolChoice": {"tool": {"name": "other"}}}},
            "no such tool",
        ),
        ({"additionalModelRequestFields": {"model": "other"}}, "may not have 'model'"),
        ({"additionalModelRequestFields": {"stream": True}}, "may not have 'stream'"),
        ({"additionalModelRequestFields": ["top_k"]}, "must be a JSON object"),
    ],
)
def test_what_cannot_be_done_is_said(start, params, said):
    server = start(["never"])
    for ask in (converse, events_of):
        with pytest.raises(ClientError, match=said) as caught:
            ask(server, **params)
        assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert server.model.requests == []


FAILURES = [
    (DependencyFailed("the model broke"), "ModelErrorException", "modelStreamErrorException"),
    (ThrottlingError("too many"), "ThrottlingException", "throttlingException"),
    (ValidationError("too long"), "ValidationException", "validationException"),
    (ModelNotReady("loading"), "ModelNotReadyException", "serviceUnavailableException"),
    (AccessDenied("no credentials"), "AccessDeniedException", "validationException"),
    (ResourceNotFound("no model"), "ResourceNotFoundException", "validationException"),
]


@pytest.mark.parametrize(("error", "code", "_"), FAILURES)
def test_failures_before_the_first_word_are_exceptions(start, error, code, _):
    server = start(Failing(error))
    for ask in (converse, events_of):
        with pytest.raises(ClientError, match=error.message) as caught:
            ask(server)
        assert not isinstance(caught.value, EventStreamError)
        assert caught.value.response["Error"]["Code"] == code


@pytest.mark.parametrize(("error", "_", "code"), FAILURES)
def test_failures_after_it_end_the_stream(start, error, _, code):
    server = start(Failing(error, "First "))
    with pytest.raises(EventStreamError, match=error.message) as caught:
        events_of(server)
    assert caught.value.response["Error"]["Code"] == code


@pytest.mark.parametrize("mistake", [RuntimeError, SystemExit, asyncio.CancelledError])
def test_a_mistake_of_ours_is_not_told(start, mistake):
    for pieces in ((), ("First ",)):
        server = start(Failing(mistake("canary"), *pieces))
        for ask in (events_of, converse, events_of):
            with pytest.raises(ClientError) as caught:
                ask(server)
            assert "canary" not in str(caught.value)
            assert caught.value.response["Error"]["Code"].lower() == "internalserverexception"


def test_a_client_that_goes_stops_the_model(start):
    class Endless(ScriptedModel):
        def stream(self, request: ModelRequest) -> Any:
            try:
                while not ended.wait(0.002):  # as fast as a model, not faster
                    yield "and on "
            finally:
                stopped.set()

    stopped, ended = Event(), Event()
    server = start(Endless([], CLAUDE))
    stream = server.client.converse_stream(modelId=CLAUDE, messages=HELLO)["stream"]
    next(iter(stream))
    stream.close()
    assert stopped.wait(60)


def test_tools_are_told_to_the_embedded_model(start):
    server = start(ScriptedModel(["ok"], "local:default"))
    converse(server, system=[{"text": "Be brief."}], toolConfig={"tools": [TOOL]})
    (got,) = server.model.requests
    assert got.system.startswith("Be brief.\n\n# Tools")
    assert '"name": "weather"' in got.system and '"city"' in got.system
    assert got.call_format.operations[0].name == "weather"


def test_a_chosen_tool_is_the_only_one_that_may_be_called(start):
    other = {"toolSpec": {**TOOL["toolSpec"], "name": "other"}}
    server = start(["ok"])
    choice = {"tool": {"name": "other"}}
    converse(server, toolConfig={"tools": [TOOL, other], "toolChoice": choice})
    (got,) = server.model.requests
    assert [one.name for one in got.call_format.operations] == ["other"]
    assert got.tool_choice == choice


async def _answered(caller: Caller, content: dict[str, Any]) -> Any:
    arns, documents = Arns.of(Settings()), DocumentStore()
    stores = PromptStore(documents, arns), GuardrailStore(documents, arns, {})
    room = Inference(Models(Settings(), {"*": ScriptedModel(["ok"])}), *stores)
    messages = [{"role": "user", "content": [content]}]
    params: dict[str, Any] = {"modelId": CLAUDE, "messages": messages}
    if "toolResult" in content:
        call = {"role": "assistant", "content": [TOOL_USE]}
        messages[:0] = [HELLO[0], call]
        params["toolConfig"] = {"tools": [TOOL]}
    return await room.converse(request(params, caller))


@pytest.mark.parametrize("kind", ["image", "toolResult"])
def test_objects_in_s3_have_to_be_allowed(kind):
    image = {"format": "png", "source": {"s3Location": {"uri": "s3://payroll/ceo.png"}}}
    content: dict[str, Any] = {"image": image}
    if kind == "toolResult":
        content = {"toolResult": {"toolUseId": "t-1", "content": [{"image": image}]}}
    with pytest.raises(AccessDenied, match=r"s3://payroll/ceo\.png"):
        asyncio.run(_answered(Caller("t", ("s3://own/*",)), content))
    assert asyncio.run(_answered(Caller("t", ("s3://payroll/*",)), content))["stopReason"]
