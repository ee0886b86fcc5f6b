"""Values that would end a header and begin another, or an event, are never sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.server.operations import EventStream, Fault, Request
from orchestrator.server.wire.api import Api, HttpResponse
from orchestrator.server.wire.faults import WrongOutput
from orchestrator.server.wire.responses import get_response_writer, get_stream_writer

INVOKE = ("bedrock-agent-runtime", "InvokeAgent")
PATH = "/agents/ABCDEFGHIJ/agentAliases/TSTALIASID/sessions/s-1/text"
HOSTILE = [
    "s-1\r\nSet-Cookie: a=b",
    "s-1\nx: y",
    "s-1\r",
    "s-1\0",
    "s-1\x7f",
    "s-1\u010a\u2028x",
    "\x1b[2J",
]


def answered(members: dict[str, Any]) -> HttpResponse:
    async def events() -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        yield "chunk", {"bytes": b"x"}

    async def invoke(request: Request) -> EventStream:
        return EventStream(events(), members)

    api = Api({INVOKE[0]: {INVOKE[1]: invoke}})
    return asyncio.run(api.answer("POST", PATH, "", {}, b"{}"))


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("member", ["sessionId", "contentType", "memoryId"])
def test_a_header_is_one_line(member: str, value: str) -> None:
    told = {"sessionId": "s-1", "contentType": "application/json", member: value}
    answer = answered(told)
    assert answer.status == 500
    assert not any(value in text or "\n" in text for text in answer.headers.values())


@pytest.mark.parametrize("value", HOSTILE)
def test_the_type_of_a_models_body_is_one_line(value: str) -> None:
    with pytest.raises(WrongOutput):
        get_response_writer("bedrock-runtime", "InvokeModel").answer(
            {"body": b"", "contentType": value}
        )


@given(text=st.text(st.characters(codec="utf-8")))
def test_no_message_makes_a_header_or_a_second_event(text: str) -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(get_stream_writer(*INVOKE).encode_error(Fault("ValidationException", text)))
    buffer.add_data(get_stream_writer(*INVOKE).encode_event("chunk", {"bytes": text.encode()}))
    kinds = [event.headers[":message-type"] for event in buffer]
    assert kinds == ["exception", "event"]


def test_a_hostile_address_does_not_reach_the_answers_headers() -> None:
    for path in ("/agents/%0d%0aX: y/", "/%0d%0a", "/agents/a\r\nX: y/"):
        answer = asyncio.run(Api({}).answer("POST", path, "", {}, b""))
        assert not any("\n" in text for text in answer.headers.values())
