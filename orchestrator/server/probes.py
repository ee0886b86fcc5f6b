"""The paths that whoever runs a server asks, before it is known who that is: no key is needed.

What they cost does not grow with how often they are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.types import Send

from orchestrator.server.access.guards import RawRequest
from orchestrator.server.health import Check, Readiness

if TYPE_CHECKING:
    from orchestrator.server.active_requests import ActiveRequests

_LIVE, _READY = b"/livez", b"/readyz"
_STOPPING = b'{"status": "not ready", "checks": {"server": "shutting down"}}'

PROBES = frozenset((_LIVE, _READY))
"""The paths; the log has no line of one that was answered with 200."""


class Probes:
    """Answers the probes of one process."""

    def __init__(self, checks: Mapping[str, Check], running: ActiveRequests) -> None:
        self._readiness = Readiness(checks)
        self._running = running

    async def answer(self, request: RawRequest, send: Send) -> bool:
        """Answers a request for a probe; whether it was one."""
        if request.path not in PROBES or request.method != "GET":
            return False
        if request.path == _LIVE:
            await _send_json(send, 200, b'{"status": "alive"}')
        elif self._running.is_stopping:
            await _send_json(send, 503, _STOPPING)
        else:
            report = await self._readiness.report()
            await _send_json(send, 200 if report.is_ready else 503, report.to_json())
        return True


async def _send_json(send: Send, status: int, body: bytes) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
