"""One request on its way through the server: what the log and the metrics say of it."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from orchestrator.server.access.guards import RawRequest

# Of a path and a session's id in the log.
_LONGEST_PATH = 300
_LONGEST_ID = 100


@dataclass(slots=True)
class RequestContext:
    """One request; `service` and `operation` are names of ours, and empty until they are known."""

    presented: RawRequest
    id: str = field(default_factory=lambda: str(uuid4()))
    began: float = field(default_factory=time.monotonic)
    status: int = 0  # 0 while nothing was answered, or when the client went before
    tenant: str = ""
    held: int = 0  # bytes of its body
    pushed_out: bool = False
    has_slot: bool = False  # whether it is one of the requests at once
    service: str = ""
    operation: str = ""
    session_id: str = ""
    error: str = ""  # the exception that it was refused or failed with, by AWS's name

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self.began

    @property
    def path(self) -> str:
        """Its path, without the query, as far as the log shows it."""
        return self.presented.path.decode("latin-1")[:_LONGEST_PATH]

    def name(self, service: str, operation: str, session_id: str = "") -> None:
        """Says what the request asks for."""
        self.service, self.operation = service, operation
        self.session_id = session_id

    def format_log_line(self) -> str:
        """The line for the log; no payload, no query and no header is in it."""
        status = self.status or "gone"
        return (
            f"{self.presented.method} {self.path} {status} {self.seconds * 1000:.0f}ms {self.id} "
            f"{self.tenant or '-'}{f' {self.error}' if self.error else ''}"
        )

    def list_log_fields(self) -> dict[str, Any]:
        """The same as members of a JSON object."""
        return {
            "method": self.presented.method,
            "path": self.path,
            "service": self.service or None,
            "operation": self.operation or None,
            "status": self.status or None,
            "error": self.error or None,
            "ms": round(self.seconds * 1000, 1),
        }

    def list_id_fields(self) -> dict[str, Any]:
        """What every record of the request has: its id, its session and its tenant."""
        return {
            "request_id": self.id,
            "session_id": self.session_id[:_LONGEST_ID] or None,
            "tenant": self.tenant or None,
        }


current_request: ContextVar[RequestContext | None] = ContextVar("current_request", default=None)
"""The request that a task or thread works for."""
