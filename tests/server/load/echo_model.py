"""A model behind OpenAI's API that tells the tokens of all questions it was shown, in order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from loopback import Served

TOKEN = re.compile(r"\[([\w-]+)\]")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Workers that are killed hang up."""


class EchoModel(Served):
    """The model.

    Attributes:
        spec: How it is named.
    """

    def __init__(self, asked: Callable[[int], None]) -> None:
        """Makes it.

        Args:
            asked: Called before each answer with the number of the request, from 0.
        """
        numbers = count()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked(next(numbers))
                told = json.dumps(_answer(body["messages"])).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.spec = f"openai:echo@http://127.0.0.1:{self._server.server_address[1]}/v1"


def _answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    questions = [str(it["content"]) for it in messages if it["role"] == "user"]
    seen = [token for text in questions for token in TOKEN.findall(text)]
    message = {"role": "assistant", "content": f"<answer>{' '.join(seen)}</answer>"}
    return {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
