"""What every request passes: limits, guards, who is calling, and a line in the log.

Nothing here knows what a request asks for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from uuid import uuid4

from anyio import to_thread
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.server.access.callers import Callers
from orchestrator.server.access.guards import Guard
from orchestrator.server.access.presented import Presented
from orchestrator.server.access.refusal import Refusal
from orchestrator.server.operations import Caller
from orchestrator.server.running import Running
from orchestrator.server.settings import Settings
from orchestrator.server.wire.faults import log_failure

__all__ = ["Door"]

access_log = logging.getLogger("orchestrator.server.access")

_HEALTH = ("GET", b"/ping")  # (AgentCore: asked by whoever runs the container, without a key)
_BODIES = 8  # of the largest size, held by requests whose callers are not known yet
_LONGEST_PATH = 300
_LARGE = 256 * 1024


@dataclass(slots=True)
class _Visit:
    """One request on its way through the door."""

    presented: Presented
    id: str = field(default_factory=lambda: str(uuid4()))
    began: float = field(default_factory=time.monotonic)
    status: int = 0
    tenant: str = ""
    held: int = 0

    def told(self) -> str:
        """The line for the log; no payload, no query and no header is in it."""
        path = self.presented.path.decode("latin-1")[:_LONGEST_PATH]
        took = (time.monotonic() - self.began) * 1000
        status = self.status or "gone"
        return (
            f"{self.presented.method} {path} {status} {took:.0f}ms {self.id} {self.tenant or '-'}"
        )


class Door:
    """ASGI middleware around the whole application.

    A request that passes has in its `scope["state"]`: `caller`, a `Caller`, and `request_id`.
    """

    def __init__(
        self, app: ASGIApp, *, settings: Settings, callers: Callers, running: Running
    ) -> None:
        """Makes it.

        Args:
            app: What answers.
            settings: The limits.
            callers: Tells who is calling.
            running: Learns of every request.
        """
        self._app = app
        self._settings = settings
        self._callers = callers
        self._running = running
        self._guard = Guard(settings)
        self._inside = 0
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request in, or refuses it."""
        if scope["type"] != "http":  # the application's start and end; websockets are refused there
            await self._app(scope, receive, send)
            return
        raw = scope.get("raw_path") or scope["path"].encode()
        visit = _Visit(Presented(scope["method"], raw, scope["query_string"], scope["headers"]))
        try:
            await self._let_in(visit, scope, receive, _noting(visit, send))
        finally:
            self._held -= visit.held
            access_log.info("%s", visit.told())

    async def _let_in(self, visit: _Visit, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._guard.check(visit.presented)
            if (visit.presented.method, visit.presented.path) == _HEALTH:
                await self._entered(visit, scope, receive, send, Caller())
                return
            if self._inside >= self._settings.concurrency:
                raise Refusal("ThrottlingException", 429, "Too many requests at once; try again.")
        except Refusal as refusal:
            await _refuse(refusal, visit, send)
            return
        self._inside += 1
        try:
            await self._checked(visit, scope, receive, send)
        finally:
            self._inside -= 1

    async def _checked(self, visit: _Visit, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            verdict = self._callers.begin(visit.presented)
            pieces = await self._read(visit, receive)
            if pieces is None:
                return
            # A large body takes long enough to hash to keep others waiting.
            large = visit.held > _LARGE
            caller = await to_thread.run_sync(verdict, pieces) if large else verdict(pieces)
        except Refusal as refusal:
            await _refuse(refusal, visit, send)
            return
        self._held -= visit.held
        visit.held = 0
        await self._entered(visit, scope, _again(b"".join(pieces), receive), send, caller)

    async def _entered(
        self, visit: _Visit, scope: Scope, receive: Receive, send: Send, caller: Caller
    ) -> None:
        visit.tenant = caller.tenant
        scope["state"] = {**scope.get("state", {}), "caller": caller, "request_id": visit.id}
        try:
            with self._running.request():
                await self._app(scope, receive, send)
        except (OSError, ClientDisconnect):
            return  # the client has gone
        except asyncio.CancelledError:
            if not self._running.left or visit.status:
                raise
            message = "The server is shutting down; what was begun is kept. Try again."
            await _refuse(Refusal("ServiceUnavailableException", 503, message), visit, send)
        except Exception as error:
            log_failure(error, visit.id)
            if not visit.status:
                message = f"Something went wrong in the server. Its log says more: {visit.id}."
                await _refuse(Refusal("InternalServerException", 500, message), visit, send)

    async def _read(self, visit: _Visit, receive: Receive) -> list[bytes] | None:
        """The body in pieces; `None` when the client went before it was whole."""
        most = self._settings.body_bytes
        if _length(visit.presented) > most:
            raise _too_large(most)
        pieces: list[bytes] = []
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    piece = message.get("body", b"")
                    if piece:
                        self._hold(visit, len(piece))
                        pieces.append(piece)
                    if not message.get("more_body", False):
                        return pieces
        except TimeoutError:
            raise Refusal(
                "RequestTimeoutException",
                408,
                f"The body did not arrive within {self._settings.body_seconds:g} seconds.",
            ) from None

    def _hold(self, visit: _Visit, size: int) -> None:
        most = self._settings.body_bytes
        visit.held += size
        self._held += size
        if visit.held > most:
            raise _too_large(most)
        if self._held > _BODIES * most:
            raise Refusal("ThrottlingException", 429, "Too many large requests at once; try again.")


def _too_large(most: int) -> Refusal:
    return Refusal(
        "RequestEntityTooLargeException", 413, f"The body may have at most {most:,} bytes."
    )


def _length(request: Presented) -> int:
    told = request.one("content-length")
    return int(told) if told.isdecimal() and len(told) < 20 else 0


def _noting(visit: _Visit, send: Send) -> Send:
    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            visit.status = message["status"]
            headers = message["headers"] = list(message.get("headers", ()))
            if not any(name.lower() == b"x-amzn-requestid" for name, _ in headers):
                headers.append((b"x-amzn-requestid", visit.id.encode()))
        await send(message)

    return noting


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read, in one piece, and after it what else comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(refusal: Refusal, visit: _Visit, send: Send) -> None:
    status, body = refusal.answer(visit.presented.path)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-amzn-errortype", refusal.name.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
