"""A server of models that answers every request at once, or after 50 ms, and streams events.

`python -m bench.bedrock_server` prints its port. The path says how it answers: one with `slow` in
it after 50 ms, `converse-stream` with 2,000 events of one chunk each, `chat/completions` in terms
of that protocol.
"""

from __future__ import annotations

import asyncio
import json
import re
import struct
import sys
import zlib
from typing import Any

WAIT_SECONDS = 0.05
EVENTS = 2_000

_USE = {"toolUseId": "t1", "name": "weather__get", "input": {"city": "Paris"}}
_ANSWER = {
    "output": {
        "message": {"role": "assistant", "content": [{"text": "I look."}, {"toolUse": _USE}]}
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120},
    "metrics": {"latencyMs": 1},
}

_CHAT = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}


def _build_whole(answer: dict[str, Any]) -> bytes:
    body = json.dumps(answer).encode()
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-amzn-RequestId: r\r\n"
    return (
        f"{head}Date: Fri, 27 Nov 2026 00:00:00 GMT\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


def _build_event(kind: str, payload: dict[str, Any]) -> bytes:
    fields = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    head = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in fields.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    prelude += struct.pack(">I", zlib.crc32(prelude))
    message = prelude + head + body
    return message + struct.pack(">I", zlib.crc32(message))


def _build_stream() -> bytes:
    delta = {"contentBlockIndex": 0, "delta": {"text": " sunny"}, "p": "abcdefghijklm"}
    stop = _build_event("messageStop", {"stopReason": "end_turn", "p": "abc"})
    usage = _build_event("metadata", {"usage": _ANSWER["usage"], "metrics": {"latencyMs": 1}})
    events = [*([_build_event("contentBlockDelta", delta)] * EVENTS), stop, usage]
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    return head + b"".join(b"%x\r\n%s\r\n" % (len(it), it) for it in events) + b"0\r\n\r\n"


WHOLE, CHAT, STREAM = _build_whole(_ANSWER), _build_whole(_CHAT), _build_stream()


class _Connection(asyncio.Protocol):
    """One request after the other; no more of HTTP than the clients here need."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._got = bytearray()

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", self._got[:end]) if end > 0 else None
        if length is None or len(self._got) < end + 4 + int(length[1]):
            return
        target = bytes(self._got[: self._got.find(b"\r\n")])
        self._got.clear()
        whole = CHAT if b"chat/completions" in target else WHOLE
        answer = STREAM if b"converse-stream" in target else whole
        if b"slow" in target:
            asyncio.get_running_loop().call_later(WAIT_SECONDS, self._transport.write, answer)
        else:
            self._transport.write(answer)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(
        _Connection, "127.0.0.1", 0, backlog=512
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until its parent ends
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
