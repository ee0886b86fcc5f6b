"""Without keys only this machine is served, and no page that a browser shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from server_requests import API_KEY, send, write_keys

from orchestrator import ValidationError
from orchestrator.server.access.guards import Guard, RawRequest, Refusal, check_binding, is_loopback
from orchestrator.server.app import application
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ServerState(Settings(port=0)) as world, serve_in_thread(world) as url:
        yield url


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]", "LOCALHOST."]
)
def test_loopback(host: str) -> None:
    assert is_loopback(host)
    check_binding(Settings(host=host))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "192.168.1.2", "example.com", "localhost.evil.com"]
)
def test_others_are_served_with_keys_or_when_it_is_said(host: str, tmp_path: Path) -> None:
    assert not is_loopback(host)
    with pytest.raises(ValidationError, match="--keys FILE, or --open"):
        check_binding(Settings(host=host))
    check_binding(Settings(host=host, open=True))
    check_binding(Settings(host=host, keys=write_keys(tmp_path)))


def test_the_application_itself_looks_at_it() -> None:
    with ServerState(Settings(host="0.0.0.0")) as world, pytest.raises(ValidationError):
        application(world)


@pytest.mark.parametrize("host", ["localhost:PORT", "127.0.0.1:PORT", "[::1]:PORT", "localhost"])
def test_names_of_this_machine(url: str, host: str) -> None:
    named = host.replace("PORT", str(urlsplit(url).port))
    assert send(url, headers={"Host": named}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:PORT",
        "127.0.0.1.evil.example",
        "10.0.0.1:PORT",
        "",
        "a@localhost",
        "localhost:x",
    ],
)
def test_other_names_are_refused(url: str, host: str) -> None:
    """DNS rebinding: the page's own name leads to this machine."""
    answer = send(url, headers={"Host": host.replace("PORT", str(urlsplit(url).port))})
    assert (answer.status, answer.error) == (403, "AccessDeniedException")
    assert "--keys" in answer.message


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://[bad"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": ""},
        {"Origin": "https://evil.example", "Content-Type": "text/plain"},
    ],
)
@pytest.mark.parametrize("path", ["/agents/", "/v1/chat/completions", "/invocations"])
def test_pages_of_elsewhere_are_refused(url: str, headers: dict[str, str], path: str) -> None:
    answer = send(url, path=path, headers=headers)
    assert answer.status in (401, 403)
    assert answer.error == "AccessDeniedException"
    assert not any(name.startswith("access-control-") for name in answer.headers)


def test_pages_of_the_server_itself_are_not(url: str) -> None:
    host = urlsplit(url).netloc
    headers = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert send(url, headers=headers).status == 200
    assert send(url, headers={"Sec-Fetch-Site": "none"}).status == 200


def test_a_browser_that_asks_beforehand_is_told_nothing(url: str) -> None:
    asks = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = send(url, "OPTIONS", headers=asks)
    assert answer.status == 403
    assert not any(name.startswith("access-control-") for name in answer.headers)


def test_pages_with_a_key_are_refused_as_well(tmp_path: Path) -> None:
    settings = Settings(port=0, keys=write_keys(tmp_path))
    good = {"Authorization": f"Bearer {API_KEY}", "Host": "bedrock.example.com"}
    with ServerState(settings) as world, serve_in_thread(world) as url:
        assert send(url, headers=good).status == 200  # behind a proxy it has other names
        assert send(url, headers={**good, "Origin": "https://evil.example"}).status == 403
        own = {**good, "Origin": "https://bedrock.example.com"}
        assert send(url, headers=own).status == 200


def named(host: str, bound: str = "0.0.0.0") -> RawRequest:
    Guard(Settings(host=bound, open=True)).check(
        request := RawRequest("GET", b"/", b"", [(b"host", host.encode())])
    )
    return request


@pytest.mark.parametrize("host", ["10.1.2.3:80", "[fe80::1]:80", "orchestrator:8080", "a.internal"])
def test_an_open_server_answers_to_private_names(host: str) -> None:
    assert named(host)


def test_an_open_server_answers_to_the_name_it_was_given() -> None:
    assert named("agents.example.com:8080", bound="agents.example.com")


@pytest.mark.parametrize("host", ["evil.example:8080", "internal.evil.example", ""])
def test_an_open_server_answers_to_no_name_of_the_public(host: str) -> None:
    with pytest.raises(Refusal, match="none of this server's names"):
        named(host)
