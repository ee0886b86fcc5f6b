"""The paths that whoever runs a server asks, before it is known who that is: no key is needed.

What they cost does not grow with how often they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.types import Receive, Scope, Send

from orchestrator.server.access.guards import RawRequest
from orchestrator.server.health import Check, Readiness
from orchestrator.server.metrics import CONTENT_TYPE, ServerMetrics

if TYPE_CHECKING:
    from orchestrator.server.active_requests import ActiveRequests

_LIVE, _READY, _METRICS = b"/livez", b"/readyz", b"/metrics"
_STOPPING = b'{"status": "not ready", "checks": {"server": "shutting down"}}'

PROBES = frozenset((_LIVE, _READY, _METRICS))
"""The paths; the log has no line of one that was answered with 200."""


class Probes:
    """Answers the probes of one process.

    With keys a server has tenants, and what it counts is that of all of them: then metrics are for
    whoever reaches the port that is theirs alone (`MetricsApp`).
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        running: ActiveRequests,
        metrics: ServerMetrics | None = None,
    ) -> None:
        self._readiness = Readiness(checks)
        self._running = running
        self._metrics = metrics

    async def answer(self, request: RawRequest, send: Send) -> bool:
        """Answers a request for a probe; whether it was one."""
        if request.path not in PROBES or request.method != "GET":
            return False
        if request.path == _LIVE:
            await _send_json(send, 200, b'{"status": "alive"}')
        elif request.path == _METRICS:
            if self._metrics is None:
                return False
            await _send(send, 200, CONTENT_TYPE, await to_thread.run_sync(self._metrics.render))
        elif self._running.is_stopping:
            await _send_json(send, 503, _STOPPING)
        else:
            report = await self._readiness.report()
            await _send_json(send, 200 if report.is_ready else 503, report.to_json())
        return True


class MetricsApp:
    """An ASGI application that answers `GET /metrics` and nothing else."""

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return
        if (scope["method"], scope["path"]) != ("GET", _METRICS.decode()):
            await _send(send, 404, "text/plain", b"Here is nothing but GET /metrics.\n")
            return
        await _send(send, 200, CONTENT_TYPE, await to_thread.run_sync(self._render))


async def _send_json(send: Send, status: int, body: bytes) -> None:
    await _send(send, status, "application/json", body)


async def _send(send: Send, status: int, content_type: str, body: bytes) -> None:
    headers = [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
