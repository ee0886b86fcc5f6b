"""Uvicorn's HTTP protocol, with a time limit where it has none, and no folded headers."""

from __future__ import annotations

import asyncio
import re

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_SECONDS = 20.0
_NEXT = re.compile(rb"\n(?:(?P<folded>[ \t])|\r?\n)")
"""What ends a head, or the first line of one that goes on in the next line."""


class Protocol(H11Protocol):
    """HTTP/1.1, for clients that are at it: who starts no request within 20 seconds is cut off.

    Uvicorn waits for ever for the rest of a request's head, so that a few thousand clients that
    send a byte now and then would use up all connections ("slow loris").

    Headers over several lines are refused, as RFC 9112 asks (section 5.2): whoever reads them
    otherwise than the server may see another request in them.
    """

    _patience: asyncio.TimerHandle | None = None
    _looked = 0  # how much of a head

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts waiting for the first request."""
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        """Waits on, unless the data has a request's whole head."""
        super().data_received(data)
        self._update_timer()

    def handle_events(self) -> None:
        """Looks at a request's head before it is read."""
        if self.conn.their_state is h11.IDLE and self._has_folded_header():
            self.send_400_response("A header goes over several lines.")
        else:
            super().handle_events()

    def _has_folded_header(self) -> bool:
        head, _ = self.conn.trailing_data
        found = _NEXT.search(head, self._looked)
        # What came before is not looked at again with every byte that comes.
        self._looked = 0 if found else max(len(head) - 2, 0)
        return found is not None and found["folded"] is not None

    def on_response_complete(self) -> None:
        """Waits for the next request, and the rest of this one's body."""
        super().on_response_complete()
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no longer."""
        super().connection_lost(exc)
        self._cancel_timer()

    def _update_timer(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_timer()
        elif self._patience is None and not self.transport.is_closing():
            self._patience = self.loop.call_later(_SECONDS, self.transport.close)

    def _cancel_timer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
