"""Whether a client is still there: nobody waits for an answer that nobody reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


class EventResponse(StreamingResponse):
    """Server-sent events; a client that goes, or reads no longer, ends what makes them."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        """Answers with events.

        Args:
            events: Each as bytes; begun, so that closing it does what its `finally`s say.
        """
        super().__init__(events, headers={"cache-control": "no-cache"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends them."""
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)


async def run_while_connected(work: Coroutine[Any, Any, T], receive: Receive) -> T | None:
    """What some work gives, or `None` when its client has gone; the work is cancelled then.

    The request's body has to be read before.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
