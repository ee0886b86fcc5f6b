"""Requests over HTTP/2 that HTTP/1.1 could not have: whoever passes one on may make two of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from h2.errors import ErrorCodes
from http2_client import Answer, Header, Http2Client, http2
from server_requests import API_KEY, Raw, send, write_keys
from waiting import until

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState

JSON = (b"content-type", b"application/json")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ServerState(Settings(port=0)) as state, serve_in_thread(state) as url:
        yield url


def with_header(name: bytes, value: bytes) -> Callable[[Http2Client], list[Header]]:
    return lambda client: client.head("GET", "/v1/models", (name, value))


def replacing(name: bytes, value: bytes | None) -> Callable[[Http2Client], list[Header]]:
    def head(client: Http2Client) -> list[Header]:
        lines = client.head("GET", "/v1/models")
        return [
            (key, it if key != name else value)
            for key, it in lines
            if key != name or value is not None
        ]  # type: ignore[misc]

    return head


def twice(name: bytes) -> Callable[[Http2Client], list[Header]]:
    def head(client: Http2Client) -> list[Header]:
        lines = client.head("GET", "/v1/models")
        return [line for line in lines for _ in range(2 if line[0] == name else 1)]

    return head


MALFORMED: dict[str, Callable[[Http2Client], list[Header]]] = {
    "transfer-encoding": with_header(b"transfer-encoding", b"chunked"),
    "connection": with_header(b"connection", b"close"),
    "upgrade": with_header(b"upgrade", b"h2c"),
    "te": with_header(b"te", b"gzip"),
    "keep-alive": with_header(b"keep-alive", b"1"),
    "two hosts": lambda client: client.head(
        "GET", "/v1/models", (b"host", client.authority), (b"host", client.authority)
    ),
    "another host": with_header(b"host", b"evil.example"),
    "no host": replacing(b":authority", None),
    "a name in upper case": with_header(b"X-Name", b"1"),
    "a name with a space": with_header(b"x name", b"1"),
    "a name with a line end": with_header(b"x\r\nhost", b"evil.example"),
    "a name with a colon": with_header(b"x:y", b"1"),
    "a name in brackets": with_header(b"(x)", b"1"),
    "no name": with_header(b"", b"1"),
    "a value with a line end": with_header(b"x", b"1\r\nhost: evil.example"),
    "a value with a line feed": with_header(b"x", b"1\nhost: evil.example"),
    "a value with a zero": with_header(b"x", b"1\0"),
    "a value with an escape": with_header(b"x", b"1\x1b[2J"),
    "a value with spaces around": with_header(b"x", b" 1"),
    "a pseudo header of an answer": with_header(b":status", b"200"),
    "another pseudo header": with_header(b":name", b"1"),
    "a pseudo header at the end": lambda client: [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":path", b"/"),
        (b"x", b"1"),
        (b":authority", client.authority),
    ],
    "two paths": twice(b":path"),
    "two methods": twice(b":method"),
    "two authorities": twice(b":authority"),
    "no method": replacing(b":method", None),
    "no path": replacing(b":path", None),
    "an empty path": replacing(b":path", b""),
    "a path with a line": replacing(b":path", b"/v1/models HTTP/1.1\r\nx: y"),
    "a path with a space": replacing(b":path", b"/v1/models /x"),
    "a path in UTF-8": replacing(b":path", "/ü".encode()),
    "an address for a path": replacing(b":path", b"http://evil.example/v1/models"),
    "a star": replacing(b":path", b"*"),
    "no slash": replacing(b":path", b"v1/models"),
    "a method with a space": replacing(b":method", b"GET /x"),
    "no letter of a method": replacing(b":method", b""),
    "another scheme": replacing(b":scheme", b"file"),
    "a tunnel": lambda client: [(b":method", b"CONNECT"), (b":authority", client.authority)],
    "a tunnel of a protocol": lambda client: [
        *replacing(b":method", b"CONNECT")(client),
        (b":protocol", b"websocket"),
    ],
    "two lengths": lambda client: client.head(
        "GET", "/v1/models", (b"content-length", b"0"), (b"content-length", b"0")
    ),
    "a length with a sign": with_header(b"content-length", b"+0"),
    "a length in words": with_header(b"content-length", b"zero"),
    "a length of another body": with_header(b"content-length", b"5"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_reach_nothing(
    url: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orchestrator.server.access")
    with http2(url) as client:
        answer = client.finish(client.begin(MALFORMED[name](client)))
        assert not answer.headers
        assert ErrorCodes.PROTOCOL_ERROR in (answer.reset, client.goodbye)
    with http2(url) as client:
        assert client.request("GET", "/ping").status == 200
    until(lambda: caplog.messages)
    assert [line.split()[1] for line in caplog.messages] == ["/ping"]


@pytest.mark.parametrize("sent", [b"{}", b"{}    "])
def test_a_body_is_as_long_as_its_length_says(url: str, sent: bytes) -> None:
    with http2(url) as client:
        head = client.head("POST", "/agents/", JSON, (b"content-length", b"4"))
        asked = client.begin(head, end=False)
        client.h2.send_data(asked, sent, end_stream=True)
        client.flush()
        assert not client.finish(asked).headers
        assert client.read_to_end() == ErrorCodes.PROTOCOL_ERROR


def test_what_comes_after_a_body_is_no_header_of_the_request(tmp_path: Path) -> None:
    settings = Settings(port=0, keys=write_keys(tmp_path))
    with ServerState(settings) as state, serve_in_thread(state) as url, http2(url) as client:
        asked = client.begin(client.head("POST", "/agents/", JSON), end=False)
        client.h2.send_data(asked, b"{}")
        client.h2.send_headers(
            asked, [(b"authorization", b"Bearer " + API_KEY.encode())], end_stream=True
        )
        client.flush()
        answer = client.finish(asked)
        assert answer.headers["x-amzn-errortype"] == "MissingAuthenticationTokenException"


@pytest.mark.parametrize(
    "authority",
    ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "a@localhost", "localhost:x"],
)
def test_other_names_are_refused(url: str, authority: str) -> None:
    """DNS rebinding: the page's own name leads to this machine."""
    with http2(url) as client:
        head = client.head("GET", "/agents/", authority=authority.encode())
        answer = client.finish(client.begin(head))
    assert (answer.status, answer.headers["x-amzn-errortype"]) == (403, "AccessDeniedException")


@pytest.mark.parametrize("line", [(b"origin", b"https://evil.example"),
                                  (b"sec-fetch-site", b"cross-site")])  # fmt: skip
def test_pages_of_elsewhere_are_refused(url: str, line: Header) -> None:
    with http2(url) as client:
        assert client.request("POST", "/agents/", b"{}", JSON, line).status == 403


def seen(answer: Answer | Raw) -> tuple[int, object]:
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in (":status", "date", "x-amzn-requestid", "connection")
    }
    return answer.status, (headers, answer.body)


@pytest.mark.parametrize("path", [
    "/v1/models", "/v1/models?a=b&a=%20", "/agents/..%2f..%2fx/", "/agents/%00/", "/agents/%zz/",
    "//evil.example/v1/models", "/agents/a;b/?c#d", "/%E4", "/..//../ping",
])  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "BREW"])
def test_both_protocols_answer_alike(url: str, method: str, path: str) -> None:
    body = b"{}" if method == "POST" else b""
    with http2(url) as client:
        got = client.request(method, path, body, JSON, (b"cookie", b"a=b"), (b"cookie", b"c=d"))
    assert seen(got) == seen(send(url, method, path, body, {"Cookie": "a=b; c=d"}))
