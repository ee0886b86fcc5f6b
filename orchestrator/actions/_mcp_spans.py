"""The spans of requests to MCP servers, by OpenTelemetry's conventions for MCP.

The MCP SDK has spans of its own, with other names, below which a failure's message (a server's
text) stands. Within our connections ours replace them. The SDK writes the trace context into
`_meta` of each request; over HTTP the header `traceparent` says the same.

This module needs the extra `mcp`, which brings OpenTelemetry's API.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanKind, Status, StatusCode

from orchestrator.support.tracing import (
    ERROR_TYPE,
    EXECUTE_TOOL,
    OPERATION_NAME,
    SCOPE,
    TOOL_NAME,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span

METHOD_NAME: Final = "mcp.method.name"
SESSION_ID: Final = "mcp.session.id"
REQUEST_ID: Final = "jsonrpc.request.id"
PROTOCOL_VERSION: Final = "mcp.protocol.version"
TRANSPORT: Final = "network.transport"
TOOL_ERROR: Final = "tool_error"
"""The kind of error of a call that the tool itself has answered with one."""

_is_ours: ContextVar[bool] = ContextVar("orchestrator_mcp_request", default=False)


@contextmanager
def trace_request(
    method: str, tool: str, *, http: bool, version: str, session: str
) -> Iterator[Span]:
    """The span of one request; what fails in the block fails it.

    Args:
        method: Such as `tools/call`.
        tool: The tool's name, if it is about one.
        http: Whether it goes over HTTP; else to a process.
        version: The version of the protocol that both sides speak.
        session: The id that the server has given the connection; empty for none.
    """
    attributes = {
        METHOD_NAME: method,
        PROTOCOL_VERSION: version,
        TRANSPORT: "tcp" if http else "pipe",
    }
    if session:
        attributes[SESSION_ID] = session
    if tool:
        attributes |= {OPERATION_NAME: EXECUTE_TOOL, TOOL_NAME: tool}
    started = trace.get_tracer(SCOPE).start_as_current_span(
        f"{method} {tool}" if tool else method,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,  # its message may be the server's
        set_status_on_exception=False,
    )
    with started as span:
        try:
            yield span
        except BaseException as error:
            fail_span(span, getattr(error, "kind", "") or type(error).__name__)
            raise


def fail_span(span: Span, kind: str) -> None:
    """Marks a request as failed, without a message."""
    span.set_attribute(ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR))


def replace_sdk_spans() -> None:
    """Has the MCP SDK make no span for requests that the calling context sends from now on."""
    _install()
    _is_ours.set(True)


@cache
def _install() -> None:
    from mcp.shared import _otel

    sdk: Any = _otel
    sdk._tracer = _Tracer(sdk._tracer)


class _Tracer:
    """The SDK's tracer for everybody else in this process."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracer, name)

    def start_as_current_span(self, *arguments: Any, **options: Any) -> Any:
        if not _is_ours.get():
            return self._tracer.start_as_current_span(*arguments, **options)
        # The context is ours, which the SDK passes on. What it would note is nobody's, but for the
        # request's id, which nobody else knows; of a list in pages, the last request's stays.
        current = trace.get_current_span()
        if REQUEST_ID in (known := options.get("attributes") or {}):
            current.set_attribute(REQUEST_ID, known[REQUEST_ID])
        span = NonRecordingSpan(current.get_span_context())
        return trace.use_span(span, record_exception=False, set_status_on_exception=False)
