"""What AWS, or a gateway in its place, may answer: so many bytes, and until a time.

Botocore reads a reply's whole body before anybody else sees it, and its time-out is for one read
only. Here a client's HTTP session is put into one that reads piece by piece and asks before each.
It also remembers which credentials were sent, since an error may repeat them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from http.client import IncompleteRead
from typing import Any

from orchestrator.support.reply_bounds import ReplyBounds

# No reply of a service that is asked here comes near it.
_MOST = 256_000_000
_PIECE = 65_536
_CREDENTIALS = ("authorization", "x-amz-security-token")

_bounds: ContextVar[ReplyBounds | None] = ContextVar("orchestrator_reply_bounds", default=None)
_sent: ContextVar[tuple[str, ...]] = ContextVar("orchestrator_sent_credentials", default=())


@contextmanager
def use_bounds(bounds: ReplyBounds) -> Iterator[None]:
    """Around a call of a client of `bound_replies`: its reply keeps within `bounds`."""
    token = _bounds.set(bounds)
    try:
        yield
    finally:
        _bounds.reset(token)


def get_sent_credentials() -> tuple[str, ...]:
    """The credentials of this thread's, or task's, last request, as its headers had them."""
    return _sent.get()


def credentials_of(headers: Mapping[str, Any]) -> tuple[str, ...]:
    """The credentials in a request's headers."""
    return tuple(_to_text(value) for name, value in headers.items() if name.lower() in _CREDENTIALS)


def note_sent_credentials(sent: tuple[str, ...]) -> None:
    """Has `get_sent_credentials` return `sent` in this thread, or task."""
    _sent.set(sent)


@contextmanager
def keep_sent_credentials() -> Iterator[None]:
    """Around the reading of a reply, whose errors may repeat what its own request had.

    Others may ask meanwhile, and a generator's next piece may be read in another context.
    """
    sent = get_sent_credentials()
    try:
        yield
    except Exception:
        note_sent_credentials(sent)
        raise


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
        note_sent_credentials(credentials_of(request.headers))
        bounds = _bounds.get() or ReplyBounds(_MOST, "a reply of AWS")
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
    except BaseException:  # it is not read to its end: its connection is of no use any more
        response.raw.close()
        raise


class _Reply:
    """A response's body, read as it comes; the rest is urllib3's own."""

    def __init__(self, raw: Any, bounds: ReplyBounds) -> None:
        self._raw = raw
        self._bounds = bounds
        self._ends = math.inf if bounds.ends is None else bounds.ends
        # Until the first piece, longer than what is left; with no end, never.
        self._wait = 0.0 if bounds.ends is None else 1e9

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        # As `urllib3` reads chunks itself, without what its `read1` costs for each: a token is one.
        raw = self._raw
        with raw._error_catcher():
            while piece := self._read_piece(_PIECE, raw._fp.read1):
                yield piece
            if raw._fp.length:  # `read1` does not mind an end before that of the body
                raise IncompleteRead(b"", raw._fp.length)
            raw._fp.close()

    def read(self, amt: int | None = None, **_: Any) -> bytes:
        found = bytearray()
        while amt is None or len(found) < amt:
            most = _PIECE if amt is None else min(_PIECE, amt - len(found))
            piece = self._read_piece(most, self._raw.read1)
            if not piece:
                break
            found += piece
        return bytes(found)

    def _read_piece(self, most: int, read: Callable[[int], bytes]) -> bytes:
        # The wait is not set for each piece: so the last one is a tenth too long at most.
        if self._ends - time.monotonic() < self._wait * 0.9:
            self._limit_wait()
        try:
            piece = read(most)
        except Exception:
            self._bounds.check_time()  # the last wait ends with the time
            raise
        self._bounds.take(len(piece))
        return piece

    def _limit_wait(self) -> None:
        self._bounds.check_time()
        left = self._ends - time.monotonic()
        sock = getattr(getattr(self._raw, "connection", None), "sock", None)
        self._wait = max(min(left, self._wait), 0.001)
        if sock is not None:
            self._wait = min(self._wait, sock.gettimeout() or self._wait)
            sock.settimeout(self._wait)
