"""What one reply of a model's server may take, by the turn's limits; and waits that end with it.

`ModelReplyBounds` is asked wherever bytes or events come in, and `bound_reads` has every wait of an
HTTP client end with the request's time.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from orchestrator.errors import DependencyFailed, LimitExceeded, OrchestratorError
from orchestrator.models.base import ModelRequest
from orchestrator.support.reply_bounds import ReplyBounds

# A token of a stream is an event of its own, with the stream's id, model and time: up to 350 bytes.
_STREAM = 8
# What of an error's body is read.
_ERROR_BYTES = 65_536
# Blocks and tool calls of one reply.
MOST_BLOCKS = 1_000
_WRITTEN = 65_536
# In an event loop: what is read at once is also looked at in one go.
_READ = 16_384
# Bytes of an answer that are read as fast as they come. A model's server may send without end, and
# faster than it takes to look at it.
_FREE = 262_144
# Seconds that the event loop takes for all that is ready in it while it is not busy.
_BUSY = 0.002
# How many times as long the answer of one request waits for the others then, and seconds at most.
_SHARE = 16
_LONGEST_PAUSE = 0.25


class ModelReplyBounds(ReplyBounds):
    """The time and the bytes that one reply may still take, over all tries."""

    def __init__(
        self, model_id: str, request: ModelRequest, *, stream: bool, seconds: float | None = None
    ) -> None:
        """Begins to count; `seconds` hold where the request has no time of its own."""
        super().__init__(request.reply_bytes * (_STREAM if stream else 1))
        self._model_id = model_id
        self._of_turn = request.seconds is not None
        self._seconds = request.seconds if self._of_turn else seconds
        self.ends = None if self._seconds is None else time.monotonic() + self._seconds

    def check_time(self) -> None:
        """Raises when the time is over."""
        # An event loop's timer may go off a little early.
        if self.ends is not None and time.monotonic() >= self.ends - 0.001:
            raise self._build_time_error()

    def build_size_error(self) -> OrchestratorError:
        """The error when there are more bytes."""
        return DependencyFailed(
            f"the model {self._model_id!r} sent more than {self.most:,} bytes in one reply; "
            "if it really has so much to say, raise the limit 'reply_bytes'",
            resource=self._model_id,
        )

    def _build_time_error(self) -> OrchestratorError:
        if self._of_turn:
            return LimitExceeded(
                f"the model {self._model_id!r} did not answer within the {self._seconds:.3g} "
                "seconds that were left of the turn's time; raise the limit 'seconds', or find out "
                "from the trace what is slow",
                limit="seconds",
            )
        return DependencyFailed(
            f"the model {self._model_id!r} did not answer within {self._seconds:g} seconds",
            resource=self._model_id,
        )


class BoundedBody:
    """A body as it is read: a reply within its bounds, or the beginning of an error's."""

    __slots__ = ("_bounds", "content")

    def __init__(self, bounds: ReplyBounds, *, of_reply: bool) -> None:
        self._bounds = bounds if of_reply else None
        self.content = bytearray()

    def add(self, data: bytes) -> bool:
        """Adds bytes; whether more may come."""
        self.content += data
        if self._bounds is not None:
            self._bounds.take(len(data))
            return True
        del self.content[_ERROR_BYTES:]
        return len(self.content) < _ERROR_BYTES


class Until(float):
    """Seconds to wait for one read at most, and no longer than until `ends`."""

    __slots__ = ("ends",)
    ends: float

    @classmethod
    def build(cls, seconds: float, ends: float) -> Until:
        """The time-out of a request that has to end at `ends`."""
        until = cls(seconds)
        until.ends = ends
        return until


def _time_left(timeout: float | None) -> float | None:
    if not isinstance(timeout, Until):
        return timeout
    left = min(float(timeout), timeout.ends - time.monotonic())
    if left > 0:
        return left
    from httpcore2 import ReadTimeout

    raise ReadTimeout("the request's time is over")


def bound_reads(client: Any) -> None:
    """Has each wait of an httpx client's connections end at its request's `Until`.

    The client's own time-outs begin anew with every byte that comes.
    """
    for transport in (client._transport, *client._mounts.values()):
        pool: Any = getattr(transport, "_pool", None)
        backend = getattr(pool, "_network_backend", None)
        if backend is not None:
            asynchronous = hasattr(pool, "aclose")
            pool._network_backend = (_AsyncBackend if asynchronous else _Backend)(backend)


async def _give_way() -> None:
    """Waits the longer, the longer the event loop takes for all that is ready in it."""
    began = time.monotonic()
    await asyncio.sleep(0)
    taken = time.monotonic() - began
    if taken > _BUSY:
        await asyncio.sleep(min(_SHARE * taken, _LONGEST_PAUSE))


class _Backend:
    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, **more: Any
    ) -> _Stream:
        return _Stream(self._backend.connect_tcp(host, port, _time_left(timeout), **more))


class _Stream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        found: bytes = self._stream.read(max_bytes, _time_left(timeout))
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITTEN):
            self._stream.write(buffer[start : start + _WRITTEN], _time_left(timeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _time_left(timeout)))


class _AsyncBackend(_Backend):
    async def connect_tcp(  # type: ignore[override]
        self, host: str, port: int, timeout: float | None = None, **more: Any
    ) -> _AsyncStream:
        return _AsyncStream(
            await self._backend.connect_tcp(host, port, _time_left(timeout), **more)
        )


class _AsyncStream(_Stream):
    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._request: float | None = None  # the time-out of the request that is being answered
        self._count = 0  # bytes of its answer

    async def read(  # type: ignore[override]
        self, max_bytes: int, timeout: float | None = None
    ) -> bytes:
        """Reads bytes; of a long answer only a part at a time, while the event loop is busy."""
        if timeout is not self._request:
            self._request, self._count = timeout, 0
        if self._count > _FREE:
            await _give_way()
        found: bytes = await self._stream.read(min(max_bytes, _READ), _time_left(timeout))
        self._count += len(found)
        return found

    async def write(  # type: ignore[override]
        self, buffer: bytes, timeout: float | None = None
    ) -> None:
        for start in range(0, len(buffer), _WRITTEN):
            await self._stream.write(buffer[start : start + _WRITTEN], _time_left(timeout))

    async def start_tls(  # type: ignore[override]
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _AsyncStream:
        stream = await self._stream.start_tls(ssl_context, server_hostname, _time_left(timeout))
        return _AsyncStream(stream)
