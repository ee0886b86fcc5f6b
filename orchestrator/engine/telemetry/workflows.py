"""The span of work that is no turn, and that has turns in it: a run of a graph of nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def trace_workflow(name: str) -> Iterator[None]:
    """Has what is done in the block, and in threads that it starts, below a span of its own.

    Where nobody has set up OpenTelemetry, nothing happens.
    """
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    from orchestrator.engine.run.observation import begin_step
    from orchestrator.engine.telemetry.spans import begin_workflow

    span = begin_step(begin_workflow, name)
    if span is None:
        yield
        return
    token = span.attach()
    try:
        yield
    except BaseException as error:
        span.detach(token)
        span.end(None, error)
        raise
    span.detach(token)
    span.end(None, None)
