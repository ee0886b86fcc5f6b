"""What the APIs of chat clients share, which speak plain JSON over HTTP."""

from __future__ import annotations

import json
import re
import uuid
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.agent.agent import Agent
from orchestrator.engine.trace.reply import Event, Reply, TurnEnd
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.active_requests import ActiveRequests
from orchestrator.server.disconnects import run_while_connected
from orchestrator.server.fair_loop import go_last
from orchestrator.server.large_bodies import read_body
from orchestrator.server.operations import Caller, Fault
from orchestrator.support.safe_json import TooManyValues, load_json

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


def get_status(fault: Fault) -> int:
    """The HTTP status of an exception of the service."""
    return _STATUSES.get(fault.name, 500)


Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


class RestApi:
    """What one API has of the server: agents, running requests, and its own form of errors."""

    def __init__(
        self, agents: Agents, running: ActiveRequests, render_error: Callable[[Fault], Any]
    ) -> None:
        self.agents = agents
        self.redactor = agents.resources.redactor
        self.limit_events = running.limit_events
        self._render_error = render_error

    async def respond(self, request: Request, endpoint: Endpoint) -> Response:
        """What an endpoint answers while the client is there; an error in the API's form."""
        try:
            await request.body()
            await go_last()
            answer = await run_while_connected(endpoint(request), request.receive)
            return answer or Response()
        except Exception as error:
            fault = self._to_fault(error, request)
            return JSONResponse(self._render_error(fault), get_status(fault))

    def to_error_event(self, error: BaseException, request: Request) -> bytes:
        """An error in the API's form, as a server-sent event."""
        return to_sse(self._render_error(self._to_fault(error, request)))

    def _to_fault(self, error: BaseException, request: Request) -> Fault:
        id = getattr(request.state, "request_id", "") or str(uuid.uuid4())
        return self.redactor.as_fault(error, id)


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object of a request's body.

    Raises:
        ValidationError: It is none, or has too many values.
    """
    body = await request.body()
    try:
        # Some clients write a mark before UTF-8.
        value = await read_body(load_json, body.removeprefix(BOM_UTF8))
    except TooManyValues as error:
        raise ValidationError(f"the body is too large: {error}") from None
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
    meant: dict[str, str] = {}
    for agent_id, alias_id, known, _ in agents.list_invocable(caller):
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
    ids = ", ".join(sorted(meant)[:10])
    raise ValidationError(f"{len(meant)} agents {called}; name one by its id: {ids}")
