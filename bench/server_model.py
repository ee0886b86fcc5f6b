"""A model server for load: OpenAI's protocol, 50 ms an answer, and it says which questions it saw.

A question has a token in brackets, as in `[[7-0-3]]`. The answer has those of all questions of the
conversation in order, so that a turn that was lost, repeated or of another session shows in the
next answer. To a question that begins with `Look up`, the model first calls the agent's function.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

WAIT_SECONDS = 0.05
TOKEN = re.compile(r"\[\[([\w-]+)\]\]")
LOOKED_UP = "Look up"


def answer_to(body: dict[str, Any]) -> dict[str, Any]:
    messages = body["messages"]
    asked = [_text(it) for it in messages if it["role"] == "user"]
    seen = [token for text in asked for token in TOKEN.findall(text)]
    last = messages[-1]
    if last["role"] != "tool" and LOOKED_UP in asked[-1]:
        name = next(
            it["function"]["name"] for it in body["tools"] if "key" in json.dumps(it["function"])
        )
        function = {"name": name, "arguments": json.dumps({"key": seen[-1]})}
        call = {"id": f"c-{seen[-1]}", "type": "function", "function": function}
        return _choice({"content": None, "tool_calls": [call]}, "tool_calls")
    found = f"; found {_text(last)}" if last["role"] == "tool" else ""
    return _choice({"content": f"<answer>seen {' '.join(seen)}{found}</answer>"}, "stop")


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(it.get("text", "") for it in content)


def _choice(message: dict[str, Any], reason: str) -> dict[str, Any]:
    told = {"role": "assistant", **message}
    return {"id": "c", "choices": [{"index": 0, "message": told, "finish_reason": reason}]}


class _Connection(asyncio.Protocol):
    """One request after the other; no more of HTTP than the one client here needs."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._got = b""

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, rest = self._got.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if not end or length is None or len(rest) < int(length[1]):
            return
        self._got = b""
        loop = asyncio.get_running_loop()
        loop.call_later(WAIT_SECONDS, self._answer, answer_to(json.loads(rest)))

    def _answer(self, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self._transport.write(head.encode() + b"\r\n\r\n" + body)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # whoever started it has gone


if __name__ == "__main__":
    asyncio.run(main())
