"""What pages read while it comes: JSON values, one a line."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from orchestrator.server.disconnects import EventResponse
from orchestrator.server.workbench.jobs import Job


class LineResponse(EventResponse):
    """JSON values, one a line; a client that goes ends what makes them."""

    media_type = "application/x-ndjson"


def to_line(item: Mapping[str, Any]) -> bytes:
    """A JSON value on a line of its own."""
    return json.dumps(item, ensure_ascii=True, default=str).encode() + b"\n"


def show_progress(job: Job) -> LineResponse:
    """How far a job is, until it has ended."""

    async def stream() -> AsyncGenerator[bytes, None]:
        async with aclosing(job.follow()) as states:
            async for state in states:
                yield to_line(state)

    return LineResponse(stream())
