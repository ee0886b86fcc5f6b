"""Work for a client, while the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from types import TracebackType
from typing import Any, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

T = TypeVar("T")

_LISTEN_AFTER = 0.1  # seconds


class WhileConnected:
    """A `with` block that ends when the client goes: what its task waits for is cancelled then.

    The request's body has to be read before. A task listens for the client, but only once the
    block has taken 0.1 s: an answer that is ready sooner does not pay for it.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False
        self._listener: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._beginning = self._loop.call_later(_LISTEN_AFTER, self._begin)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._beginning.cancel()
        if self._listener is not None:
            self._listener.cancel()
        # As in `asyncio.timeout`: another cancellation than that of the client's going goes on.
        return (
            self._gone
            and self._task.uncancel() <= self._cancelling
            and kind is asyncio.CancelledError
        )

    def _begin(self) -> None:
        self._listener = self._loop.create_task(self._listen())

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._task.cancel()


async def run_while_connected(work: Coroutine[Any, Any, T], receive: Receive) -> T | None:
    """What some work gives, or `None` when its client has gone; the work is cancelled then."""
    with WhileConnected(receive):
        return await work
    return None


class EventResponse(StreamingResponse):
    """Server-sent events; a client that goes, or reads no longer, ends what makes them."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, headers={"cache-control": "no-cache"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends them."""
        with WhileConnected(receive):
            async with aclosing(self._events):
                await self.stream_response(send)
