"""Requests to the URLs of one server, directly or through the environment's proxy."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from functools import cache, cached_property
from typing import NamedTuple

from orchestrator.errors import ValidationError
from orchestrator.support.http.async_connections import AsyncResponse, LoopConnections
from orchestrator.support.http.connections import Address, Connections, Response, Waits
from orchestrator.support.http.messages import encode_head
from orchestrator.support.http.proxies import find_proxy
from orchestrator.support.http.urls import parse_url
from orchestrator.support.reply_bounds import ReplyBounds


class Request(NamedTuple):
    """A request; names of header fields are in small letters.

    A user's name and password in the URL become its authorization.
    """

    method: str
    url: str
    fields: Sequence[tuple[str, str]] = ()
    body: bytes = b""


class Server:
    """A server, for any number of threads and event loops.

    Redirects are not followed, and no compressed reply is asked for: a few bytes could become any
    number.
    """

    def __init__(self, url: str, waits: Waits, most: int) -> None:
        """Opens nothing yet; at most `most` connections are open at once.

        Raises:
            ValueError: `url` is no http or https address.
        """
        self._place = parse_url(url)
        self._waits = waits
        self._most = most

    def send(self, request: Request, bounds: ReplyBounds, *, streamed: bool = False) -> Response:
        """The response to a request to a URL of this server, as `Connections.send` has it.

        Raises:
            HTTPFailure: There is none.
            OrchestratorError: The response is not within its bounds.
            ValidationError: The request cannot be sent, or not through such a proxy.
        """
        return self._connections.send(self._encode(request), bounds, streamed=streamed)

    async def asend(
        self, request: Request, bounds: ReplyBounds, *, streamed: bool = False
    ) -> AsyncResponse:
        """`send`, on the event loop itself."""
        pool = self._pools.get()
        return await pool.send(self._encode(request), bounds, streamed=streamed)

    def _encode(self, request: Request) -> bytes:
        method, url, fields, body = request
        place = parse_url(url)
        target, own = place.target, [("host", place.authority), ("accept-encoding", "identity")]
        if self._address.proxy is not None and self._address.tls is None:
            target = f"{place.scheme}://{place.authority}{target}"
            own += self._address.proxy.fields
        if place.authorization:
            fields = [field for field in fields if field[0] != "authorization"]
            own.append(("authorization", place.authorization))
        if method != "GET":
            own.append(("content-length", str(len(body))))
        try:
            return encode_head(method, target, [*own, *fields]) + body
        except ValueError:
            # What it is would be told to whoever reads the error: it may be a key.
            raise ValidationError(
                f"the request to {place.authority} cannot be sent: its key, or another header "
                "field, has a line's end or a character beyond Latin-1 in it"
            ) from None

    # What the environment says is asked once, at the first request.

    @cached_property
    def _address(self) -> Address:
        scheme, host, port, *_ = self._place
        tls = build_tls() if scheme == "https" else None
        return Address(host, port, tls, find_proxy(scheme, host, port))

    @cached_property
    def _connections(self) -> Connections:
        return Connections(self._address, self._waits, self._most)

    @cached_property
    def _pools(self) -> LoopConnections:
        return LoopConnections(self._address, self._waits, self._most)


@cache
def build_tls() -> ssl.SSLContext:
    """How servers are spoken to over TLS: the system's certificates, and botocore's besides.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` name others in place of them. Reading the certificates takes
    longer than a request, so all servers share them.
    """
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        from botocore.httpsession import get_cert_path

        # Some builds of Python know no certificates of the system.
        context.load_verify_locations(cafile=str(get_cert_path(True)))
    return context
