"""API operations called over HTTP: requests, answers, credentials, retries and redirects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from action_support import SECRET, context, run
from http_support import document, group, json_body, parameter
from loopback import Sent, Site, certificate

from orchestrator.actions import ActionGroup, HttpExecutor, _exchange, http_executor
from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DefinitionError,
    DependencyFailed,
    ThrottlingError,
)

NONE = {"Content-Length": "0"}


@pytest.fixture
def site() -> Iterator[Site]:
    with Site().running() as site:
        yield site


def test_a_request_and_its_answer(site: Site) -> None:
    schema = document(
        "/claims/{id}",
        "post",
        parameters=[
            parameter("id", "path"),
            parameter("lang", "query"),
            parameter("X-Trace", "header"),
        ],
        requestBody=json_body(text={"type": "string"}, pieces={"type": "integer"}),
    )
    site.answers = [Sent(b'{"done": true}', 201)]
    asked = {
        "id": "c 7/\u00e4",
        "lang": "de&en=1",
        "X-Trace": "t-1",
        "text": "\u00fc",
        "pieces": "2",
    }
    result = run(group(site.url() + "/v1/", schema), "it", **asked)
    assert (result.text, result.http_status, result.state) == ('{"done": true}', 201, "")
    (got,) = site.got
    assert (got.verb, got.path) == ("POST", "/v1/claims/c%207%2F%C3%A4?lang=de%26en%3D1")
    assert json.loads(got.body) == {"text": "\u00fc", "pieces": 2}
    assert got.headers["host"] == f"localhost:{site.port}"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["x-trace"] == "t-1"
    assert got.headers["idempotency-key"] == "key-1"


def test_a_form_body(site: Site) -> None:
    form = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array"}}}
    body = {"content": {"application/x-www-form-urlencoded": {"schema": form}}}
    run(group(site.url(), document(verb="post", requestBody=body)), "it", a="x&y=1", b=["1", "2"])
    (got,) = site.got
    assert got.body == b"a=x%26y%3D1&b=1&b=2"
    assert got.headers["content-type"] == "application/x-www-form-urlencoded"


def test_a_reading_operation_has_no_body_and_no_key(site: Site) -> None:
    run(group(site.url()), "it")
    (got,) = site.got
    assert (got.verb, got.path, got.body) == ("GET", "/claims", b"")
    assert not {"idempotency-key", "content-type"} & got.headers.keys()


@pytest.mark.parametrize(
    ("servers", "where"),
    [
        ({"document": ["{}/d"]}, "/d/claims"),
        ({"document": ["{}/d"], "path": ["{}/p"]}, "/p/claims"),
        ({"document": ["{}/d"], "path": ["{}/p"], "operation": ["{}/o", "{}/x"]}, "/o/claims"),
    ],
)
def test_the_base_url_is_the_schemas_nearest_server(
    site: Site, servers: dict[str, list[str]], where: str
) -> None:
    schema = document()
    found = {
        key: [{"url": one.format(site.url())} for one in urls] for key, urls in servers.items()
    }
    schema["servers"] = found.get("document", [])
    schema["paths"]["/claims"]["servers"] = found.get("path", [])
    schema["paths"]["/claims"]["get"]["servers"] = found.get("operation", [])
    run(group("", schema), "it")
    assert site.got[0].path == where


def test_a_servers_variables_have_their_defaults(site: Site) -> None:
    schema = document()
    variables = {"version": {"default": "v2"}, "port": {"default": str(site.port)}}
    schema["servers"] = [{"url": "http://localhost:{port}/{version}", "variables": variables}]
    run(group("", schema), "it")
    assert site.got[0].path == "/v2/claims"


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ([], "nothing says where the API is"),
        ([{"url": "/v1"}], "'/v1' is not the address of an API"),
        ([{"url": "ftp://a.example"}], "must begin with https:// or http://"),
        ([{"url": "https://user:pass@a.example"}], "credentials do not belong into an address"),
        ([{"url": "https://a.example/?key=1"}], "may have no query"),
        ([{"url": "https://a.example:port"}], "is not the address of an API"),
        ([{"url": "https://{region}.example"}], "'{region}|{region} has no default"),
        ([{"url": "https://a.ex\u00e4mple"}], "ASCII"),
        ([{"url": "https://a.example/a b"}], "is not the address|ASCII"),
        ([{"url": "https:///path"}], "is not the address of an API"),
        ("https://a.example", "must be a list"),
    ],
)
def test_a_server_that_cannot_be_called(servers: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        group("", {**document(), "servers": servers})


def test_what_cannot_be_sent_over_http() -> None:
    with pytest.raises(DefinitionError, match="'api::f' is a function; an API over HTTP needs an"):
        ActionGroup("api", functions=[{"name": "f"}], executor=HttpExecutor("https://a.example"))
    form = {"content": {"multipart/form-data": {"schema": {"type": "object"}}}}
    with pytest.raises(DefinitionError, match="multipart/form-data"):
        group("https://a.example", document(verb="post", requestBody=form))
    for name in ("Host", "cookie", "Transfer-Encoding", "Connection"):
        with pytest.raises(DefinitionError, match="not a model's to set"):
            group("https://a.example", document(parameters=[parameter(name, "header")]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"headers": {"Host": "x"}}, "'Host' is set by the connection"),
        ({"headers": {"a b": "x"}}, "'a b' is not possible"),
        ({"headers": {"A": "x\r\nB: y"}}, "has a character that cannot be sent"),
        ({"headers": {"A": 1}}, "must be a text, not int"),
        ({"headers": {"A": "${file:/etc/passwd}"}}, r"\$\{file:/etc/passwd\}'; known: \$\{env:"),
        ({"timeout": 0}, "above 0"),
    ],
)
def test_an_executor_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        HttpExecutor("https://a.example", **options)


def test_headers_are_filled_when_a_call_is_made(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = document(parameters=[parameter("X-Api-Key", "header", required=True)])
    headers = {
        "x-api-key": "${env:API_KEY}",
        "Authorization": "Bearer ${session:token}",
        "Accept": "application/vnd.example+json",
    }
    made = group(site.url(), schema, headers=headers)
    # What the definition sets, the model is not asked for.
    assert made.operations[0].parameters == ()
    assert made.operations[0].schema["properties"] == {}
    monkeypatch.setenv("API_KEY", SECRET)
    site.answers = [Sent(f"you sent {SECRET}".encode())]
    result = run(made, "it", context(session_attributes={"token": "t-1234"}))
    assert site.got[0].headers["x-api-key"] == SECRET
    assert site.got[0].headers["authorization"] == "Bearer t-1234"
    assert site.got[0].headers["accept"] == "application/vnd.example+json"
    # An API that sends its headers back tells the model nothing.
    assert result.text == "you sent [a credential]"


@pytest.mark.parametrize("value", [None, "", "a\nb", "\u00e4"])
def test_a_credential_that_is_missing_or_cannot_be_sent(
    site: Site, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv("API_KEY", raising=False)
    else:
        monkeypatch.setenv("API_KEY", value)
    with pytest.raises(AccessDenied, match=r"'A'.* variable 'API_KEY'|'API_KEY'.* 'A'"):
        run(group(site.url(), headers={"A": "k ${env:API_KEY}"}), "it")
    assert site.got == []


def test_credentials_do_not_leave_over_plain_http() -> None:
    with pytest.raises(DefinitionError, match="credentials that everyone on the way can read"):
        HttpExecutor("http://a.example", headers={"Authorization": "${env:TOKEN}"})


@pytest.mark.parametrize(
    ("sent", "text", "notes"),
    [
        (Sent(b"", 204, NONE), "HTTP 204 No Content", ()),
        (Sent("\u00e4".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"}),
         "\u00e4", ()),
        (
            Sent(b"\xe4", headers={"Content-Type": 'text/plain; a=";;;; charset=latin-1'}),
            "\u00e4",
            (),
        ),
        (Sent(b"\xff", headers={"Content-Type": "text/plain; charset=none"}), "\ufffd", ()),
        (Sent(b"\xff", headers={"Content-Type": "text/plain; charset=rot13"}), "\ufffd", ()),
        (Sent(b"a", headers={"Content-Type": "text/plain; charset=idna"}), "a", ()),
        (Sent(b"{}", headers={}), "{}", ()),
        (Sent(b"<a/>", headers={"Content-Type": "application/atom+xml"}), "<a/>", ()),
        (Sent(b"\x89PNG", headers={"Content-Type": "image/png"}),
         "The response is image/png, 4 bytes, and is not shown.", ()),
        (Sent(b"a\0b", headers={"Content-Type": "text/plain"}),
         "The response is text/plain, 3 bytes, and is not shown.", ()),
        (Sent(b"zip", headers={"Content-Encoding": "gzip"}),
         "The response is compressed, although that was not asked for, and is not shown.", ()),
        (Sent(b'{"no": 1}', 404), 'HTTP 404 Not Found\n{"no": 1}', ("the HTTP status is 404",)),
        (Sent(b"", 403, NONE), "HTTP 403 Forbidden", ("the HTTP status is 403",)),
        (Sent(b"which?", 422), f"HTTP 422 {HTTPStatus(422).phrase}\nwhich?",
         ("the HTTP status is 422",)),
    ],
)  # fmt: skip
def test_what_the_model_reads(site: Site, sent: Sent, text: str, notes: tuple[str, ...]) -> None:
    site.answers = [sent]
    result = run(group(site.url()), "it")
    assert (result.text, result.http_status, result.notes) == (text, sent.status, notes)


def test_a_large_answer_is_not_shown_and_not_read(site: Site) -> None:
    site.answers = [Sent(b"x" * 20_000)]
    result = run(group(site.url()), "it", context(max_bytes=1000))
    assert result.text.startswith("The response has more than 1000 bytes and is not shown.")
    site.answers = [Sent(b"x" * 1000)]
    assert len(run(group(site.url()), "it", context(max_bytes=1000)).text) == 1000


@pytest.mark.parametrize(
    ("status", "error", "verb", "times"),
    [
        (401, AccessDenied, "get", 1),
        (407, AccessDenied, "post", 1),
        (429, ThrottlingError, "get", 3),
        (429, ThrottlingError, "post", 1),
        (500, DependencyFailed, "get", 1),
        (503, DependencyFailed, "get", 3),
        (503, DependencyFailed, "post", 1),
        (304, DependencyFailed, "get", 1),
        (302, ActionOutcomeUnknown, "post", 1),
    ],
)
def test_what_ends_the_turn(
    site: Site, status: int, error: type[Exception], verb: str, times: int
) -> None:
    site.answers = [Sent(SECRET.encode(), status, {"Retry-After": "0", "Location": "/x"})]
    with pytest.raises(error, match=f"HTTP {status}") as caught:
        run(group(site.url(), document(verb=verb)), "it")
    assert type(caught.value) is error and SECRET not in str(caught.value)
    assert len(site.got) == times


def test_a_reading_operation_is_tried_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(http_executor, "_sleep", paused.append)
    site.answers = [Sent(status=503), Sent(status=429, headers={"Retry-After": "7"}), Sent(b"ok")]
    assert run(group(site.url()), "it").text == "ok"
    assert paused == [0.5, 7.0]


def test_a_pause_that_is_too_long_is_not_made(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_executor, "_sleep", pytest.fail)
    site.answers = [Sent(status=429, headers={"Retry-After": "60"})]
    with pytest.raises(ThrottlingError):
        run(group(site.url()), "it")


def test_a_broken_answer(site: Site) -> None:
    site.answers = [Sent(cut=True), Sent(b"half", length=100), Sent(b"ok")]
    assert run(group(site.url()), "it").text == "ok"
    site.answers, site.got[:] = [Sent(cut=True)], []
    with pytest.raises(ActionOutcomeUnknown, match="effect, and was not sent again"):
        run(group(site.url(), document(verb="post")), "it")
    assert len(site.got) == 1


def test_nobody_listens() -> None:
    with Site().running() as site:
        url = site.url()
    with pytest.raises(DependencyFailed, match="answer from 'localhost': ConnectionRef") as it:
        run(group(url, document(verb="post")), "it")
    assert not isinstance(it.value, ActionOutcomeUnknown)  # nothing was sent


def test_a_redirect_of_a_reading_operation(site: Site) -> None:
    site.answers = [Sent(status=301, headers={"Location": "/v2/claims?x=1#part"}), Sent(b"moved")]
    assert run(group(site.url()), "it").text == "moved"
    assert [got.path for got in site.got] == ["/claims", "/v2/claims?x=1"]
    site.answers, site.got[:] = [Sent(status=307, headers={"Location": "/again"})], []
    with pytest.raises(DependencyFailed, match=r"was redirected .* again and again"):
        run(group(site.url()), "it")
    assert len(site.got) == 4


@pytest.mark.parametrize("value", [".", "..", ""])
def test_an_argument_that_would_change_the_path(site: Site, value: str) -> None:
    schema = document("/claims/{id}", "delete", parameters=[parameter("id", "path")])
    result = run(group(site.url(), schema), "it", id=value)
    assert (result.state, site.got) == ("REPROMPT", [])
    assert "id may not be empty, '.' or '..'" in result.text


def test_a_header_argument_cannot_be_two(site: Site) -> None:
    schema = document(parameters=[parameter("X-A", "header")])
    result = run(group(site.url(), schema), "it", **{"X-A": "a\r\nX-B: b"})
    assert (result.state, site.got) == ("REPROMPT", [])


def test_tls_is_for_the_hosts_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls, authority = certificate(tmp_path, "localhost")
    names: list[str | None] = []
    tls.sni_callback = lambda _, name, __: names.append(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    _exchange._tls.cache_clear()
    with Site(Sent(b"secret"), tls=tls).running() as site:
        assert run(group(site.url(scheme="https")), "it").text == "secret"
        assert site.got[0].headers["host"] == f"localhost:{site.port}"
        assert names == ["localhost"]
        monkeypatch.delenv("SSL_CERT_FILE")
        _exchange._tls.cache_clear()
        with pytest.raises(DependencyFailed, match="its certificate is not valid: self"):
            run(group(site.url(scheme="https")), "it")
    _exchange._tls.cache_clear()


def test_the_groups_operations_are_the_schemas_otherwise() -> None:
    made = group("https://a.example", document(parameters=[parameter("a", "query")]))
    assert [one.name for one in made.operations[0].parameters] == ["a"]
