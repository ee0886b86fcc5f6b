"""OpenAI-compatible servers behind the proxy that the environment names."""

from __future__ import annotations

import asyncio
import base64
import json
import select
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from loopback import Sent, Served, Site, certificate
from model_requests import ask
from model_servers import json_answer

from orchestrator.errors import DependencyFailed, OrchestratorError, ValidationError
from orchestrator.models import ModelReply, OpenAIModel
from orchestrator.support.http.server import build_tls

OK = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
EVENTS = [
    {"choices": [{"index": 0, "delta": {"content": "ok"}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


class Tunnels(Served):
    """A proxy that tunnels to one port of this machine, or refuses with a status."""

    def __init__(self, port: int, status: int = 200) -> None:
        self.asked: list[tuple[str, str | None]] = []
        tunnels = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args: Any) -> None:
                pass

            def do_CONNECT(self) -> None:
                tunnels.asked.append((self.path, self.headers.get("Proxy-Authorization")))
                self.close_connection = True
                self.send_response(status)
                self.end_headers()
                if status == 200:
                    self.wfile.flush()
                    with socket.create_connection(("127.0.0.1", port)) as server:
                        pump(self.connection, server)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"


def pump(one: socket.socket, other: socket.socket) -> None:
    while True:
        for sock in select.select([one, other], [], [])[0]:
            try:
                data = sock.recv(65_536)
            except ConnectionError:
                return
            if not data:
                return
            (other if sock is one else one).sendall(data)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    build_tls.cache_clear()
    yield
    build_tls.cache_clear()


def complete(model: OpenAIModel) -> ModelReply:
    return model.complete(ask())


def acomplete(model: OpenAIModel) -> ModelReply:
    async def main() -> ModelReply:
        return await model.acomplete(ask())

    return asyncio.run(main())


def stream(model: OpenAIModel) -> ModelReply:
    *_, reply = model.stream(ask())
    assert isinstance(reply, ModelReply)
    return reply


def astream(model: OpenAIModel) -> ModelReply:
    async def main() -> Any:
        return [item async for item in model.astream(ask())][-1]

    reply = asyncio.run(main())
    assert isinstance(reply, ModelReply)
    return reply


def answer_of(way: Any) -> bytes:
    if "stream" not in way.__name__:
        return json.dumps(OK).encode()
    return b"".join(b"data: %s\n\n" % json.dumps(it).encode() for it in EVENTS)


@pytest.mark.parametrize("way", [complete, acomplete, stream, astream])
def test_a_proxy_tunnels_what_is_spoken_over_tls(way, tmp_path, monkeypatch):
    tls, authority = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with (
        Site(Sent(answer_of(way)), tls=tls).running() as site,
        Tunnels(site.port).running() as proxy,
    ):
        monkeypatch.setenv("https_proxy", f"http://name:p%40ss@{proxy.address}")
        model = OpenAIModel("m", f"https://localhost:{site.port}/v1", api_key="key-canary")
        assert way(model).text == "ok"
    basic = base64.b64encode(b"name:p@ss").decode()
    assert proxy.asked == [(f"localhost:{site.port}", f"Basic {basic}")]
    (got,) = site.got
    assert got.headers["authorization"] == "Bearer key-canary"
    assert "proxy-authorization" not in got.headers


@pytest.mark.parametrize("way", [complete, acomplete])
def test_a_proxy_that_lets_nothing_through_is_named(way, tmp_path, monkeypatch):
    with Tunnels(0, status=407).running() as proxy:
        monkeypatch.setenv("https_proxy", f"http://name:pass-canary@{proxy.address}")
        model = OpenAIModel("m", "https://models.invalid/v1", api_key="key-canary")
        with pytest.raises(DependencyFailed, match="the proxy answered 407") as caught:
            way(model)
    assert "canary" not in str(caught.value)
    assert len(proxy.asked) == 1  # it will not let the next one through either


@pytest.mark.parametrize("way", [complete, acomplete])
def test_a_proxy_forwards_plain_requests(way, serve, monkeypatch):
    proxy = serve(json_answer(OK))
    monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//name:pass@"))
    assert way(OpenAIModel("m", "http://models.invalid:8000/v1")).text == "ok"
    (asked,) = proxy.asked
    assert asked.path == "http://models.invalid:8000/v1/chat/completions"
    assert asked.headers["host"] == "models.invalid:8000"
    assert asked.headers["proxy-authorization"] == "Basic bmFtZTpwYXNz"


@pytest.mark.parametrize("port", [False, True], ids=["host", "host and port"])
def test_hosts_that_need_no_proxy_are_asked_directly(serve, monkeypatch, port):
    server, proxy = serve(json_answer(OK)), serve(json_answer(OK))
    monkeypatch.setenv("all_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", server.url.removeprefix("http://") if port else "127.0.0.1")
    assert complete(OpenAIModel("m", server.url)).text == "ok"
    assert (len(server.asked), len(proxy.asked)) == (1, 0)


@pytest.mark.parametrize("url", ["https://user:canary@proxy:1", "socks5://user:canary@proxy:1"])
def test_a_proxy_of_another_kind_is_refused(url, monkeypatch):
    monkeypatch.setenv("http_proxy", url)
    with pytest.raises(ValidationError, match="HTTP_PROXY") as caught:
        complete(OpenAIModel("m", "http://models.invalid/v1"))
    assert "canary" not in str(caught.value)


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path, monkeypatch):
    tls, _ = certificate(tmp_path, "localhost")
    with Site(Sent(answer_of(complete)), tls=tls).running() as site:
        for way in (complete, acomplete):
            with pytest.raises(OrchestratorError, match="SSLCertVerificationError"):
                way(OpenAIModel("m", f"https://localhost:{site.port}/v1", api_key="k"))
    assert site.got == []
