"""How a request may fail before its response was read. None of them repeats what was sent."""

from __future__ import annotations


class HTTPFailure(Exception):
    """A request was not answered, or not to the end."""


class ConnectFailed(HTTPFailure):
    """Nobody listens, or there is no such host; nothing was sent."""


class ConnectTimedOut(HTTPFailure):
    """No connection came about in time; nothing was sent."""


class TLSFailed(HTTPFailure):
    """The handshake failed, such as for a certificate that nobody trusts; nothing was sent."""


class ProxyRefused(HTTPFailure):
    """The proxy does not let anything through to the server; nothing was sent to that."""


class ReadTimedOut(HTTPFailure):
    """The server sent nothing for too long."""


class Disconnected(HTTPFailure):
    """The connection ended before the response did."""


class BadResponse(HTTPFailure):
    """What came is no HTTP/1.1 response, or a part of it is longer than any real one."""
