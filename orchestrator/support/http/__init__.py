"""HTTP/1.1 for servers of models: one request and its response over connections that are kept.

What general clients cost for each request is more than a model's own client may (docs/speed.md).
A response is read strictly: what is not exactly a length, chunks or a body until the connection's
end is refused, with bounds for heads, chunk lines and trailers.
"""

from __future__ import annotations

from orchestrator.support.http.async_connections import AsyncResponse, LoopConnections
from orchestrator.support.http.connections import Address, Connections, Response, Waits
from orchestrator.support.http.failures import (
    BadResponse,
    ConnectFailed,
    ConnectTimedOut,
    Disconnected,
    HTTPFailure,
    ProxyRefused,
    ReadTimedOut,
    TLSFailed,
)
from orchestrator.support.http.messages import ResponseReader, encode_head
from orchestrator.support.http.server import Request, Server
from orchestrator.support.http.urls import parse_url

__all__ = [
    "Address",
    "AsyncResponse",
    "BadResponse",
    "ConnectFailed",
    "ConnectTimedOut",
    "Connections",
    "Disconnected",
    "HTTPFailure",
    "LoopConnections",
    "ProxyRefused",
    "ReadTimedOut",
    "Request",
    "Response",
    "ResponseReader",
    "Server",
    "TLSFailed",
    "Waits",
    "encode_head",
    "parse_url",
]
