"""Traces of OpenTelemetry across HTTP: the header `traceparent` of requests, in and out.

Of W3C's trace context that header alone is passed on: `tracestate` and `baggage` would carry what a
caller wrote to whoever a turn asks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SCOPE = "bedrock-orchestrator"
"""What this package's tracers and meters are called."""

# What more than one room says; the other names are in `engine/telemetry/names.py`.
EXECUTE_TOOL: Final = "execute_tool"
OPERATION_NAME: Final = "gen_ai.operation.name"
TOOL_NAME: Final = "gen_ai.tool.name"
ERROR_TYPE: Final = "error.type"

_HEADER = "traceparent"


def build_trace_headers() -> dict[str, str]:
    """The header for a request that is sent in the current span; empty where there is none."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return {_HEADER: carrier[_HEADER]} if _HEADER in carrier else {}


def get_traceparent() -> str:
    """The header's value in the current span; empty where there is none."""
    return build_trace_headers().get(_HEADER, "")


@contextmanager
def continue_trace(header: str) -> Iterator[None]:
    """Has what begins in the block belong to the trace that a request's header names, if it does.

    A span that is current already, such as one of an ASGI instrumentation, stays.
    """
    if not header or "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    if trace.get_current_span().get_span_context().is_valid:
        yield
        return
    token = context.attach(TraceContextTextMapPropagator().extract({_HEADER: header}))
    try:
        yield
    finally:
        context.detach(token)
