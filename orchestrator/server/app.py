"""The application: Amazon Bedrock's APIs, and those of chat clients, behind one door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.errors import LimitExceeded
from orchestrator.server import agentcore
from orchestrator.server.access.authenticator import Authenticator, Clock
from orchestrator.server.access.guards import check_binding
from orchestrator.server.access.keys import Keys
from orchestrator.server.active_requests import ActiveRequests
from orchestrator.server.ag_ui import handlers as ag_ui
from orchestrator.server.chat import handlers
from orchestrator.server.disconnects import WhileConnected
from orchestrator.server.fair_loop import go_last, hold_back_last
from orchestrator.server.health import build_checks
from orchestrator.server.ids import now
from orchestrator.server.middleware import ServerMiddleware
from orchestrator.server.probes import Probes
from orchestrator.server.wire.api import Api, OperationMatch
from orchestrator.server.wire.responses import HttpResponse, MessageStream
from orchestrator.support.time_limit import TimeLimit

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

# Bytes of a body that is read in a moment.
_SMALL = 65_536
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


During = Callable[[ActiveRequests], AbstractContextManager[None]]
"""What is done around the application's running, in its event loop."""


def application(
    state: ServerState, *, clock: Clock = now, during: During = lambda running: nullcontext()
) -> ASGIApp:
    """The ASGI application over a state, which the caller closes after it.

    `clock` gives the time for signatures; `during` is a context around its running.

    Raises:
        ValidationError: Others than this machine could use it without keys.
        DefinitionError: The file of keys is wrong.
    """
    settings = state.settings
    check_binding(settings)
    callers = Authenticator(Keys(settings.keys) if settings.keys is not None else None, clock)
    running = ActiveRequests(state.sessions, settings.turn_seconds)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        # Handlers that block are as many as requests are let in.
        to_thread.current_default_thread_limiter().total_tokens = settings.concurrency
        with during(running):
            yield

    routes = [
        *handlers.routes_of(state.agents, running),
        *agentcore.routes_of(state.agents, running),
        *ag_ui.routes_of(state.agents, running),
    ]
    bedrock = _Bedrock(state, running)
    every = Route("/{path:path}", bedrock, methods=list(_METHODS))
    others = ExceptionMiddleware(Router([*routes, every], lifespan=lifespan))
    # What is counted is that of all tenants.
    shown = state.metrics if settings.keys is None else None
    return ServerMiddleware(
        _Application(bedrock, others, routes),
        settings=settings,
        callers=callers,
        running=running,
        probes=Probes(build_checks(state), running, shown),
        metrics=state.metrics,
    )


class _Application:
    """What is asked once the middleware has let a request in."""

    def __init__(self, bedrock: ASGIApp, others: ASGIApp, routes: Sequence[Route]) -> None:
        self._bedrock = bedrock
        self._others = others
        # The first parts of the paths that are not Bedrock's.
        self._first = {route.path.split("/")[1] for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Starlette's own layers and its way through all routes take as long as a bare request.
        app = self._bedrock if self._is_for_bedrock(scope) else self._others
        await app(scope, receive, send)

    def _is_for_bedrock(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["method"] not in _METHODS:
            return False
        start, _, path = scope["path"].partition("/")
        return not start and path.partition("/")[0] not in self._first


class _Bedrock:
    """The four services of Amazon Bedrock, as an ASGI application."""

    def __init__(self, state: ServerState, running: ActiveRequests) -> None:
        self._api = Api(running.limit_operations(state.operations()), state.redactor.as_fault)
        self._seconds = state.settings.turn_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The middleware has read it. Starlette would copy it once more.
        body: bytes = (await receive())["body"]
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        matched = self._api.match(scope["method"], path, query)
        if matched is not None:
            session = matched.get_label("sessionId")
            scope["state"]["context"].name(matched.service, matched.operation, session)
        answer = partial(self._answer, matched, scope, path, query, body)
        if _is_quick(matched, body):
            with hold_back_last():
                await _respond(answer, scope, receive, send)
        else:
            await go_last()
            await _respond(answer, scope, receive, send)

    async def _answer(
        self, matched: OperationMatch | None, scope: Scope, path: str, query: str, body: bytes
    ) -> HttpResponse:
        state = scope["state"]
        request_id: str = state["request_id"]
        limit = TimeLimit(asyncio.get_running_loop().time() + self._seconds)
        try:
            with limit:
                return await self._api.answer_as(
                    matched,
                    scope["method"],
                    path,
                    query,
                    Headers(raw=scope["headers"]),
                    body,
                    state["caller"],
                    request_id,
                )
        except TimeoutError:
            late = LimitExceeded(
                f"the operation took over {self._seconds:g} seconds", limit="seconds"
            )
            return self._api.refuse(late, matched, request_id)
        finally:
            limit.end()


def _is_quick(matched: OperationMatch | None, body: bytes) -> bool:
    """Whether a request only asks for what is stored of agents, and of what they are made of."""
    return (
        matched is not None
        and matched.service in ("bedrock-agent", "bedrock")
        and matched.operation.startswith(("Get", "List"))
        and len(body) <= _SMALL
    )


async def _respond(
    answer: Callable[[], Awaitable[HttpResponse]], scope: Scope, receive: Receive, send: Send
) -> None:
    """Sends an answer; a client that goes, or reads no longer, ends the turn that it waits for."""
    with WhileConnected(receive):
        given = await answer()
        if isinstance(given.body, bytes):
            await Response(given.body, given.status, given.headers)(scope, receive, send)
        else:
            async with aclosing(given.body) as frames:
                await _stream(given, frames, send)


async def _stream(answer: HttpResponse, frames: MessageStream, send: Send) -> None:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in answer.headers.items()
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    async for frame in frames:
        await send({"type": "http.response.body", "body": frame, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
