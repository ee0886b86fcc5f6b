"""Attack 9: an MCP server's url leads into the private network, or changes where it leads."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from loopback import Site
from mcp_servers import http_server

from orchestrator import ActionGroup, DependencyFailed
from orchestrator.actions import MCPServer

pytest.importorskip("mcp")


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolvers read these without asking anybody; the tests' own guard need not look."""

    def resolve(host: str, port: int, *_: Any, **__: Any) -> Any:
        number = socket.inet_ntoa(socket.inet_aton(host))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "0x7f.1"])
def test_private_addresses_are_refused(host: str) -> None:
    with (
        Site().running() as site,
        MCPServer(url=f"http://{host}:{site.port}/mcp", timeout=60) as server,
        pytest.raises(DependencyFailed, match=r"not of the public internet.*allowPrivate"),
    ):
        ActionGroup("demo", executor=server)
    assert site.got == []


@pytest.mark.usefixtures("numbers")
def test_metadata_services_are_never_allowed() -> None:
    url, host = "http://169.254.169.254/mcp", "169.254.169.254"
    with (
        MCPServer(url=url, allow_private=[host]) as server,
        pytest.raises(DependencyFailed, match="not of the public internet"),
    ):
        ActionGroup("demo", executor=server)


def test_each_request_goes_to_an_address_that_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that means the metadata service a moment later is not followed there."""
    real, asked = socket.getaddrinfo, []

    def resolve(host: Any, port: Any, *rest: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name != "localhost":
            return real(host, port, *rest, **options)
        asked.append(name)
        address = "127.0.0.1" if len(asked) < 2 else "169.254.169.254"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with http_server(tmp_path, monkeypatch) as (url, came):
        url = url.replace("127.0.0.1", "localhost")
        with MCPServer(url=url, allow_private=["localhost"], timeout=60) as server:
            assert [one.name for one in ActionGroup("demo", executor=server).operations]
            assert {one["host"] for one in came} == {url.split("/")[2]}
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        before = len(came)
        with (
            MCPServer(url=url, allow_private=["localhost"], timeout=60) as server,
            pytest.raises(DependencyFailed),
        ):
            ActionGroup("demo", executor=server)
        assert len(came) == before and len(asked) >= 2
