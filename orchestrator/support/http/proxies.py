"""The proxy that the environment, or the system, names for a URL."""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.errors import ValidationError
from orchestrator.support.http.failures import ProxyRefused
from orchestrator.support.http.messages import ResponseReader, encode_head
from orchestrator.support.http.urls import parse_url


class Proxy(NamedTuple):
    """A proxy over plain HTTP/1.1; `authorization` is that of a name and password in its URL."""

    host: str
    port: int
    authorization: str | None

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The header fields that are for the proxy alone."""
        return [("proxy-authorization", self.authorization)] if self.authorization else []


def find_proxy(scheme: str, host: str, port: int) -> Proxy | None:
    """The proxy for a server, by `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.

    Raises:
        ValidationError: It is of a kind that is not known here.
    """
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    url = proxies.get(scheme) or proxies.get("all")
    if not url or proxy_bypass(host) or proxy_bypass(f"{host}:{port}"):
        return None
    try:
        place = parse_url(url if "://" in url else f"http://{url}")
    except ValueError:
        place = None
    if place is None or place.scheme != "http":
        raise ValidationError(
            f"the proxy that the environment names for {scheme}:// is not spoken to over http://; "
            f"name one as http://host:port in {scheme.upper()}_PROXY, or the host in NO_PROXY"
        )
    return Proxy(place.host, place.port, place.authorization)


def encode_connect(proxy: Proxy, host: str, port: int) -> bytes:
    """The request that a proxy tunnels to a server."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return encode_head("CONNECT", authority, [("host", authority), *proxy.fields])


class TunnelReader:
    """Reads what a proxy answers to that request."""

    def __init__(self) -> None:
        self._reader = ResponseReader()

    @property
    def is_open(self) -> bool:
        """Whether there is a tunnel."""
        return self._reader.status != 0

    def feed(self, data: bytes) -> None:
        """Takes what came; nothing is the connection's end.

        Raises:
            ProxyRefused: There is no tunnel.
            BadResponse: That is no answer.
        """
        if not data:
            raise ProxyRefused("the proxy ended the connection")
        more = self._reader.feed(data)
        if self.is_open and (self._reader.status >= 300 or more):
            raise ProxyRefused(f"the proxy answered {self._reader.status}")
