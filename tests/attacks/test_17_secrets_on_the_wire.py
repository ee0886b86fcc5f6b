"""What a caller sends turns up in no error and no log, whatever goes wrong with it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from orchestrator import Sessions
from orchestrator.server.access.authenticator import Authenticator
from orchestrator.server.active_requests import ActiveRequests
from orchestrator.server.metrics import ServerMetrics
from orchestrator.server.middleware import ServerMiddleware
from orchestrator.server.operations import EventStream, Request
from orchestrator.server.probes import Probes
from orchestrator.server.rest import get_status
from orchestrator.server.settings import Settings
from orchestrator.server.wire.api import Api
from orchestrator.server.wire.faults import as_fault

CANARY = "CANARY-5f2b"
PATH = "/agents/ABCDEFGHIJ/agentAliases/TSTALIASID/sessions/s-1/text"
BODIES: dict[str, Any] = {
    "the question": {"inputText": CANARY},
    "a question of the wrong kind": {"inputText": {CANARY: CANARY}},
    "an attribute": {"sessionState": {"sessionAttributes": {"token": CANARY}}},
    "an attribute of the wrong kind": {"sessionState": {"sessionAttributes": {"token": [CANARY]}}},
    "a result": {
        "sessionState": {
            "returnControlInvocationResults": [
                {"functionResult": {"responseBody": {"TEXT": {"body": CANARY}}}}
            ]
        }
    },
    "a file": {"sessionState": {"files": [{"name": "a", "source": {"byteContent": CANARY}}]}},
    "broken JSON": f'{{"inputText": "{CANARY}"'.encode(),
}


async def raises(request: Request) -> EventStream:
    try:
        raise KeyError(CANARY)
    except KeyError as error:
        raise ValueError(f"in {request.params}") from error


async def breaks(request: Request) -> EventStream:
    async def events() -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        raise ValueError(f"in {request.params}")
        yield "", {}

    return EventStream(events())


async def answers_wrongly(request: Request) -> EventStream:
    async def events() -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        yield "chunk", {"bytes": str(request.params)}

    return EventStream(events())


@pytest.mark.parametrize("handler", [raises, breaks, answers_wrongly])
@pytest.mark.parametrize("name", BODIES)
def test_no_error_and_no_log_holds_what_was_sent(
    name: str, handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    body = BODIES[name]
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    api = Api({"bedrock-agent-runtime": {"InvokeAgent": handler}})

    async def told() -> bytes:
        answer = await api.answer("POST", PATH, "", {}, raw)
        assert answer.status in (200, 400, 500)
        if isinstance(answer.body, bytes):
            return answer.body
        return b"".join([piece async for piece in answer.body])

    with caplog.at_level(logging.DEBUG):
        sent = asyncio.run(told())
    assert b"xception" in sent or b"message" in sent
    assert CANARY.encode() not in sent
    assert CANARY not in caplog.text


def test_a_mistake_of_ours_in_any_room_holds_none(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        try:
            raise KeyError(CANARY)
        except KeyError as error:
            raise ValueError(CANARY) from error

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/invocations",
        "raw_path": b"/invocations",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8080")],
    }
    with caplog.at_level(logging.DEBUG):
        running = ActiveRequests(Sessions(), 60)
        door = ServerMiddleware(
            breaks,
            settings=Settings(),
            callers=Authenticator(None),
            running=running,
            probes=Probes({}, running),
            metrics=ServerMetrics(),
        )
        asyncio.run(door(scope, receive, send))
        told = as_fault(ValueError(CANARY), "r-1")
    assert (sent[0]["status"], get_status(told)) == (500, 500)
    assert CANARY not in f"{sent}{told}{caplog.text}"
    logged = [it.getMessage() for it in caplog.records if it.levelname == "ERROR"]
    assert len(logged) == 2 and "KeyError" in logged[0] and "r-1" in logged[1]
