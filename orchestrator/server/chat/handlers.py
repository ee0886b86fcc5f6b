"""The routes of OpenAI's protocol."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orchestrator.engine.run.options import Options
from orchestrator.engine.trace.reply import Event
from orchestrator.errors import ResourceNotFound
from orchestrator.server.chat.conversation import ChatRequest, parse_request
from orchestrator.server.chat.responses import build_completion, build_error, stream_chunks
from orchestrator.server.chat.return_control import build_results, find_session
from orchestrator.server.disconnects import EventResponse
from orchestrator.server.operations import Caller
from orchestrator.server.request_context import current_request
from orchestrator.server.rest import (
    RestApi,
    find_agent,
    list_agent_names,
    read_json,
    wait_for_reply,
)
from orchestrator.server.runtime.invoke import run_blocking

if TYPE_CHECKING:
    from orchestrator.server.active_requests import ActiveRequests
    from orchestrator.server.agents.registry import Agents

_BEGAN = int(time.time())
_SESSION = "x-session-id"


def routes_of(agents: Agents, running: ActiveRequests) -> list[Route]:
    """The routes; each reads `request.state.caller`, who is calling."""
    api = RestApi(agents, running, build_error)

    def route(
        path: str, operation: str, endpoint: Callable[[RestApi, Request], Any], method: str = "GET"
    ) -> Route:
        async def handle(request: Request) -> Response:
            request.state.context.name("openai", operation)
            return await api.respond(request, partial(endpoint, api))

        return Route(path, handle, methods=[method])

    return [
        route("/v1/chat/completions", "CreateChatCompletion", _complete, "POST"),
        route("/v1/models", "ListModels", _list_models),
        route("/v1/models/{model:path}", "RetrieveModel", _get_model),
    ]


async def _complete(api: RestApi, request: Request) -> Response:
    asked = parse_request(await read_json(request), request.headers.get(_SESSION, ""))
    events = await _start_turn(api.agents, request.state.caller, asked)
    if not asked.streams:
        reply = await wait_for_reply(api.limit_events(events))
        return JSONResponse(build_completion(asked, reply))
    stream = stream_chunks(api, request, asked, events)
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
    if (own := current_request.get()) is not None:
        own.session_id = session
    agent = await run_blocking(find_agent, agents, caller, asked.model)
    if asked.results is not None:
        options = {"results": await run_blocking(build_results, agent, session, asked.results)}
    return await agent.astart(asked.question, session, listen=asked.streams, **options)


async def _list_models(api: RestApi, request: Request) -> Response:
    names = await run_blocking(list_agent_names, api.agents, request.state.caller)
    return JSONResponse({"object": "list", "data": [_render_model(name) for name in names]})


async def _get_model(api: RestApi, request: Request) -> Response:
    name = request.path_params["model"]
    if name not in await run_blocking(list_agent_names, api.agents, request.state.caller):
        raise ResourceNotFound(f"there is no agent {name!r}")
    return JSONResponse(_render_model(name))


def _render_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _BEGAN, "owned_by": "orchestrator"}
