"""What a URL says, as a request needs it."""

from __future__ import annotations

import base64
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

# In a path and a query as they are given; what is percent-encoded already stays as it is.
_PATH = "/%:@!$&'()*+,;=~"
_PORTS = {"http": 80, "https": 443}


class Place(NamedTuple):
    """Where a URL leads."""

    scheme: str
    host: str
    port: int
    authority: str  # for the field `Host`
    target: str
    authorization: str | None  # of a user's name and password in the URL


def parse_url(url: str) -> Place:
    """The parts of an http or https URL.

    Raises:
        ValueError: It is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("no http:// or https:// address")
    host = parts.hostname
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    port = parts.port or _PORTS[parts.scheme]
    authority = f"[{host}]" if ":" in host else host
    if port != _PORTS[parts.scheme]:
        authority = f"{authority}:{port}"
    target = quote(parts.path or "/", _PATH)
    if parts.query:
        target = f"{target}?{quote(parts.query, _PATH + '?')}"
    return Place(parts.scheme, host, port, authority, target, _authorize(parts))


def _authorize(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    text = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(text.encode()).decode()}"
