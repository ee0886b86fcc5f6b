"""What the doors share that speak plain JSON over HTTP."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

from starlette.requests import Request

from orchestrator.engine.trace.reply import Event, Reply, TurnEnd
from orchestrator.errors import ValidationError
from orchestrator.server.operations import Fault

_STATUSES: Mapping[str, int] = {
    "AccessDeniedException": 403,
    "ConflictException": 409,
    "DependencyFailedException": 424,
    "ModelNotReadyException": 503,
    "ResourceNotFoundException": 404,
    "ServiceQuotaExceededException": 400,
    "ThrottlingException": 429,
    "ValidationException": 400,
}


class ErrorInfo(NamedTuple):
    """An error, as it is told.

    Attributes:
        name: Its name in Bedrock's API.
        status: The HTTP status.
        message: What went wrong.
    """

    name: str
    status: int
    message: str


def describe_error(fault: Fault) -> ErrorInfo:
    """An exception of the service as it is told."""
    return ErrorInfo(fault.name, _STATUSES.get(fault.name, 500), fault.message)


def get_request_id(request: Request) -> str:
    """The request's id."""
    found: str = getattr(request.state, "request_id", "") or str(uuid.uuid4())
    return found


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object of a request's body.

    Raises:
        ValidationError: It is none.
    """
    try:
        value = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise ValidationError("the body is not JSON") from None
    if not isinstance(value, dict):
        raise ValidationError("the body must be a JSON object")
    return value


async def wait_for_reply(events: AsyncGenerator[Event, None]) -> Reply:
    """The reply that the events of a turn end with; stopping this stops the turn."""
    reply: Reply | None = None
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TurnEnd):
                reply = event.reply
    assert reply is not None  # a turn ends with its reply, or raises
    return reply


def to_sse(value: Mapping[str, Any]) -> bytes:
    """A server-sent event with JSON data, in ASCII.

    Some clients take other line separators of Unicode for ends of lines.
    """
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n".encode("ascii")
