"""What the doors share that speak plain JSON over HTTP."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request

from orchestrator.agent.agent import Agent
from orchestrator.engine.trace.reply import Event, Reply, TurnEnd
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.operations import Caller, Fault

if TYPE_CHECKING:
    from orchestrator.server.agents.registry import Agents

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
    """An error, as callers read it."""

    name: str  # its name in Bedrock's API
    status: int  # the HTTP status
    message: str  # what went wrong


def describe_error(fault: Fault) -> ErrorInfo:
    """An exception of the service as callers read it."""
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
    # A turn ends with its reply, or raises.
    assert reply is not None
    return reply


def to_sse(value: Mapping[str, Any]) -> bytes:
    """A server-sent event with JSON data, in ASCII.

    Some clients take other line separators of Unicode for ends of lines.
    """
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n".encode("ascii")


_WITH_ALIAS = re.compile(r"([0-9A-Z]{10})/([0-9A-Z]{10})")


def list_agent_names(agents: Agents, caller: Caller) -> Mapping[str, str]:
    """What callers may call each agent that they see, and its description; blocks.

    An agent is called by its name, or by its id where another has the same name.
    """
    # The first alias of each agent.
    found: dict[str, tuple[str, str]] = {}
    for agent_id, _, name, description in agents.list_invocable(caller):
        found.setdefault(agent_id, (name, description or ""))
    names = [name for name, _ in found.values()]
    return {
        name if names.count(name) == 1 else agent_id: description
        for agent_id, (name, description) in found.items()
    }


def find_agent(agents: Agents, caller: Caller, name: str) -> Agent:
    """The agent that a caller means, with the tenant's own sessions; blocks.

    `name` is the agent's name, its id, or `<id>/<alias id>`; empty means the only agent.

    Raises:
        ResourceNotFound: The caller sees no such agent.
        ValidationError: Several agents could be meant.
    """
    agent_id, alias_id = _resolve_ids(agents, caller, name)
    return agents.resolve_alias(caller, agent_id, alias_id)


def _resolve_ids(agents: Agents, caller: Caller, name: str) -> tuple[str, str]:
    both = _WITH_ALIAS.fullmatch(name)
    if both is not None:
        return both[1], both[2]
    listed: list[Any] = list(agents.list_invocable(caller))
    meant: dict[str, str] = {}
    for agent_id, alias_id, known, _ in listed:
        if name in ("", agent_id, known):
            meant.setdefault(agent_id, alias_id)
    # An id is meant, whatever others are called.
    if name in meant:
        return name, meant[name]
    if len(meant) == 1:
        return next(iter(meant.items()))
    if not meant:
        raise ResourceNotFound(
            f"there is no agent {name!r}" if name else "there is no agent; the server has none"
        )
    called = f"are called {name!r}" if name else "could be meant"
    raise ValidationError(f"{len(meant)} agents {called}; name one by its id: {_format_ids(meant)}")


def _format_ids(meant: Mapping[str, str]) -> str:
    return ", ".join(sorted(meant)[:10])
