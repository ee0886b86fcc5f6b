"""Keeps browsers and strangers away from a server, before any key is looked at.

A web page can send requests to the machine that it is read on, also to one with no address of its
own: by a form, by `fetch`, or by having its own name resolve to that machine. A server that nobody
has to sign for would do what the page wants.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from orchestrator.errors import ValidationError
from orchestrator.server.settings import Settings

_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
# Names that no public DNS has: a page's owner cannot make them lead to another machine (RFC 6761,
# RFC 6762, RFC 8375, and ICANN's reservation of .internal). A name without a dot is one as well.
_PRIVATE = (".local", ".internal", ".localhost", ".test", ".home.arpa")
# Fetch Metadata: what browsers say of requests that no other site caused.
_SAME_SITE = ("same-origin", "none")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; names other than `localhost` count as not."""
    name = host.strip("[]").lower().rstrip(".")
    if name == "localhost":
        return True
    address = _parse_address(name)
    return address is not None and address.is_loopback


def check_binding(settings: Settings) -> None:
    """Refuses to serve others without keys, unless that was asked for.

    Raises:
        ValidationError: There are neither keys nor `open`, and the address is not loopback.
    """
    if settings.keys is None and not settings.open and not is_loopback(settings.host):
        raise ValidationError(
            f"on {settings.host!r} others than this machine could use the agents: give access "
            "keys with --keys FILE, or --open to serve everybody who reaches it, or --host "
            "127.0.0.1"
        )


def describe_bind_error(host: str, port: int, option: str, error: OSError) -> str:
    """Why an address cannot be listened on; `option` is the one that names the port."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host!r} is in use by another program: choose another with {option}, "
            "or 0 for any that is free"
        )
    if error.errno == errno.EACCES:
        return (
            f"port {port} is for the system's own programs: choose one from 1024 on with {option}"
        )
    return f"port {port} of {host!r} cannot be listened on: {error.strerror}"


class Guard:
    """Refuses what a page in a browser sends."""

    def __init__(self, settings: Settings) -> None:
        self._bound = settings.host.strip("[]").lower()
        self._named = settings.keys is None
        self._open = not is_loopback(settings.host)
        self._last_own = ""  # the Host of the last request that named one of this server's

    def check(self, request: RawRequest) -> None:
        """Looks at one request.

        Raises:
            Refusal: It comes from a page of another site, or for a name that is not this server's,
                or two headers of it say where its body ends.
        """
        if request.all("transfer-encoding") and request.all("content-length"):
            # A proxy before the server may have believed the other one (RFC 9112, section 6.1).
            raise Refusal(
                "ValidationException",
                400,
                "A request has Content-Length or Transfer-Encoding, and not both.",
                closes=True,
            )
        host = request.one("host")
        if self._named and not self._is_own_host(host):
            raise _access_denied_error(
                f"The Host {host[:100]!r} is none of this server's names; without access keys it "
                "answers to the address it listens on alone. Use that, or start it with --keys."
            )
        site = request.one("sec-fetch-site")
        if request.all("sec-fetch-site") and site not in _SAME_SITE:
            raise _access_denied_error("Pages of other sites may not use this server.")
        for origin in request.all("origin"):
            if not _is_same_origin(origin.decode("latin-1"), host):
                raise _access_denied_error("Pages of other origins may not use this server.")

    def _is_own_host(self, host: str) -> bool:
        # Nearly all requests name the same one, and to read an address takes long.
        if host and host == self._last_own:
            return True
        own = self._names_server(host)
        if own:
            self._last_own = host
        return own

    def _names_server(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].strip("[]").lower().rstrip(".")
        if is_loopback(name) or name == self._bound:
            return True
        # Open to a network: nobody can make an address or a private name lead to another machine.
        own = _parse_address(name) is not None or "." not in name or name.endswith(_PRIVATE)
        return self._open and own


def _access_denied_error(message: str) -> Refusal:
    return Refusal("AccessDeniedException", 403, message)


def _is_same_origin(origin: str, host: str) -> bool:
    """Whether an origin is the server's own, at the host that the request names."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower() != ""


def _parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as it came over the wire."""

    method: str
    path: bytes  # the path as it was sent, percent-encoded
    query: bytes = b""  # the query string as it was sent
    # Names, in lower case, and values, in the order in which they came
    headers: Sequence[tuple[bytes, bytes]] = field(default=(), repr=False)
    _values: dict[bytes, list[bytes]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name, value in self.headers:
            self._values.setdefault(name, []).append(value)

    def all(self, name: str) -> list[bytes]:
        """The values of all headers of a name."""
        return self._values.get(name.encode("ascii", "replace"), [])

    def one(self, name: str) -> str:
        """The value of a header; empty when it is not there, or there more than once."""
        values = self.all(name)
        return values[0].decode("latin-1").strip() if len(values) == 1 else ""


_CREDENTIALS = (
    "AccessDeniedException",
    "IncompleteSignatureException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
)


class Refusal(Exception):
    """Why a request is turned away (AWS: "Common Error Types").

    Attributes:
        name: AWS's name of the error, such as `InvalidSignatureException`.
        status: The HTTP status.
        message: What is wrong and what to do about it; it quotes no secret and no payload.
        closes: Whether what else comes over its connection is not believed, either.
    """

    def __init__(self, name: str, status: int, message: str, *, closes: bool = False) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.status = status
        self.message = message
        self.closes = closes

    def to_response(self, path: bytes) -> tuple[int, bytes]:
        """The HTTP status and the JSON body, in the words of the API that a path belongs to."""
        if not path.startswith(b"/v1/"):
            return self.status, json.dumps({"message": self.message}).encode()
        # (OpenAI: "Error codes"; its clients take a 401 alone for an error of authentication.)
        status = 401 if self.name in _CREDENTIALS else self.status
        error = {"message": self.message, "type": "invalid_request_error", "code": self.name}
        return status, json.dumps({"error": {**error, "param": None}}).encode()
