"""A publisher of weights on this machine, for what fetches them."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from orchestrator.models import weights
from orchestrator.models.weights import Weights

CONTENT = b"GGUF" + b"w" * 3_000_000


class _Gate(http.server.BaseHTTPRequestHandler):
    """Sends the first half, and the rest when it is let."""

    let = threading.Event()
    asked: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Range", ""))
        begin = int(self.headers.get("Range", "bytes=0-")[6:-1])
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(CONTENT) - begin))
        self.end_headers()
        half = max(len(CONTENT) // 2, begin)
        try:
            self.wfile.write(CONTENT[begin:half])
            self.wfile.flush()
            self.let.wait(60)
            self.wfile.write(CONTENT[half:])
        except OSError:  # the download was stopped
            return

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextmanager
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Gate]]:
    """A publisher of the only model that there is then."""
    _Gate.let, _Gate.asked = threading.Event(), []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Gate)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    made = Weights(
        name="tiny",
        aliases=("t",),
        file="tiny.gguf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        licence="Apache-2.0",
        attribution="Nobody <img src=x>",
        url=f"http://127.0.0.1:{server.server_port}/tiny.gguf",
    )
    monkeypatch.setattr(weights, "_registry", lambda: {"tiny": made})
    try:
        yield _Gate
    finally:
        _Gate.let.set()
        server.shutdown()
        server.server_close()
        thread.join()
