"""Uvicorn's HTTP protocol, with a time limit where it has none."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Protocol"]

_SECONDS = 20.0


class Protocol(H11Protocol):
    """HTTP/1.1, for clients that are at it: who starts no request within 20 seconds is cut off.

    Uvicorn waits for ever for the rest of a request's head, so that a few thousand clients that
    send a byte now and then would use up all connections ("slow loris").
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts waiting for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Waits on, unless the data has a request's whole head."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Waits for the next request, and the rest of this one's body."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no longer."""
        super().connection_lost(exc)
        self._stop()

    def _wait(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._patience is None and not self.transport.is_closing():
            self._patience = self.loop.call_later(_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
