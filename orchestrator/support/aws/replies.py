"""What AWS, or a gateway in its place, may answer: so many bytes, and until a time.

Botocore reads a reply's whole body before anybody else sees it, and its time-out is for one read
only. Here a client's HTTP session is put into one that reads piece by piece and asks before each.
It also remembers which credentials were sent, since an error may repeat them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import local
from typing import Any, Protocol

from orchestrator.errors import DependencyFailed

# No reply of a service that is asked here comes near it.
_MOST = 256_000_000
_PIECE = 65_536
_CREDENTIALS = ("Authorization", "X-Amz-Security-Token")


class Bounds(Protocol):
    """What one reply may still take.

    Attributes:
        ends: When its time is over, as `time.monotonic` counts; `None` for never.
    """

    ends: float | None

    def check_time(self) -> None:
        """Raises when the time is over."""

    def take(self, size: int) -> None:
        """Takes some bytes, or raises when they are too many."""


_bounds: ContextVar[Bounds | None] = ContextVar("orchestrator_reply_bounds", default=None)
_sent = local()


@contextmanager
def use_bounds(bounds: Bounds) -> Iterator[None]:
    """Around a call of a client of `bound_replies`: its reply keeps within `bounds`."""
    token = _bounds.set(bounds)
    try:
        yield
    finally:
        _bounds.reset(token)


def get_sent_credentials() -> tuple[str, ...]:
    """The credentials of this thread's last request, as its headers had them."""
    found: tuple[str, ...] = getattr(_sent, "credentials", ())
    return found


def bound_replies(client: Any) -> None:
    """Has a boto3 client's replies be read within bounds; twice changes nothing."""
    endpoint = getattr(client, "_endpoint", None)
    session = getattr(endpoint, "http_session", None)
    if endpoint is not None and session is not None and not isinstance(session, _Session):
        endpoint.http_session = _Session(session)


class _Session:
    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def send(self, request: Any) -> Any:
        found = (request.headers.get(name) for name in _CREDENTIALS)
        _sent.credentials = tuple(_to_text(value) for value in found if value)
        bounds = _bounds.get()
        if bounds is not None:
            bounds.check_time()
        # Without it botocore's session reads the whole body itself.
        streamed, request.stream_output = request.stream_output, True
        try:
            response = self._session.send(request)
        finally:
            request.stream_output = streamed
        response.raw = _Reply(response.raw, bounds)
        if not streamed:
            _read_content(response, request)
        return response


def _to_text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _read_content(response: Any, request: Any) -> None:
    # Named as botocore's session names them, which decides what is tried again.
    from botocore import exceptions
    from urllib3 import exceptions as http

    try:
        _ = response.content
    except http.ReadTimeoutError as error:
        raise exceptions.ReadTimeoutError(endpoint_url=request.url, error=error) from None
    except http.ProtocolError as error:
        raise exceptions.ConnectionClosedError(
            error=error, request=request, endpoint_url=request.url
        ) from None
    except http.HTTPError as error:
        raise exceptions.HTTPClientError(error=error) from None


class _Reply:
    """A response's body, read as it comes; the rest is urllib3's own."""

    def __init__(self, raw: Any, bounds: Bounds | None) -> None:
        self._raw = raw
        self._bounds = bounds
        self._left = _MOST

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        while piece := self._read_piece(_PIECE):
            yield piece

    def read(self, amt: int | None = None, **_: Any) -> bytes:
        found = bytearray()
        while amt is None or len(found) < amt:
            piece = self._read_piece(_PIECE if amt is None else min(_PIECE, amt - len(found)))
            if not piece:
                break
            found += piece
        return bytes(found)

    def _read_piece(self, most: int) -> bytes:
        bounds = self._bounds
        if bounds is not None:
            bounds.check_time()
            self._limit_wait(bounds)
        try:
            piece: bytes = self._raw.read1(most)
        except Exception:
            if bounds is not None:  # the last wait ends with the time
                bounds.check_time()
            raise
        self._left -= len(piece)
        if bounds is not None:
            bounds.take(len(piece))
        elif self._left < 0:
            raise DependencyFailed(f"a reply of AWS has more than {_MOST:,} bytes")
        return piece

    def _limit_wait(self, bounds: Bounds) -> None:
        sock = getattr(getattr(self._raw, "connection", None), "sock", None)
        if sock is not None and bounds.ends is not None:
            wait = max(bounds.ends - time.monotonic(), 0.001)
            sock.settimeout(min(wait, sock.gettimeout() or wait))
