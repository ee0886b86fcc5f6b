"""Every request passes here: limits, guards, who is calling, and a line in the log.

Nothing here knows what a request asks for.
"""

from __future__ import annotations

import asyncio
from functools import partial
from logging import INFO

from anyio import to_thread
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.server.access.authenticator import Authenticator
from orchestrator.server.access.guards import Guard, RawRequest, Refusal
from orchestrator.server.active_requests import ActiveRequests
from orchestrator.server.fair_loop import go_first
from orchestrator.server.json_logs import REQUEST
from orchestrator.server.metrics import ServerMetrics
from orchestrator.server.operations import Caller
from orchestrator.server.probes import PROBES, Probes
from orchestrator.server.request_context import RequestContext, current_request
from orchestrator.server.settings import Settings
from orchestrator.server.wire.faults import log_failure
from orchestrator.support.logs import get_logger
from orchestrator.support.safe_json import LARGE
from orchestrator.support.time_limit import TimeLimit
from orchestrator.support.tracing import continue_trace

access_log = get_logger("orchestrator.server.access")

# AgentCore: asked by whoever runs the container, without a key.
_HEALTH = ("GET", b"/ping")
_STOPPING = "The server is shutting down, and begins nothing new. Try again."
_LEFT = "The server is shutting down; what was begun is kept. Try again."
# Seconds after which whoever was refused by a server that ends may ask another one.
_RETRY_AFTER = b"1"
# Bodies of the largest size that requests of unknown callers may hold together.
_BODIES = 8


class ServerMiddleware:
    """ASGI middleware around the whole application.

    A request that passes has in its `scope["state"]`: `caller`, a `Caller`, `request_id`, and
    `context`, its `RequestContext`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        callers: Authenticator,
        running: ActiveRequests,
        probes: Probes,
        metrics: ServerMetrics,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._probes = probes
        self._settings = settings
        self._callers = callers
        self._running = running
        self._guard = Guard(settings)
        self._inside = 0
        self._held = 0
        # The oldest first.
        self._unknown: dict[str, tuple[RequestContext, TimeLimit]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request in, or refuses it."""
        # The application's start and end; websockets are refused there.
        if scope["type"] != "http":
            is_lifespan = scope["type"] == "lifespan"
            await self._app(scope, partial(_receive_end, receive) if is_lifespan else receive, send)
            return
        go_first()
        raw = scope.get("raw_path") or scope["path"].encode()
        visit = RequestContext(
            RawRequest(scope["method"], raw, scope["query_string"], scope["headers"])
        )
        current_request.set(visit)
        self._metrics.requests_in_flight.inc()
        try:
            await self._admit(visit, scope, receive, _wrap_send(visit, send))
        finally:
            self._release(visit)
            self._give_slot_back(visit)
            self._metrics.requests_in_flight.dec()
            # Whoever runs the server asks every few seconds whether it is well.
            if visit.status != 200 or visit.presented.path not in PROBES:
                self._metrics.note_request(visit)
                _log_request(visit)

    async def _admit(
        self, visit: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            self._guard.check(visit.presented)
            if await self._probes.answer(visit.presented, send):
                return
            if self._running.is_stopping:
                raise Refusal("ServiceUnavailableException", 503, _STOPPING)
            if (visit.presented.method, visit.presented.path) == _HEALTH:
                await self._run_app(visit, scope, receive, send, Caller())
                return
            found = await self._authenticate(visit, receive)
            if found is not None:
                caller, body = found
                await self._run_app(visit, scope, _replay_body(body, receive), send, caller)
        except Refusal as refusal:
            self._give_slot_back(visit)
            self._metrics.note_refusal(refusal.name)
            await _send_refusal(refusal, visit, send)

    async def _authenticate(
        self, visit: RequestContext, receive: Receive
    ) -> tuple[Caller, bytes] | None:
        """Who is calling, with one of the slots, and the body; `None` when the client has gone."""
        found = self._callers.authenticate(visit.presented)
        known = isinstance(found, Caller)
        if known:
            self._take_slot(visit)
        pieces = await self._read_body(visit, receive, known=known)
        if pieces is None:
            return None
        # A large body takes long enough to hash and to join to keep others waiting.
        large = visit.held > LARGE
        if not isinstance(found, Caller):
            found = await to_thread.run_sync(found, pieces) if large else found(pieces)
            self._take_slot(visit)
        body = await to_thread.run_sync(b"".join, pieces) if large else b"".join(pieces)
        self._release(visit)
        return found, body

    def _take_slot(self, visit: RequestContext) -> None:
        """One of the requests at once; only who is known has any."""
        if self._inside >= self._settings.concurrency:
            raise Refusal("ThrottlingException", 429, "Too many requests at once; try again.")
        self._inside += 1
        visit.has_slot = True

    def _give_slot_back(self, visit: RequestContext) -> None:
        self._inside -= visit.has_slot
        visit.has_slot = False

    async def _run_app(
        self, visit: RequestContext, scope: Scope, receive: Receive, send: Send, caller: Caller
    ) -> None:
        visit.tenant = caller.tenant
        own = {"caller": caller, "request_id": visit.id, "context": visit}
        scope["state"] = {**scope.get("state", {}), **own}
        try:
            traced = continue_trace(visit.presented.one("traceparent"))
            with self._running.track_request(), traced:
                await self._app(scope, receive, send)
        except (OSError, ClientDisconnect):
            # The client has gone.
            return
        except asyncio.CancelledError:
            if not self._running.left or visit.status:
                raise
            refusal = Refusal("ServiceUnavailableException", 503, _LEFT)
            await _send_refusal(refusal, visit, send)
        except Exception as error:
            log_failure(error, visit.id)
            if not visit.status:
                message = f"Something went wrong in the server. Its log says more: {visit.id}."
                await _send_refusal(Refusal("InternalServerException", 500, message), visit, send)

    async def _read_body(
        self, visit: RequestContext, receive: Receive, *, known: bool
    ) -> list[bytes] | None:
        """The body in pieces; `None` when the client went before it was whole."""
        most = self._settings.body_bytes
        if _content_length(visit.presented) > most:
            raise _body_too_large_error(most)
        loop = asyncio.get_running_loop()
        limit = TimeLimit(loop.time() + self._settings.body_seconds)
        try:
            if not known:
                self._track_unknown(visit, limit)
            with limit:
                return await self._receive_pieces(visit, receive)
        except TimeoutError:
            if visit.pushed_out:
                raise _too_many_bodies_error() from None
            raise Refusal(
                "RequestTimeoutException",
                408,
                f"The body did not arrive within {self._settings.body_seconds:g} seconds.",
            ) from None
        finally:
            limit.end()
            self._unknown.pop(visit.id, None)

    async def _receive_pieces(self, visit: RequestContext, receive: Receive) -> list[bytes] | None:
        pieces: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            if piece:
                self._reserve(visit, len(piece))
                pieces.append(piece)
            if not message.get("more_body", False):
                return pieces

    def _track_unknown(self, visit: RequestContext, limit: TimeLimit) -> None:
        """Adds a request to those that wait for their bodies with unknown callers.

        Whoever knows an access key's id can have some wait for long; the bodies of callers come
        at once. So the oldest makes room for the newest.
        """
        if len(self._unknown) >= self._settings.concurrency:
            self._evict_oldest()
        self._unknown[visit.id] = visit, limit

    def _evict_oldest(self) -> None:
        visit, limit = self._unknown.pop(next(iter(self._unknown)))
        visit.pushed_out = True
        self._release(visit)
        limit.reschedule(asyncio.get_running_loop().time())

    def _release(self, visit: RequestContext) -> None:
        self._held -= visit.held
        visit.held = 0

    def _reserve(self, visit: RequestContext, size: int) -> None:
        most = self._settings.body_bytes
        visit.held += size
        self._held += size
        if visit.held > most:
            raise _body_too_large_error(most)
        if self._held > _BODIES * most:
            if visit.id == next(iter(self._unknown), visit.id):
                raise _too_many_bodies_error()
            self._evict_oldest()


def _log_request(visit: RequestContext) -> None:
    if access_log.isEnabledFor(INFO):
        # As `info` does, which looks up its caller for each line.
        line, extra = visit.format_log_line(), {REQUEST: visit}
        record = access_log.makeRecord(
            access_log.name, INFO, __file__, 0, "%s", (line,), None, extra=extra
        )
        access_log.handle(record)


def _too_many_bodies_error() -> Refusal:
    return Refusal(
        "ThrottlingException", 429, "Too many requests with bodies to come at once; try again."
    )


def _body_too_large_error(most: int) -> Refusal:
    return Refusal(
        "RequestEntityTooLargeException", 413, f"The body may have at most {most:,} bytes."
    )


def _content_length(request: RawRequest) -> int:
    length = request.one("content-length")
    return int(length[:20]) if length.isdecimal() else 0


def _wrap_send(visit: RequestContext, send: Send) -> Send:
    async def send_with_id(message: Message) -> None:
        if message["type"] == "http.response.start":
            visit.status = message["status"]
            headers = message["headers"] = list(message.get("headers", ()))
            if visit.status >= 400:
                visit.error = _find_error(headers)
            if not any(name.lower() == b"x-amzn-requestid" for name, _ in headers):
                headers.append((b"x-amzn-requestid", visit.id.encode()))
        await send(message)

    return send_with_id


def _find_error(headers: list[tuple[bytes, bytes]]) -> str:
    # Its own word for what is wrong; none where another protocol than AWS's is spoken.
    named = (value for name, value in headers if name.lower() == b"x-amzn-errortype")
    return next(named, b"").decode("latin-1")


async def _receive_end(receive: Receive) -> Message:
    try:
        return await receive()
    except asyncio.CancelledError:
        # After a second Ctrl-C uvicorn cancels what it does not wait for: that is an end as well,
        # and no failure for the log.
        return {"type": "lifespan.shutdown"}


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read, in one piece, and after it what else comes."""
    replayed = False

    async def receive_again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _send_refusal(refusal: Refusal, visit: RequestContext, send: Send) -> None:
    status, body = refusal.to_response(visit.presented.path)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-amzn-errortype", refusal.name.encode()),
    ]
    if refusal.status == 503:
        headers.append((b"retry-after", _RETRY_AFTER))
    if refusal.closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
