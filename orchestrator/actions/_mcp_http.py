"""The HTTP client of an MCP server's url: connections to checked addresses, and no proxies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx2

from orchestrator.actions.hosts import Hosts, RefusedAddress


def client_of(headers: Mapping[str, str], hosts: Hosts) -> httpx2.AsyncClient:
    """A client that sends `headers`, and connects to allowed hosts only."""
    return httpx2.AsyncClient(
        headers=dict(headers),
        timeout=httpx2.Timeout(30.0, read=300.0),
        transport=_CheckedTransport(hosts),
        trust_env=False,
    )


# Connects to an address that was checked, so that a name which means something else a moment later
# (DNS rebinding) leads nowhere; TLS and `Host` keep the name.
class _CheckedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, hosts: Hosts) -> None:
        super().__init__(trust_env=False)
        self._hosts = hosts

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            addresses = await asyncio.to_thread(self._hosts.resolve, host, port)
        except (RefusedAddress, OSError) as error:
            raise httpx2.ConnectError(type(error).__name__, request=request) from None
        for last, address in enumerate(addresses, 1 - len(addresses)):
            try:
                return await super().handle_async_request(_pin_address(request, address))
            except httpx2.ConnectError:
                if not last:
                    raise
        raise httpx2.ConnectError("no address", request=request)


def _pin_address(request: httpx2.Request, address: str) -> httpx2.Request:
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
