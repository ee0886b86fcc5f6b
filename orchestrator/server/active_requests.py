"""The requests that a worker process is answering, so that it can end without losing any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.errors import LimitExceeded
from orchestrator.server.operations import EventStream, Fault, Handler, Operations, Request
from orchestrator.support.time_limit import TimeLimit

if TYPE_CHECKING:
    from orchestrator.sessions import Sessions

T = TypeVar("T")

_BEGUN: tuple[str, Mapping[str, Any]] = ("", {})
# Seconds in which clients get an error, before what is left is cut off. They pass in steps: while
# the process stands still, it sends nothing, and one step passes at most.
_LAST_WORDS, _STEPS = 1.0, 10
# Seconds that a stream goes on without a pause.
_MOMENT = 0.001


class ActiveRequests:
    """The requests that a process is answering; used in its event loop alone."""

    def __init__(self, sessions: Sessions, seconds: float) -> None:
        # Whether the process waits for them no more. Another server may have left the sessions.
        self.left = sessions.leaving = False
        self._sessions = sessions
        self._seconds = seconds
        self._tasks: set[asyncio.Task[Any]] = set()
        self._limits: set[TimeLimit] = set()
        self.is_stopping = False  # whether the process was asked to end

    @contextmanager
    def track_request(self) -> Iterator[None]:
        """Around a task's work on one request: what cuts it off when the process cannot wait."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def stop(self, seconds: float) -> None:
        """Leaves what still runs after some seconds; a second call changes nothing."""
        if not self.is_stopping:
            self.is_stopping = True
            asyncio.get_running_loop().call_later(seconds, self.leave)

    def leave(self) -> None:
        """Leaves every turn open in its journal, for another process; clients get an error."""
        if self.left:
            return
        self.left = self._sessions.leaving = True
        loop = asyncio.get_running_loop()
        for limit in self._limits:
            limit.reschedule(loop.time())
        self._cancel_all_after(_STEPS)

    def _cancel_all_after(self, steps: int) -> None:
        if steps:
            loop = asyncio.get_running_loop()
            loop.call_later(_LAST_WORDS / _STEPS, self._cancel_all_after, steps - 1)
            return
        for task in list(self._tasks):
            task.cancel()

    def limit_operations(self, operations: Operations) -> Operations:
        """Operations whose event streams end when their time is over, or the process ends."""
        return {
            service: {name: self._limit_handler(handler) for name, handler in handlers.items()}
            for service, handlers in operations.items()
        }

    def _limit_handler(self, handler: Handler) -> Handler:
        if not iscoroutinefunction(handler):
            return handler

        @wraps(handler)
        async def handle(request: Request) -> Any:
            answer = await handler(request)
            if isinstance(answer, EventStream):
                events = self.limit_events(answer.events, _BEGUN)
                await anext(events)
                return EventStream(events, answer.members)
            return answer

        return handle

    async def limit_events(
        self, events: AsyncGenerator[T, None], first: T | None = None
    ) -> AsyncGenerator[T, None]:
        """The same events, which are closed with this generator once it is begun.

        `first` is an item before them, for whoever begins the generator.

        Raises:
            LimitExceeded: They went on for too long.
            Fault: The process ends; what the turn has done is stored.
        """
        loop = asyncio.get_running_loop()
        paused, given = loop.time(), 0  # when it paused, and the events since then
        limit = TimeLimit(paused if self.left else paused + self._seconds)
        self._limits.add(limit)
        try:
            async with aclosing(events):
                if first is not None:
                    yield first
                while True:
                    with limit:
                        event = await anext(events)
                    yield event
                    given += 1
                    # What is ready is awaited without a pause: others' turn, and to hear of clients
                    # that have gone, while a model speaks faster than its words are sent. One event
                    # is mostly the whole answer, whose end would wait for all others' turns.
                    if given > 1 and loop.time() - paused >= _MOMENT:
                        await asyncio.sleep(0)
                        paused, given = loop.time(), 0
                        limit.check()
        except StopAsyncIteration:
            return
        except TimeoutError:
            if not limit.expired:
                raise
            raise self._timeout_error() from None
        finally:
            self._limits.discard(limit)
            limit.end()

    def _timeout_error(self) -> Exception:
        if self.left:
            return Fault(
                "InternalServerException",
                "The server is shutting down. What the turn has done is kept: send the same "
                "request again to go on with it.",
            )
        return LimitExceeded(f"the answer took over {self._seconds:g} seconds", limit="seconds")
