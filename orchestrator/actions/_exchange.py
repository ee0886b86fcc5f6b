"""One HTTP request to a checked address, within a time and a size.

The standard library's HTTP/1.1 does this in less code than a client library's hooks would need:
here the socket is ours, so that it can be connected to an address that was checked while TLS and
`Host` keep the name, and so that one deadline holds for connecting, sending and every single read.
Proxies of the environment are not used: they would choose the address.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import SplitResult

from orchestrator.actions.hosts import Hosts, port_of


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent: a percent-encoded address, and checked headers without `Host`."""

    verb: str
    url: SplitResult
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """What came back; names of headers in lower case, and at most one byte too many of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    fault: str = ""  # why the body is not whole, without any payload; empty when it is


class NotSent(Exception):
    """The request did not leave: no connection. The text says why, without any payload."""


class IncompleteResponse(Exception):
    """The request left, and no answer came. The text says why, without any payload."""


def exchange(request: Request, *, deadline: float, most: int, hosts: Hosts) -> Response:
    """Sends `request` and reads at most `most` bytes of the answer, until `deadline` (monotonic).

    Raises:
        RefusedAddress: The host leads where it may not; nothing was sent.
        NotSent: There is no connection.
        IncompleteResponse: The connection broke, or the time was up, before there was a status.
    """
    url = request.url
    sock = _connect(url, deadline, hosts)
    try:
        connection = http.client.HTTPConnection(url.hostname or "", port_of(url))
        timed: Any = _DeadlineSocket(sock, deadline)
        connection.sock = timed
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        # `netloc` is the host as it was written, with its port if that is not the usual one.
        headers = {"Host": url.netloc, **request.headers}
        connection.request(request.verb, target, request.body, headers)
        return _read(connection.getresponse(), most)
    # Whatever is wrong with an answer, the request left, and may have taken effect.
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise IncompleteResponse(_explain_error(error)) from None
    finally:
        sock.close()


# The status says what became of the request, even if nothing that follows can be read.
def _read(response: http.client.HTTPResponse, most: int) -> Response:
    headers = {name.lower(): value for name, value in response.getheaders()}
    body, fault = b"", ""
    try:
        body = response.read(most + 1)
        # `http.client` gives a body that broke off as if it were whole.
        if len(body) <= most and response.length:  # the rest did not come
            raise http.client.IncompleteRead(b"", response.length)
    except (OSError, http.client.HTTPException, ValueError) as error:
        fault = _explain_error(error)
    # What the server calls the status is left: it may repeat what was sent, credentials too.
    return Response(response.status, headers, body, fault)


# Connects to the first checked address that answers; TLS keeps the host's name.
def _connect(url: SplitResult, deadline: float, hosts: Hosts) -> socket.socket:
    host = url.hostname or ""
    try:
        addresses = hosts.resolve(host, port_of(url))
    except OSError:
        raise NotSent(f"the name {host!r} is unknown") from None
    why = "it has no address"
    for address in addresses:
        try:
            sock = socket.create_connection((address, port_of(url)), _seconds_left(deadline))
        except OSError as error:
            why = _explain_error(error)
            continue
        try:
            sock.settimeout(_seconds_left(deadline))
            secure = url.scheme == "https"
            return _tls().wrap_socket(sock, server_hostname=host) if secure else sock
        except (OSError, ValueError) as error:
            sock.close()
            why = _explain_error(error)
    raise NotSent(why)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _seconds_left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _explain_error(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "the time was up"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    reason = getattr(error, "strerror", None)
    return f"{type(error).__name__}{f': {reason}' if reason else ''}"


# `http.client` knows a time limit for each wait only; here every wait ends at one deadline.
class _DeadlineSocket(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(_seconds_left(self._deadline))
        self._sock.sendall(data)

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_seconds_left(self._deadline))
        return self._sock.recv_into(buffer)

    # `http.client` closes its socket early; whoever opened this one closes it.
    def close(self) -> None:
        pass
