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
from orchestrator.server.chat.answers import chunks, completion
from orchestrator.server.chat.conversation import Asked, asked_of
from orchestrator.server.chat.errors import error_body
from orchestrator.server.chat.handover import resumed, session_of
from orchestrator.server.named import agent_named, names_of
from orchestrator.server.operations import Caller
from orchestrator.server.presence import Events, while_there
from orchestrator.server.rest import json_of, last_of, request_id
from orchestrator.server.runtime.turns import blocking

if TYPE_CHECKING:
    from orchestrator.server.running import Running
    from orchestrator.server.world import World

__all__ = ["routes_of"]

_BEGAN = int(time.time())
_SESSION = "x-session-id"

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def routes_of(world: World, running: Running) -> list[Route]:
    """The routes; each reads `request.state.caller`, who is calling."""
    return [
        _route("/v1/chat/completions", world, partial(_complete, world, running), "POST"),
        _route("/v1/models", world, partial(_models, world), "GET"),
        _route("/v1/models/{model:path}", world, partial(_model, world), "GET"),
    ]


def _route(path: str, world: World, endpoint: Endpoint, method: str) -> Route:
    """A route to an endpoint whose errors are told in OpenAI's shape."""

    @wraps(endpoint)
    async def told(request: Request) -> Response:
        try:
            await request.body()
            answer = await while_there(endpoint(request), request.receive)
            return answer or Response()
        except Exception as error:
            status, body = error_body(world.places.fault_of(error, request_id(request)))
            return JSONResponse(body, status)

    return Route(path, told, methods=[method])


async def _complete(world: World, running: Running, request: Request) -> Response:
    asked = asked_of(await json_of(request), request.headers.get(_SESSION, ""))
    events = await _begun(world, request.state.caller, asked)
    if not asked.streams:
        return JSONResponse(completion(asked, await last_of(running.events(events))))
    fault_of = partial(world.places.fault_of, request_id=request_id(request))
    stream = chunks(asked, events, running.events, fault_of)
    await anext(stream)  # begun: whoever closes it closes the turn
    return Events(stream)


async def _begun(world: World, caller: Caller, asked: Asked) -> AsyncGenerator[Event, None]:
    options: Options = asked.options
    session = asked.session if asked.results is None else ""
    if asked.results is not None:
        session = session_of(asked.results, asked.session_id)
    agent = await blocking(agent_named, world, caller, asked.model)
    if asked.results is not None:
        options = {"results": await blocking(resumed, agent, session, asked.results)}
    return await agent.astart(asked.question, session, listen=asked.streams, **options)


async def _models(world: World, request: Request) -> Response:
    names = await blocking(names_of, world, request.state.caller)
    return JSONResponse({"object": "list", "data": [_told_model(name) for name in names]})


async def _model(world: World, request: Request) -> Response:
    name = request.path_params["model"]
    if name not in await blocking(names_of, world, request.state.caller):
        raise ResourceNotFound(f"there is no agent {name!r}")
    return JSONResponse(_told_model(name))


def _told_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _BEGAN, "owned_by": "orchestrator"}
