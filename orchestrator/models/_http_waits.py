"""How an HTTP client reads and writes: no longer than its request may take, nor in others' way."""

from __future__ import annotations

import time
from typing import Any

from orchestrator.support.http import FREE, give_way

_WRITTEN = 65_536
# In an event loop: what is read at once is also looked at in one go.
_READ = 16_384


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
        if self._count > FREE:
            await give_way()
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
