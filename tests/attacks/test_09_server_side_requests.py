"""Attack 9: an API's address, a redirect or the resolver leads into the private network."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Sent, Site
from whole_agents import NATIVE, agent, answer

from orchestrator import ActionGroup, DependencyFailed
from orchestrator.actions import HttpExecutor, _exchange
from orchestrator.actions.hosts import RefusedAddress, addresses_of, is_public

API: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "t", "version": "1"},
    "paths": {
        "/meta/{id}": {
            "get": {
                "operationId": "read",
                "description": "Reads.",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "responses": {},
            }
        }
    },
}


class Resolver:
    """Names and what they mean, each time they are asked for."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        found = self.answers[host]
        addresses = found.pop(0) if len(found) > 1 else found[0]
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "",
             (one, port))
            for one in addresses
        ]  # fmt: skip


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every address that is connected to; connections to others than loopback end on it."""
    made: list[Any] = []

    def connect(address: Any, timeout: float) -> Any:
        made.append(address)
        there = socket.socket()
        there.connect(("127.0.0.1", address[1]))
        return there

    monkeypatch.setattr(_exchange.socket, "create_connection", connect)
    yield made


def asked(base_url: str, **options: Any) -> Any:
    """The reply, or the error, of an agent whose model reads `/meta/<id>` of an API."""
    group = ActionGroup("api", api_schema=API, executor=HttpExecutor(base_url, **options))
    model = NATIVE.model([NATIVE.calls(("GET::api::read", {"id": "1"})), answer("Read.")])
    try:
        return agent(model, [group]).invoke("Read it.")
    except DependencyFailed as error:
        return error


PRIVATE = [
    "127.0.0.1",
    "[::1]",
    "10.1.2.3",
    "192.168.0.1",
    "172.16.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:7f00:1::]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[::127.0.0.1]",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "224.0.0.1",
    "255.255.255.255",
]


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_in_every_spelling(
    host: str, connected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # These are numbers, which resolvers read without asking anybody; the guard need not look.
    monkeypatch.setattr(socket, "getaddrinfo", _numbers_only)
    error = asked(f"http://{host}:8080")
    assert isinstance(error, DependencyFailed) and "allowPrivate" in str(error)
    assert connected == []


def _numbers_only(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
    if ":" in host:
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (host, port, 0, 0))]
    number = socket.inet_ntoa(socket.inet_aton(host))  # reads decimal, octal and hexadecimal
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, port))]


def test_the_connection_goes_to_the_address_that_was_checked(
    connected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second answer is what a rebinding attacker would have the connection use.
    resolver = Resolver(api=[["93.184.215.14"], ["169.254.169.254"]])
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    with Site(Sent(b"public")).running() as site:
        assert asked(f"http://api:{site.port}").text == "Read."
        assert connected == [("93.184.215.14", site.port)]
        assert site.got[0].headers["host"] == f"api:{site.port}"
    assert resolver.asked == ["api"]


def test_one_bad_address_among_good_ones_is_enough(
    connected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(api=[["93.184.215.14", "10.0.0.7"]]))
    assert isinstance(asked("http://api"), DependencyFailed)
    assert connected == []


def test_a_name_is_looked_at_again_by_the_next_call(
    connected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Resolver(api=[["93.184.215.14"], ["127.0.0.1"]])
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    with Site(Sent(b"public")).running() as site:
        assert asked(f"http://api:{site.port}").text == "Read."
        assert isinstance(asked(f"http://api:{site.port}"), DependencyFailed)
        assert len(site.got) == 1


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://localhost:1/x",
        "//127.0.0.1/x",
        "file:///etc/passwd",
        "http://user@api/x",
        "https://other.example/",
        "http://[::1/",
        "gopher://api:70/",
        "",
    ],
)
def test_a_redirect_does_not_lead_elsewhere(
    location: str, connected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(api=[["93.184.215.14"]]))
    with Site(Sent(status=302, headers={"Location": location})).running() as site:
        error = asked(f"http://api:{site.port}")
        assert isinstance(error, DependencyFailed) and "redirected" in str(error)
        # An empty one leads to itself, over and over.
        assert len(site.got) == (1 if location else 4)
        assert {address for address, _ in connected} == {"93.184.215.14"}


def test_a_redirect_is_resolved_and_checked_again(
    connected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Resolver(api=[["93.184.215.14"], ["127.0.0.1"]])
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    with Site(Sent(status=302, headers={"Location": "/x"})).running() as site:
        assert isinstance(asked(f"http://api:{site.port}"), DependencyFailed)
        assert len(site.got) == 1
    assert resolver.asked == ["api", "api"]


def test_private_hosts_are_allowed_by_name_only(connected: list[Any]) -> None:
    with Site(Sent(b"ok")).running() as site:
        url = f"http://localhost:{site.port}"
        assert asked(url, allow_private=["LOCALHOST"]).text == "Read."
        assert isinstance(asked(url, allow_private=["127.0.0.1"]), DependencyFailed)
        assert len(site.got) == 1


@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254", "100.100.100.200",
                                     "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
                                     "2002:a9fe:a9fe::", "0.0.0.0", "ff02::1"])  # fmt: skip
def test_metadata_services_are_never_allowed(
    address: str, connected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(api=[[address]]))
    with pytest.raises(RefusedAddress):
        addresses_of("api", 80, private=True)
    assert isinstance(asked("http://api", allow_private=["api"]), DependencyFailed)
    assert connected == []


@pytest.mark.parametrize("proxy", ["http_proxy", "HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_of_the_environment_does_not_choose_the_address(
    proxy: str, connected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(proxy, "http://169.254.169.254:80")
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(api=[["93.184.215.14"]]))
    with Site(Sent(b"ok")).running() as site:
        assert asked(f"http://api:{site.port}").text == "Read."
    assert connected == [("93.184.215.14", site.port)]


def test_the_model_does_not_choose_where_a_request_goes(
    connected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(api=[["93.184.215.14"]]))
    payloads = [
        "@evil.example/",
        "//evil.example",
        "\\\\evil",
        "x?y#z",
        "http://evil.example",
        "%2f",
    ]
    with Site(Sent(b"ok")).running() as site:
        executor = HttpExecutor(f"http://api:{site.port}")
        group = ActionGroup("api", api_schema=API, executor=executor)
        calls = [NATIVE.calls(("GET::api::read", {"id": one})) for one in payloads]
        agent(NATIVE.model([*calls, answer("Read.")]), [group]).invoke("Read them.")
        assert [got.path.count("/") for got in site.got] == [2] * len(payloads)
        assert {got.headers["host"] for got in site.got} == {f"api:{site.port}"}
    assert {address for address, _ in connected} == {"93.184.215.14"}


@given(st.ip_addresses(v=4))
def test_what_ipv6_holds_is_no_more_public_than_itself(inside: Any) -> None:
    low = int(inside)
    public = is_public(inside)
    mapped, nat64 = (0xFFFF << 32) | low, (0x64FF9B << 96) | low
    assert is_public(ip_address(mapped.to_bytes(16, "big"))) == public
    assert is_public(ip_address(nat64.to_bytes(16, "big"))) == public
    tunnels = [(0x2002 << 112) | (low << 80), (0x20010000 << 96) | (low ^ 0xFFFFFFFF), low]
    isatap = (0x2A00 << 112) | (0x5EFE << 32) | low
    assert not any(is_public(ip_address(one.to_bytes(16, "big"))) for one in tunnels)
    assert is_public(ip_address(isatap.to_bytes(16, "big"))) == public


@pytest.mark.parametrize("text", ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07::1"])
def test_public_addresses_are_public(text: str) -> None:
    assert is_public(ip_address(text))
