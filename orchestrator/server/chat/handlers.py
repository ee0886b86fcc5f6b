"""The routes of OpenAI's protocol."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orchestrator.engine.run.options import Options
from orchestrator.engine.trace.reply import Event
from orchestrator.errors import ResourceNotFound
from orchestrator.server.active_requests import EventResponse, run_while_connected
from orchestrator.server.chat.conversation import ChatRequest, parse_request
from orchestrator.server.chat.responses import build_completion, build_error, stream_chunks
from orchestrator.server.chat.return_control import build_results, find_session
from orchestrator.server.operations import Caller
from orchestrator.server.rest import (
    find_agent,
    get_request_id,
    list_agent_names,
    read_json,
    wait_for_reply,
)
from orchestrator.server.runtime.invoke import run_blocking

if TYPE_CHECKING:
    from orchestrator.server.active_requests import ActiveRequests
    from orchestrator.server.agents.registry import Agents
    from orchestrator.server.path_redaction import PathRedactor

_BEGAN = int(time.time())
_SESSION = "x-session-id"

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def routes_of(agents: Agents, running: ActiveRequests) -> list[Route]:
    """The routes; each reads `request.state.caller`, who is calling."""
    redactor = agents.resources.redactor
    return [
        _build_route("/v1/chat/completions", redactor, partial(_complete, agents, running), "POST"),
        _build_route("/v1/models", redactor, partial(_list_models, agents), "GET"),
        _build_route("/v1/models/{model:path}", redactor, partial(_get_model, agents), "GET"),
    ]


def _build_route(path: str, redactor: PathRedactor, endpoint: Endpoint, method: str) -> Route:
    """A route to an endpoint whose errors have OpenAI's shape."""

    @wraps(endpoint)
    async def handle(request: Request) -> Response:
        try:
            await request.body()
            answer = await run_while_connected(endpoint(request), request.receive)
            return answer or Response()
        except Exception as error:
            status, body = build_error(redactor.as_fault(error, get_request_id(request)))
            return JSONResponse(body, status)

    return Route(path, handle, methods=[method])


async def _complete(agents: Agents, running: ActiveRequests, request: Request) -> Response:
    asked = parse_request(await read_json(request), request.headers.get(_SESSION, ""))
    events = await _start_turn(agents, request.state.caller, asked)
    if not asked.streams:
        return JSONResponse(
            build_completion(asked, await wait_for_reply(running.limit_events(events)))
        )
    fault_of = partial(agents.resources.redactor.as_fault, request_id=get_request_id(request))
    stream = stream_chunks(asked, events, running.limit_events, fault_of)
    # Begun: whoever closes it closes the turn.
    await anext(stream)
    return EventResponse(stream)


async def _start_turn(
    agents: Agents, caller: Caller, asked: ChatRequest
) -> AsyncGenerator[Event, None]:
    options: Options = asked.options
    session = asked.session if asked.results is None else ""
    if asked.results is not None:
        session = find_session(asked.results, asked.session_id)
    agent = await run_blocking(find_agent, agents, caller, asked.model)
    if asked.results is not None:
        options = {"results": await run_blocking(build_results, agent, session, asked.results)}
    return await agent.astart(asked.question, session, listen=asked.streams, **options)


async def _list_models(agents: Agents, request: Request) -> Response:
    names = await run_blocking(list_agent_names, agents, request.state.caller)
    return JSONResponse({"object": "list", "data": [_render_model(name) for name in names]})


async def _get_model(agents: Agents, request: Request) -> Response:
    name = request.path_params["model"]
    if name not in await run_blocking(list_agent_names, agents, request.state.caller):
        raise ResourceNotFound(f"there is no agent {name!r}")
    return JSONResponse(_render_model(name))


def _render_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _BEGAN, "owned_by": "orchestrator"}
