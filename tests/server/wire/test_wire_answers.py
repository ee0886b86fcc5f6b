"""Whole requests: from boto3's own clients through the wire to handlers and back."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from wired import client, served

from orchestrator.server.operations import Caller, EventStream, Request
from orchestrator.server.wire.api import Api, HttpResponse

AGENT_ARN = "arn:aws:bedrock:us-east-1:000000000000:agent/ABCDEFGHIJ"
MODEL = "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-v2"
SESSION_ARN = "arn:aws:bedrock:us-east-1:000000000000:session/00000000-0000-0000-0000-000000000000"


class Seen:
    """A handler that remembers its requests."""

    def __init__(self, output: Any = None) -> None:
        self.requests: list[Request] = []
        self.threads: list[threading.Thread] = []
        self._output = output or {}

    def __call__(self, request: Request) -> Any:
        self.requests.append(request)
        self.threads.append(threading.current_thread())
        return self._output


def answered(api: Api, method: str, path: str, body: bytes = b"", **more: Any) -> HttpResponse:
    return asyncio.run(api.answer(method, path, "", {}, body, **more))


@pytest.mark.parametrize(
    ("arn", "service"),
    [(AGENT_ARN, "bedrock-agent"), (SESSION_ARN, "bedrock-agent-runtime")],
)
@pytest.mark.parametrize("asked", ["bedrock-agent", "bedrock-agent-runtime"])
def test_one_handler_serves_the_tags_of_both_services(arn: str, service: str, asked: str) -> None:
    tags = Seen()
    with served({"bedrock-agent": {"TagResource": tags}}) as url:
        client(asked, url).tag_resource(resourceArn=arn, tags={"team": "hr"})
    (request,) = tags.requests
    assert request.params == {"resourceArn": arn, "tags": {"team": "hr"}}
    assert (request.service, request.operation) == (service, "TagResource")


def test_a_stream_of_events_reaches_boto3() -> None:
    async def invoke(request: Request) -> EventStream:
        async def events() -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
            for word in request.params["inputText"].split():
                yield "chunk", {"bytes": word.encode()}

        session = request.params["sessionId"]
        return EventStream(events(), {"sessionId": session, "contentType": "application/json"})

    with served({"bedrock-agent-runtime": {"InvokeAgent": invoke}}) as url:
        runtime = client("bedrock-agent-runtime", url)
        reply = runtime.invoke_agent(
            agentId="ABCDEFGHIJ",
            agentAliasId="TSTALIASID",
            sessionId="s:1",
            inputText="Hi th\u00e9re",
        )
        words = [event["chunk"]["bytes"].decode() for event in reply["completion"]]
    assert words == ["Hi", "th\u00e9re"]
    assert (reply["sessionId"], reply["contentType"]) == ("s:1", "application/json")


def test_bodies_of_models_pass_as_they_are() -> None:
    raw = bytes(range(256))
    model = Seen({"body": raw, "contentType": "image/png"})
    with served({"bedrock-runtime": {"InvokeModel": model}}) as url:
        reply = client("bedrock-runtime", url).invoke_model(modelId=MODEL, body=raw, accept="*/*")
        assert (reply["body"].read(), reply["contentType"]) == (raw, "image/png")
    assert model.requests[0].params["body"] == raw
    assert model.requests[0].params["modelId"] == MODEL


def test_an_answer_without_a_body_has_none() -> None:
    path = "/agents/ABCDEFGHIJ/agentversions/DRAFT/actiongroups/ABCDEFGHIJ/"
    answer = answered(Api({"bedrock-agent": {"DeleteAgentActionGroup": Seen()}}), "DELETE", path)
    assert (answer.status, answer.body) == (204, b"")
    assert "Content-Type" not in answer.headers


def test_every_answer_has_the_requests_id() -> None:
    seen = Seen({"agentSummaries": []})
    api = Api({"bedrock-agent": {"ListAgents": seen}})
    told = answered(api, "POST", "/agents/", request_id="r-7", caller=Caller("acme"))
    assert told.headers["x-amzn-RequestId"] == "r-7"
    assert (seen.requests[0].id, seen.requests[0].caller.tenant) == ("r-7", "acme")
    for path in ("/agents/", "/agents/A/", "/nowhere"):
        UUID(answered(api, "POST", path).headers["x-amzn-RequestId"])


def test_a_handler_that_may_block_runs_in_a_thread() -> None:
    seen = Seen({"agentSummaries": []})
    answered(Api({"bedrock-agent": {"ListAgents": seen}}), "POST", "/agents/")
    assert seen.threads[0] is not threading.current_thread()


def test_large_bodies_are_read_whole() -> None:
    seen = Seen({"results": []})
    api = Api({"bedrock-agent-runtime": {"Retrieve": seen}})
    query = {"retrievalQuery": {"text": "x" * 900}, "unknown": ["y" * 1000] * 1000}
    answered(api, "POST", "/knowledgebases/ABCDEFGHIJ/retrieve", json.dumps(query).encode())
    assert len(seen.requests[0].params["retrievalQuery"]["text"]) == 900


@pytest.mark.parametrize(
    "time",
    [datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
     datetime(2026, 1, 2, 4, 4, 5, 678, timezone(timedelta(hours=1))),
     "2026-01-02T03:04:05.000678000Z"],
)  # fmt: skip
def test_times_are_written_as_aws_writes_them(time: Any) -> None:
    summary = {"agentId": "ABCDEFGHIJ", "agentName": "hr", "agentStatus": "PREPARED"}
    output = {"agentSummaries": [{**summary, "updatedAt": time}]}
    answer = answered(Api({"bedrock-agent": {"ListAgents": Seen(output)}}), "POST", "/agents/")
    told = json.loads(answer.body)["agentSummaries"][0]["updatedAt"]  # type: ignore[arg-type]
    assert told == "2026-01-02T03:04:05.000678000Z"


@pytest.mark.parametrize("time", [datetime(2026, 1, 2), "today", 1767323045])
def test_times_without_a_zone_are_no_times(time: Any) -> None:
    summary = {"agentId": "ABCDEFGHIJ", "agentName": "hr", "agentStatus": "PREPARED"}
    output = {"agentSummaries": [{**summary, "updatedAt": time}]}
    answer = answered(Api({"bedrock-agent": {"ListAgents": Seen(output)}}), "POST", "/agents/")
    assert answer.status == 500


def test_members_left_out_and_none_are_not_told() -> None:
    output = {"agentSummaries": [], "nextToken": None}
    answer = answered(Api({"bedrock-agent": {"ListAgents": Seen(output)}}), "POST", "/agents/")
    assert answer.body == b'{"agentSummaries":[]}'


def test_what_is_implemented_is_told_by_service() -> None:
    told = Api({"bedrock-agent": {"TagResource": Seen(), "ListAgents": Seen()}}).list_operations()
    there, left = told["bedrock-agent"]
    assert there == ("ListAgents", "TagResource") and len(left) == len(set(left)) > 80
    assert told["bedrock-agent-runtime"][0] == ("TagResource",)
    assert told["bedrock-runtime"][0] == ()
