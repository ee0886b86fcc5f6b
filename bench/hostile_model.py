"""A model server that attacks its client; the name of the model says how.

`python -m bench.hostile_model` prints its address, and ends with its standard input.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

WORD = "a" * 34 + "!"
_NAMES = itertools.count()

# 10^9 items, if aliases were followed.
_ALIASES = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join(f'*a{n - 1}' for _ in range(10))}]\n" for n in range(1, 10)
)
_TEXTS = {
    "aliases": _ALIASES,
    "repeated": json.dumps({"name": "aa", "items": [{"n": n} for n in range(6_000)]}),
    "word": json.dumps({"name": "a" * 40 + "b", "items": []}),
    "markup": "<function_calls><invoke><tool_name>" * 20_000,
    "tags": "<a " * 100_000 + "<thinking>" * 20_000,
}
_SERVED = ("calls", "comments", "deep", "deltas", "drip", "endless", "unsupported")
KINDS = (*_SERVED, *_TEXTS)  # the names of models


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.close_connection = True
        if self.path.startswith("/endless"):
            self._send(200, "text/plain; charset=base64", itertools.repeat(b"x" * 8_192))
            return
        asked = json.loads(body)
        kind = asked["model"]
        if kind == "unsupported":
            error = {"code": "unsupported_parameter", "param": f"p{next(_NAMES)}", "message": "no"}
            self._send_json({"error": error}, 400)
        elif kind in ("endless", "drip", "deep"):
            self._send(200, "application/json", _bodies(kind))
        elif kind in ("comments", "deltas"):
            self._send(200, "text/event-stream", _events(kind))
        elif kind == "calls":
            self._send_json(_completion(_call(asked)))
        else:
            self._send_json(_completion({"content": _TEXTS[kind]}))

    do_GET = do_POST

    def _send_json(self, value: Any, status: int = 200) -> None:
        self._send(status, "application/json", iter([json.dumps(value).encode()]))

    def _send(self, status: int, kind: str, pieces: Iterator[bytes]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)


def _bodies(kind: str) -> Iterator[bytes]:
    if kind == "deep":
        yield b"[" * 200_000
    elif kind == "drip":
        while True:
            time.sleep(0.2)
            yield b" "
    else:
        yield from itertools.repeat(b" " * 8_192)


def _events(kind: str) -> Iterator[bytes]:
    if kind == "comments":
        yield from itertools.repeat(b": still here\n\n" * 100)
    delta = {"choices": [{"index": 0, "delta": {"content": "la "}}]}
    yield from itertools.repeat(b"data: %s\n\n" % json.dumps(delta).encode())


def _call(asked: dict[str, Any]) -> dict[str, Any]:
    name = asked["tools"][0]["function"]["name"]
    function = {"name": name, "arguments": json.dumps({"key": WORD})}
    return {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "c", "choices": [choice]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients are meant to hang up."""


def main() -> None:
    server = _Server(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
