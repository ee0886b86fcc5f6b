"""Who may see the workbench: whoever has its launch token, from pages of its own, on its own name.

The token is in the fragment of the address that is printed, which no browser sends and no log has;
a script of the page exchanges it for a cookie, which browsers send to an unguessable path alone.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.server.access.guards import Guard, RawRequest, Refusal
from orchestrator.server.settings import Settings
from orchestrator.support.safe_json import read_json

ROOT = "/workbench"
ENTER = f"{ROOT}/enter"
STATIC = f"{ROOT}/static/"
ROOT_KEY = "orchestrator.workbench"
"""The member of a request's scope that has the path under which the workbench is."""

# Whatever is in a page as text stays text, and nothing is fetched from anywhere else.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
# A page cannot send this header to another origin without asking it first.
_MARK = "x-workbench"
_BODY = 32_000_000
_TOKEN = 200  # bytes of the body that brings one


class Gate:
    """ASGI middleware around the workbench, and what alone is behind no cookie: its door."""

    def __init__(self, app: ASGIApp, settings: Settings, locked_page: Callable[[], str]) -> None:
        self.token = secrets.token_urlsafe(32)  # in the printed address
        self._app = app
        self._guard = Guard(settings)
        self._cookie = secrets.token_urlsafe(32)
        # Cookies know no ports, but paths: another server of this machine is sent this one only by
        # who knows the path.
        self.root = f"{ROOT}/{secrets.token_urlsafe(16)}"
        self._locked_page = locked_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request in, or refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _add_headers(send)
        raw = scope.get("raw_path") or scope["path"].encode()
        request = RawRequest(scope["method"], raw, scope["query_string"], scope["headers"])
        try:
            self._guard.check(request)
            _check_method(request)
            _check_size(request)
        except Refusal as refusal:
            await _answer(send, refusal.status, json.dumps({"message": refusal.message}))
            return
        path = scope["path"]
        if path == ENTER and request.method == "POST":
            await self._enter(request, receive, send)
        elif path.startswith(STATIC):
            await self._app(scope, receive, send)
        elif self._is_inside(path) and self._is_known(request):
            inner = f"{ROOT}{path[len(self.root) :]}"
            own = {**scope, "path": inner, "raw_path": inner.encode(), ROOT_KEY: self.root}
            await self._app(own, _limit_body(receive), send)
        else:
            await self._refuse(request, send)

    async def _refuse(self, request: RawRequest, send: Send) -> None:
        if request.method == "GET" and "text/html" in request.one("accept"):
            await _answer(send, 401, self._locked_page(), kind="text/html; charset=utf-8")
            return
        text = "The workbench does not know you: open the address that it printed when it started."
        await _answer(send, 401, json.dumps({"message": text}))

    async def _enter(self, request: RawRequest, receive: Receive, send: Send) -> None:
        body = await _read_body(receive, _TOKEN)
        try:
            token = read_json(body)["token"]
        except (ValueError, LookupError, TypeError, RecursionError):
            token = ""
        if not isinstance(token, str) or not _is_same(token, self.token):
            text = "That is not the token of this workbench; it prints a new one at each start."
            await _answer(send, 401, json.dumps({"message": text}))
            return
        cookie = (
            f"{_cookie_name(request)}={self._cookie}; HttpOnly; SameSite=Strict; Path={self.root}"
        )
        await _answer(send, 200, json.dumps({"root": self.root}), {"set-cookie": cookie})

    def _is_inside(self, path: str) -> bool:
        end = len(self.root)
        return _is_same(path[:end], self.root) and path[end : end + 1] in ("", "/")

    def _is_known(self, request: RawRequest) -> bool:
        try:
            cookies = SimpleCookie(request.one("cookie"))
        except CookieError:
            return False
        found = cookies.get(_cookie_name(request))
        return found is not None and _is_same(found.value, self._cookie)


def _is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _cookie_name(request: RawRequest) -> str:
    # Cookies know no ports: two workbenches on one machine would log each other out.
    port = request.one("host").rpartition(":")[2]
    return f"workbench-{port if port.isdecimal() else 80}"


def _check_method(request: RawRequest) -> None:
    if request.method in ("GET", "HEAD"):
        return
    if request.method != "POST":
        raise Refusal("ValidationException", 405, "The workbench has GET and POST alone.")
    if request.one("content-type").partition(";")[0].strip().lower() != "application/json":
        raise Refusal("ValidationException", 415, "What changes something is sent as JSON.")
    if request.one(_MARK) != "1":
        raise Refusal(
            "AccessDeniedException", 403, f"What changes something needs the header {_MARK}: 1."
        )


def _check_size(request: RawRequest) -> None:
    length = request.one("content-length")
    if length.isdecimal() and (len(length) > 12 or int(length) > _BODY):
        raise Refusal(
            "RequestEntityTooLargeException", 413, f"A request may have at most {_BODY:,} bytes."
        )


async def _read_body(receive: Receive, most: int) -> bytes:
    body = b""
    while len(body) <= most:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            break
    return body[: most + 1]


def _limit_body(receive: Receive) -> Receive:
    left = _BODY

    async def receive_some() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            return {"type": "http.disconnect"}
        return message

    return receive_some


def _add_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message.get("headers", ())}
            added = [
                (name.encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.encode() not in own
            ]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return send_with_headers


async def _answer(
    send: Send,
    status: int,
    text: str,
    headers: dict[str, str] | None = None,
    kind: str = "application/json",
) -> None:
    body = text.encode()
    all_headers = {"content-type": kind, "content-length": str(len(body)), **(headers or {})}
    pairs = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
