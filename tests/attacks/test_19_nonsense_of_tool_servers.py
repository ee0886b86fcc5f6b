"""Attack 19: MCP servers over HTTP that fail, answer with nonsense, or forget who is asking.

What they answer decides whether a tool may have taken effect; that a call is told as refused, which
was carried out, would have it made twice.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any, NamedTuple

import pytest
from action_support import SECRET, context, run
from loopback import serve_handler
from waiting import HANGS

from orchestrator.actions import ActionGroup, Catalog, MCPServer
from orchestrator.actions._mcp_tools import NotAsked
from orchestrator.actions.hosts import Hosts
from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DependencyFailed,
    ThrottlingError,
)

pytest.importorskip("mcp")

from orchestrator.actions._mcp_link import Link

TOOL = {
    "name": "pay",
    "description": "Pays.",
    "inputSchema": {"type": "object", "properties": {"sum": {"type": "integer"}}},
}
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "it", "version": "1"},
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "paid"}]},
}
NO_METHOD = {"code": -32601, "message": "no such method"}


class Reply(NamedTuple):
    """An answer of HTTP."""

    body: bytes = b""
    status: int = 200
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    cut: int = 0  # bytes that are announced and do not come


def build_result(result: Any, cut: int = 0) -> Callable[[Any], Reply]:
    """An answer that is a result."""

    def build(asked: Any) -> Reply:
        body = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        return Reply(json.dumps(body).encode(), cut=cut)

    return build


def build_error(code: int, message: str, status: int = 200) -> Callable[[Any], Reply]:
    """An answer that is an error of the protocol."""

    def build(asked: Any) -> Reply:
        error = {"code": code, "message": message}
        body = {"jsonrpc": "2.0", "id": asked["id"], "error": error}
        return Reply(json.dumps(body).encode(), status)

    return build


@dataclass
class Bank:
    """A server of one tool, which answers rightly unless `replies` has something else."""

    replies: dict[str, Any] = field(default_factory=dict)  # by method: answers, or what makes one
    sessions: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def open(self, **options: Any) -> MCPServer:
        options = {"timeout": HANGS, "allow_private": ["127.0.0.1"], **options}
        return MCPServer(url=f"{self.url}/mcp", **options)

    def answer(self, asked: Any, session: str | None) -> Reply:
        method = asked["method"]
        self.asked.append(method)
        if session is not None and session not in self.sessions:
            return Reply(status=404, media_type="text/plain")
        if (other := self.replies.get(method)) is not None:
            return other(asked) if callable(other) else other
        member = {"result": RESULTS[method]} if method in RESULTS else {"error": NO_METHOD}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **member}).encode()
        if method == "initialize" and self.sessions:
            return Reply(body, headers=(("Mcp-Session-Id", self.sessions[-1]),))
        return Reply(body)


@contextmanager
def serve(**replies: Any) -> Iterator[Bank]:
    bank = Bank({name.replace("_", "/"): it for name, it in replies.items()})

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            session = self.headers.get("Mcp-Session-Id")
            self.send_reply(bank.answer(asked, session) if "id" in asked else Reply(status=202))

        def send_reply(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in (("Content-Type", reply.media_type), *reply.headers):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + reply.cut))
            self.end_headers()
            self.wfile.write(reply.body)

        def do_GET(self) -> None:
            if "Last-Event-ID" not in self.headers or "GET" not in bank.replies:
                self.send_error(405)
                return
            self.send_reply(bank.replies["GET"])

        def do_DELETE(self) -> None:
            self.send_error(405)

    with serve_handler(Handler) as url:
        bank.url = url
        yield bank


HTML = Reply(b"<h1>Welcome</h1>", media_type="text/html")
REDIRECT = Reply(status=307, headers=(("Location", "http://169.254.169.254/latest"),))


NO_CONTENT = {"content": [{"type": "text"}]}
NO_SCHEMA = {"tools": [{"name": "pay"}]}


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(b'{"jsonrpc": "2.0", ', cut=9), "the connection broke"),
        (build_result(NO_CONTENT), "its answer is not as MCP has it: content.0."),
        (Reply(b'{"jsonrpc": "2.0", '), "its answer is not a message of MCP"),
        (Reply(b'{"paid": true}'), "its answer is not a message of MCP"),
        (Reply(b'{"a":' * 9_000), "its answer is not a message of MCP"),
        (Reply(b"data: {paid\n\n", media_type="text/event-stream"), "is not a message of MCP"),
        (Reply(b": still\n\n", media_type="text/event-stream"), "the connection broke"),
        (HTML, "its answer has the type 'text/html'"),
        (Reply(status=202), "HTTP 202 Accepted, which has no result"),
        (Reply(b"<h1>502</h1>", 502, "text/html"), "HTTP 502 Bad Gateway"),
        (Reply(b'{"error": "it broke"}', 500), "HTTP 500 Internal Server Error"),
        (Reply(status=302, headers=(("Location", "/paid"),)), "HTTP 302 Found"),
    ],
)
def test_a_call_whose_answer_is_none_may_have_taken_effect(reply: Any, why: str) -> None:
    with serve(tools_call=reply) as bank, bank.open() as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        with pytest.raises(ActionOutcomeUnknown) as caught:
            run(tools, "pay", sum=1)
    assert why in str(caught.value)
    assert bank.asked.count("tools/call") == 1


@pytest.mark.parametrize(
    ("reply", "error", "why"),
    [
        (Reply(status=401), AccessDenied, "HTTP 401 Unauthorized); check the headers"),
        (Reply(status=403), DependencyFailed, "(HTTP 403 Forbidden)"),
        (Reply(status=429), ThrottlingError, "(HTTP 429 Too Many Requests)"),
        (REDIRECT, DependencyFailed, "(HTTP 307 Temporary Redirect)"),
        (build_error(-32601, "no such tool"), DependencyFailed, "(error -32601)"),
        (build_error(-32000, "no such tool", 404), DependencyFailed, "(error -32000)"),
        (
            build_error(-32001, "Missing Bearer token", 401),
            AccessDenied,
            "(HTTP 401 Unauthorized, error -32001); check the headers",
        ),
        (build_error(-32602, "no token", 401), AccessDenied, "(HTTP 401 Unauthorized, error"),
        (build_error(-32602, "no right", 403), DependencyFailed, "(HTTP 403 Forbidden, error"),
        (build_error(-32000, "slowly", 429), ThrottlingError, "(HTTP 429 Too Many Requests, err"),
    ],
)
def test_a_call_that_is_not_accepted_took_no_effect(reply: Any, error: type, why: str) -> None:
    with serve(tools_call=reply) as bank, bank.open() as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        with pytest.raises(DependencyFailed, match="refused to call 'pay'") as caught:
            run(tools, "pay", sum=1)
    assert type(caught.value) is error
    assert why in str(caught.value)
    assert "169.254" not in str(caught.value)


@pytest.mark.parametrize("resumed", ["result", "advice", "error", "break"])
def test_an_answer_that_breaks_off_and_is_resumed(resumed: str) -> None:
    replies: dict[str, Callable[[Any], Reply]] = {
        "result": build_result(RESULTS["tools/call"]),
        "advice": build_error(-32602, "the sum must be above 0"),
        "error": build_error(-32000, "the account is closed"),
    }

    def break_off(asked: Any) -> Reply:
        if resumed in replies:
            text = b"data: " + replies[resumed](asked).body + b"\n\n"
            bank.replies["GET"] = Reply(text, media_type="text/event-stream")
        return Reply(b"id: 1\nretry: 1\ndata:\n\n", media_type="text/event-stream", cut=9)

    with serve(tools_call=break_off) as bank, bank.open() as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        if resumed in ("result", "advice"):
            text = "paid" if resumed == "result" else "the sum must be above 0"
            assert run(tools, "pay", sum=0).text == text
        else:
            why = "error -32000" if resumed == "error" else "the connection broke"
            with pytest.raises(ActionOutcomeUnknown, match=why):
                run(tools, "pay", sum=0)
        bank.replies.clear()
        assert run(tools, "pay", sum=1).text == "paid"
    assert bank.asked.count("initialize") == (2 if resumed == "break" else 1)


# Servers use the codes that the SDK has for a broken connection, and for one that is late.
@pytest.mark.parametrize("code", [-32000, -32001, -32603])
@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_servers_own_error_is_told_as_one(
    code: int, debug: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_DEBUG", debug)
    caplog.set_level(logging.INFO, "orchestrator.mcp")
    error = build_error(code, f"the account is closed\nBearer {SECRET}")
    headers = {"Authorization": f"Bearer {SECRET}"}
    with serve(tools_call=error) as bank, bank.open(headers=headers) as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        with pytest.raises(ActionOutcomeUnknown, match=f"failed at 'pay' .error {code}") as caught:
            run(tools, "pay", sum=1)
        bank.replies.clear()
        assert run(tools, "pay", sum=1).text == "paid"
    assert bank.asked.count("initialize") == 1  # the connection is as good as before
    # Whose server it is reads what it says; nobody else does.
    assert "account" not in str(caught.value)
    (record,) = [it for it in caplog.records if "account" in it.getMessage()]
    assert f"answered with error {code}: the account is closed" in record.getMessage()
    assert SECRET not in caplog.text
    assert record.levelno == (logging.WARNING if debug == "1" else logging.INFO)


def test_a_cut_leaves_no_part_of_a_credential(caplog: pytest.LogCaptureFixture) -> None:
    """Messages are cut, and so are lines of a difference; here before the last character."""
    caplog.set_level(logging.INFO, "orchestrator.mcp")
    message = ("x" * 2000 + SECRET)[len(SECRET) - 1 :]
    line = ('+ "description": "' + "x" * 200)[: 200 - len(SECRET)] + SECRET
    changed = {**TOOL, "description": line.partition(': "')[2]}
    with serve() as bank, bank.open(headers={"Authorization": f"Bearer {SECRET}"}) as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        bank.replies["tools/call"] = build_error(-32602, message)
        said = [run(tools, "pay", sum=1).text]
        bank.replies["tools/call"] = build_error(-32000, message)
        with pytest.raises(ActionOutcomeUnknown):
            run(tools, "pay", sum=1)
        said.append(caplog.text)
        bank.replies["tools/list"] = build_result({"tools": [changed]})
        with pytest.raises(DependencyFailed, match="is not what it was") as caught:
            run(tools, "pay", sum=1)
        said.append(str(caught.value))
    for text in said:
        assert "xxx[a" in text
        assert SECRET[:-1] not in text


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(status=401), "HTTP 401 Unauthorized; check the headers of the definition"),
        (Reply(status=500), "HTTP 500 Internal Server Error"),
        (REDIRECT, "HTTP 307 Temporary Redirect"),
        (HTML, "its answer has the type 'text/html'"),
        (build_error(-32000, "the licence has ended"), "error -32000"),
        (
            build_error(-32001, "Missing Bearer token", 401),
            "HTTP 401 Unauthorized, error -32001; check the headers of the definition",
        ),
    ],
)
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
def test_why_a_server_cannot_be_used(reply: Any, why: str, method: str) -> None:
    with serve(**{method: reply}) as bank, bank.open() as server:
        with pytest.raises(DependencyFailed) as caught:
            ActionGroup("bank", executor=server)
        assert str(caught.value).endswith(f"does not list its tools: {why}")
        assert bank.asked.count("initialize") == 1


def test_a_list_of_tools_of_another_shape() -> None:
    wrong = r"not as MCP has it: tools\.0\.inputSchema: Field required"
    with (
        serve(tools_list=build_result(NO_SCHEMA)) as bank,
        bank.open() as server,
        pytest.raises(DependencyFailed, match=wrong),
    ):
        ActionGroup("bank", executor=server)


@pytest.mark.parametrize("structure", [{}, {"structuredContent": {"receipt": ["canary"]}}])
def test_a_result_without_its_declared_structure_is_an_answer(structure: Any) -> None:
    """The connection is as good as before, and so are the calls of others on it."""
    receipt = {"type": "object", "properties": {"receipt": {"type": "string"}}}
    listed = build_result({"tools": [{**TOOL, "outputSchema": receipt}]})
    paid = build_result({**RESULTS["tools/call"], **structure})
    with serve(tools_list=listed, tools_call=paid) as bank, bank.open() as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        for _ in range(2):
            with pytest.raises(ActionOutcomeUnknown, match="as the tool's outputSchema") as caught:
                run(tools, "pay", sum=1)
            assert "canary" not in str(caught.value)
    assert bank.asked.count("tools/call") == 2
    assert bank.asked.count("initialize") == 1


def test_an_event_may_have_as_many_bytes_as_any_message() -> None:
    def build_event(asked: Any) -> Reply:
        result = {"content": [{"type": "text", "text": "x" * 3_000_000}]}
        text = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        return Reply(f"data: {text}\n\n".encode(), media_type="text/event-stream")

    with serve(tools_call=build_event) as bank, bank.open() as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        assert len(run(tools, "pay", context(max_bytes=4_000_000), sum=1).text) == 3_000_000


@pytest.mark.parametrize("status", [400, 404])
def test_a_server_that_was_started_again_has_forgotten_the_session(status: int) -> None:
    with serve() as bank:
        bank.sessions = ["first"]
        with bank.open() as server:
            tools = Catalog([ActionGroup("bank", executor=server)])
            bank.sessions = ["second"]
            if status == 400:
                first = build_error(-32000, "Bad Request: no valid session", 400)
                bank.replies["tools/list"] = lambda asked: bank.replies.clear() or first(asked)
                bank.sessions = ["first", "second"]
            assert run(tools, "pay", sum=1).text == "paid"
    assert bank.asked.count("initialize") == 2
    assert bank.asked.count("tools/call") == 1


@pytest.mark.parametrize("fault", ["late", "broken"])
def test_a_call_that_fails_leaves_the_calls_of_others_alone(fault: str) -> None:
    came, answers = Event(), Event()

    def wait(asked: Any) -> Any:
        if asked["params"]["arguments"]["sum"] == 1:
            came.set()
        elif fault == "broken":
            return Reply(b"{", cut=9)
        assert answers.wait(HANGS)
        bank.replies.clear()
        return bank.answer(asked, None)

    with serve(tools_call=wait) as bank, bank.open() as server, ThreadPoolExecutor() as pool:
        tools = Catalog([ActionGroup("bank", executor=server)])
        other = pool.submit(lambda: run(tools, "pay", sum=1).text)
        assert came.wait(HANGS)
        try:
            with pytest.raises(DependencyFailed):
                run(tools, "pay", context(seconds=0.5 if fault == "late" else None), sum=2)
        finally:
            answers.set()
        assert other.result(HANGS) == "paid"
        assert run(tools, "pay", sum=3).text == "paid"


def test_no_call_begins_on_a_connection_that_is_about_to_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def be_called_first(link: Link, *seconds: float) -> None:
        monkeypatch.setattr(Link, "close", close)
        with pytest.raises(NotAsked, match="the connection to it has ended"):
            link.call("pay", {"sum": 1}, time.monotonic() + HANGS)
        close(link, *seconds)

    close = Link.close
    with serve(tools_call=Reply(b"{", cut=9)) as bank, bank.open() as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        monkeypatch.setattr(Link, "close", be_called_first)
        with pytest.raises(ActionOutcomeUnknown):
            run(tools, "pay", sum=2)
        assert Link.close is close  # a call came first
        bank.replies.clear()
        assert run(tools, "pay", sum=3).text == "paid"
    assert bank.asked.count("tools/call") == 2


def test_a_server_that_is_gone_before_the_call_was_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> Any:
        raise OSError("no such name")

    def vanish(asked: Any) -> Reply:
        monkeypatch.setattr(Hosts, "resolve", fail)
        return build_result(RESULTS["tools/list"])(asked)

    with serve() as bank, bank.open() as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        bank.replies["tools/list"] = vanish
        with pytest.raises(
            DependencyFailed, match="was not asked to call 'pay': it could"
        ) as caught:
            run(tools, "pay", sum=1)
        assert type(caught.value) is DependencyFailed
    assert "tools/call" not in bank.asked


def test_what_cannot_be_read_is_not_written_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with serve(tools_call=Reply(b'{"canary": ')) as bank, bank.open() as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        with pytest.raises(ActionOutcomeUnknown):
            run(tools, "pay", sum=1)
    assert "canary" not in capsys.readouterr().err
