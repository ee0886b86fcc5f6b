"""The application: Amazon Bedrock's APIs, and those of chat clients, behind one door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orchestrator.errors import LimitExceeded
from orchestrator.server import agentcore
from orchestrator.server.access.authenticator import Authenticator, Clock
from orchestrator.server.access.guards import check_binding
from orchestrator.server.access.keys import Keys
from orchestrator.server.active_requests import ActiveRequests, run_while_connected
from orchestrator.server.chat import handlers
from orchestrator.server.fair_loop import go_last, hold_back_last
from orchestrator.server.ids import now
from orchestrator.server.middleware import ServerMiddleware
from orchestrator.server.wire.api import Api
from orchestrator.server.wire.responses import HttpResponse

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

# Bytes of a body that is read in a moment.
_SMALL = 65_536
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


During = Callable[[ActiveRequests], AbstractContextManager[None]]
"""What is done around the application's running, in its event loop."""


def application(
    state: ServerState, *, clock: Clock = now, during: During = lambda running: nullcontext()
) -> Starlette:
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
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # Handlers that block are as many as requests are let in.
        to_thread.current_default_thread_limiter().total_tokens = settings.concurrency
        with during(running):
            yield

    bedrock = Route("/{path:path}", _Bedrock(state, running), methods=list(_METHODS))
    return Starlette(
        routes=[
            *handlers.routes_of(state.agents, running),
            *agentcore.routes_of(state.agents, running),
            bedrock,
        ],
        middleware=[
            Middleware(ServerMiddleware, settings=settings, callers=callers, running=running)
        ],
        lifespan=lifespan,
    )


class _Bedrock:
    """The four services of Amazon Bedrock, as an ASGI application."""

    def __init__(self, state: ServerState, running: ActiveRequests) -> None:
        self._api = Api(running.limit_operations(state.operations()), state.redactor.as_fault)
        self._seconds = state.settings.turn_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        # The middleware has read it. Starlette would copy it once more.
        body: bytes = (await receive())["body"]
        if self._is_quick(request, body):
            with hold_back_last():
                await self._respond(request, body, send)
        else:
            await go_last()
            await self._respond(request, body, send)

    async def _respond(self, request: Request, body: bytes, send: Send) -> None:
        scope, receive = request.scope, request.receive
        answer = await run_while_connected(self._answer(request, body), receive)
        if answer is None:
            return
        if isinstance(answer.body, bytes):
            await Response(answer.body, answer.status, answer.headers)(scope, receive, send)
            return
        # A client that goes, or reads no longer, ends the events, and with them the turn.
        async with aclosing(answer.body) as frames:
            await StreamingResponse(frames, answer.status, answer.headers)(scope, receive, send)

    def _is_quick(self, request: Request, body: bytes) -> bool:
        """Whether it only asks for what is stored of agents, and of what they are made of."""
        matched = self._api.match(request.method, *_read_target(request))
        return (
            matched is not None
            and matched.service in ("bedrock-agent", "bedrock")
            and matched.operation.startswith(("Get", "List"))
            and len(body) <= _SMALL
        )

    async def _answer(self, request: Request, body: bytes) -> HttpResponse:
        known = request.state
        path, query = _read_target(request)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._api.answer(
                    request.method,
                    path,
                    query,
                    request.headers,
                    body,
                    known.caller,
                    known.request_id,
                )
        except TimeoutError:
            late = LimitExceeded(
                f"the operation took over {self._seconds:g} seconds", limit="seconds"
            )
            matched = self._api.match(request.method, path, query)
            return self._api.refuse(late, matched, known.request_id)


def _read_target(request: Request) -> tuple[str, str]:
    scope = request.scope
    return scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
