"""Attack 19: MCP servers that are silent, slow, endless or stay when they should end."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from action_support import context, run
from left_out import sampled
from loopback import serve_handler

from orchestrator.actions import ActionGroup, Catalog, MCPServer
from orchestrator.errors import ActionOutcomeUnknown, DependencyFailed

pytest.importorskip("mcp")

from orchestrator.actions._mcp_link import Link
from orchestrator.actions._mcp_process import ServerProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are of POSIX")

LATEST = 60  # seconds after which a process that should have ended counts as one that stays

# It answers as many requests as it is told to, and then no more. It does not end when its input
# ends or, unless told to, when it is asked to, and it has a child that does not either. Both hold
# `alive` open.
SERVER = r"""
import json, os, signal, subprocess, sys, time
silent_from, ends = sys.argv[1:]

def be_asked(*_):
    with open("asked", "a") as file:
        file.write("x")
    if ends == "asked":
        os._exit(0)

signal.signal(signal.SIGTERM, be_asked)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
alive = os.open("alive", os.O_WRONLY)
open("started", "a").write("x")
if not os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1000)
os.write(alive, b"up")

if ends == "leaves":
    os.setsid()
TOOL = {"name": "pay", "description": "Pays.", "inputSchema": {"type": "object"}}
ANSWERS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "it", "version": "1"}},
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "paid"}]},
}

def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()

for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if method == silent_from:
        open("silent", "a").write("x")
        break
    if method == "tools/call" and ends == "fails":
        send({"id": asked["id"], "error": {"code": -32603, "message": "canary"}})
    elif method == "tools/list" and ends == "endless":
        TOOL["description"] = "x" * 40_000_000
        send({"id": asked["id"], "result": ANSWERS[method]})
    elif method in ANSWERS:
        send({"id": asked["id"], "result": ANSWERS[method]})
    elif "id" in asked:
        send({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
if ends == "at once":
    os._exit(0)
while True:
    time.sleep(1000)
"""


class Alive:
    """Whether a server, or a child of it, is there: they hold the other end of a pipe."""

    def __init__(self, folder: Path) -> None:
        (folder / "server.py").write_text(SERVER)
        os.mkfifo(folder / "alive")
        self.pipe = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
        self.folder = folder

    def server(self, silent_from: str = "", ends: str = "", **options: Any) -> MCPServer:
        command = [sys.executable, "-S", "server.py", silent_from, ends]
        return MCPServer(command, folder=self.folder, **options)

    def read(self) -> bytes:
        ready, _, _ = select.select([self.pipe], [], [], LATEST)
        assert ready, "it has not ended"
        return os.read(self.pipe, 100)

    def wait(self) -> None:
        """Waits until a server is there."""
        while not select.select([self.pipe], [], [], LATEST)[0] or not self.read():
            pass

    def check_ended(self) -> None:
        """Each process that started said so, and then none had the pipe any more."""
        while self.read():
            pass

    def forget(self) -> None:
        """Begins to count anew."""
        for what in ("started", "asked", "silent"):
            (self.folder / what).unlink(missing_ok=True)

    def count(self, what: str) -> int:
        file = self.folder / what
        return len(file.read_text()) if file.exists() else 0


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[Alive]:
    made = Alive(tmp_path)
    yield made
    os.close(made.pipe)


def run_out_of_time(
    ask: Callable[[float], object], was_asked: Callable[[], object]
) -> DependencyFailed:
    """The error when the time is up after a server was asked.

    On a slow machine it may be up before: then it is tried again with more.
    """
    for seconds in (0.4, 2.0, 15.0, LATEST):
        with pytest.raises(DependencyFailed) as failed:
            ask(seconds)
        if was_asked():
            return failed.value
    pytest.fail("the server was never asked")


@pytest.mark.parametrize("silent_from", ["server/discover", "initialize", "tools/list"])
def test_a_silent_server_is_ended_with_the_time_and_not_started_again(
    alive: Alive, silent_from: str
) -> None:
    # A method that is not answered: `server/discover` is asked first, and then `initialize`.
    def ask(seconds: float) -> None:
        alive.forget()
        ActionGroup("bank", executor=alive.server(silent_from, timeout=seconds))

    error = run_out_of_time(ask, lambda: alive.count("silent"))
    assert re.search("could not be started, or .*time was up", str(error))
    alive.check_ended()
    assert alive.count("started") == 1
    # No time is left in which it could end by itself, so it was not even asked to.
    assert alive.count("asked") == 0


def test_a_call_that_is_not_answered_ends_the_server(alive: Alive) -> None:
    def ask(seconds: float) -> None:
        alive.forget()
        tools = Catalog([ActionGroup("bank", executor=alive.server("tools/call"))])
        run(tools, "pay", context(seconds=seconds / 4))

    error = run_out_of_time(ask, lambda: alive.count("silent"))
    assert type(error) is ActionOutcomeUnknown
    assert re.search("time was up.*may have taken effect", str(error))
    alive.check_ended()
    assert (alive.count("started"), alive.count("asked")) == (1, 0)


def test_an_error_after_the_call_began_leaves_its_outcome_unknown(
    alive: Alive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Link.close, "__defaults__", (0.2,))  # it does not end by itself
    with alive.server(ends="fails") as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        with pytest.raises(ActionOutcomeUnknown, match=r"-32603.*may have taken effect") as caught:
            run(tools, "pay")
    assert "canary" not in str(caught.value)
    alive.check_ended()


def test_a_message_has_a_bound(alive: Alive) -> None:
    with (
        alive.server(ends="endless") as server,
        pytest.raises(DependencyFailed, match="the connection broke"),
    ):
        ActionGroup("bank", executor=server)
    alive.check_ended()


def test_closing_asks_first_and_then_ends_the_whole_group(
    alive: Alive, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However late it is, it has the time to end when it is asked to; before, it has none.
    wait, seconds = ServerProcess._ends_within, iter([0.0, LATEST, LATEST])
    monkeypatch.setattr(ServerProcess, "_ends_within", lambda it, _: wait(it, next(seconds)))
    monkeypatch.setattr(Link.close, "__defaults__", (LATEST,))
    with alive.server(ends="asked") as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        assert run(tools, "pay").text == "paid"
    alive.check_ended()
    assert alive.count("asked") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_closing_ends_a_server_that_has_left_its_group(
    alive: Alive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Link.close, "__defaults__", (0.2,))  # it does not end by itself
    server = alive.server(ends="leaves", timeout=60)
    group = ActionGroup("it", executor=server)
    assert [it.name for it in Catalog([group]).operations] == ["pay"]
    server.close()
    alive.check_ended()


def test_a_server_that_ends_by_itself_leaves_no_child(alive: Alive) -> None:
    server = alive.server("tools/call", ends="at once")
    tools = Catalog([ActionGroup("bank", executor=server)])
    with pytest.raises(ActionOutcomeUnknown):
        run(tools, "pay")
    alive.check_ended()
    server.close()


OURS = """
import sys
from orchestrator.actions import *
server = MCPServer([sys.executable, "-S", "server.py", "initialize", ""], folder=".", timeout=600)
ActionGroup("bank", executor=server)
"""


@pytest.mark.parametrize("number", sampled([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
def test_no_server_outlives_the_process_that_started_it(
    alive: Alive, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OURS], cwd=alive.folder, stderr=subprocess.PIPE, text=True
    ) as ours:
        alive.wait()
        ours.send_signal(number)
        _, errors = ours.communicate(timeout=LATEST)
    alive.check_ended()
    assert ours.returncode == -number
    assert errors.rstrip().endswith("KeyboardInterrupt" if number == signal.SIGINT else "")


ANSWERS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "it", "version": "1"},
    },
    "tools/list": {
        "tools": [{"name": "pay", "description": "Pays.", "inputSchema": {"type": "object"}}]
    },
    "tools/call": {"content": [{"type": "text", "text": "paid Zo\u00eb"}]},
}


class EventStreams(BaseHTTPRequestHandler):
    """A server over HTTP whose answers are events in a charset that is none, or are endless."""

    charset = ""
    endless = False
    sent: list[int]  # sizes of the pieces of an endless answer

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in asked:
            self.send_response(202)
            self.end_headers()
            return
        method = asked["method"]
        answer = {"result": ANSWERS[method]} if method in ANSWERS else {"error": NO_METHOD}
        text = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}, ensure_ascii=False)
        self.send_response(200)
        self.send_header("Content-Type", f"text/event-stream; charset={self.charset}")
        self.end_headers()
        with suppress(OSError):
            while self.endless and method == "tools/call":
                self.wfile.write(b": " + b"x" * 1_000_000 + b"\n")
                self.sent.append(1_000_000)
            self.wfile.write(f"event: message\ndata: {text}\n\n".encode())

    def do_GET(self) -> None:
        self.send_response(405)
        self.end_headers()


NO_METHOD = {"code": -32601, "message": "no such method"}


@contextmanager
def event_streams(**attributes: Any) -> Iterator[MCPServer]:
    handler = type("Handler", (EventStreams,), attributes)
    with (
        serve_handler(handler) as url,
        MCPServer(url=f"{url}/mcp", timeout=LATEST, allow_private=["127.0.0.1"]) as server,
    ):
        yield server


@pytest.mark.parametrize("charset", ["base64", "punycode", "undefined", "utf-16", "zip", "x-none"])
def test_messages_over_http_are_utf_8_whatever_they_say(charset: str) -> None:
    with event_streams(charset=charset) as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        assert run(tools, "pay").text == "paid Zo\u00eb"


def test_an_answer_over_http_has_a_bound() -> None:
    sent: list[int] = []
    with event_streams(charset="utf-8", endless=True, sent=sent) as server:
        tools = Catalog([ActionGroup("bank", executor=server)])
        with pytest.raises(ActionOutcomeUnknown, match="may have taken effect"):
            run(tools, "pay")
    assert sum(sent) < 100_000_000


@contextmanager
def mute_port() -> Iterator[tuple[int, list[bytes]]]:
    """A server over HTTP that takes every request, and answers none."""
    came: list[bytes] = []
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            try:
                while True:
                    taken, _ = listening.accept()
                    held.append(taken)
                    if request := taken.recv(1 << 16):
                        came.append(request.partition(b" ")[0])
            except OSError:
                return

        thread = Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1], came
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in held:
                one.close()


def test_a_silent_server_over_http() -> None:
    came: list[bytes] = []

    def ask(seconds: float) -> None:
        nonlocal came
        with mute_port() as (port, came):
            url = f"http://127.0.0.1:{port}/mcp"
            server = MCPServer(url=url, timeout=seconds / 2, allow_private=["127.0.0.1"])
            ActionGroup("bank", executor=server)

    error = run_out_of_time(ask, lambda: came)
    assert "the time was up" in str(error)
    assert came == [b"POST"]
