"""What InvokeAgent costs a server, beside the least ASGI application under the same one.

A client asks over one kept connection, in the server's own event loop: what it costs itself, a few
microseconds, is in both figures. The model answers at once, and the agent is in a folder. The
application of the floor reads the question and answers with the same frame: no agent, no session,
no check.

`python -m bench.invoke_agent SIDE TURNS` only runs turns, without the garbage collector, for who
counts instructions: the difference of two runs is free of what each process does once.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from uvicorn.server import ServerState as ConnectionState

from bench.harness import compare
from bench.server import write_agent
from bench.server_clients import AGENT_ID
from orchestrator.models import Model, ModelReply
from orchestrator.models.base import Usage
from orchestrator.server import serving
from orchestrator.server.app import application
from orchestrator.server.fair_loop import FairEventLoop
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.server.wire.responses import encode_frame

_ANSWER = "It is sunny in Paris."
_ENCODED = b64encode(_ANSWER.encode())
_SIDES = ("floor", "memory", "sqlite")
_TURNS, _ROUNDS = 200, 11
_TURNS_OF_SESSION = 20


def invoke_agent() -> list[tuple[str, float, str, float | None, str]]:
    """The rows: the floor in microseconds, and how many times as much a turn takes."""
    with asyncio.Runner(loop_factory=FairEventLoop) as runner, _clients(runner, _SIDES) as clients:

        def ask(client: _Client) -> None:
            runner.run(client.ask(_TURNS))

        works = {side: lambda one=one: ask(one) for side, one in clients.items()}
        taken = compare(works, count=1, rounds=_ROUNDS)
    floor, memory, sqlite = (taken[side] / _TURNS for side in _SIDES)
    note = "a bare ASGI application under the same server; with the client"
    return [
        ("InvokeAgent, floor", floor, "µs", None, note),
        ("InvokeAgent, memory", memory / floor, "x floor", 3.5, f"{memory:.0f} µs"),
        ("InvokeAgent, sqlite", sqlite / floor, "x floor", 5.5, f"{sqlite:.0f} µs"),
    ]


@contextmanager
def _clients(runner: asyncio.Runner, sides: Sequence[str]) -> Iterator[dict[str, _Client]]:
    """A client of a server for each side."""
    log = logging.StreamHandler(_Unread())
    logger = logging.getLogger("orchestrator.server")
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    with ExitStack() as opened, tempfile.TemporaryDirectory() as folder:
        clients = AsyncExitStack()
        found = {}
        for side in sides:
            app = opened.enter_context(_open_application(side, Path(folder, side)))
            found[side] = runner.run(clients.enter_async_context(_serve(app)))
        try:
            yield found
        finally:
            runner.run(clients.aclose())
            logger.removeHandler(log)


class _Unread:
    """Where lines of the log go."""

    def write(self, text: str) -> None: ...

    def flush(self) -> None: ...


@asynccontextmanager
async def _serve(app: Any) -> AsyncIterator[_Client]:
    """A client of an application under the protocols and the event loop of `orchestrator serve`."""
    loop = asyncio.get_running_loop()
    config = serving.build_server_config(app, Settings())
    config.load()
    connections = ConnectionState()
    server = await loop.create_server(
        lambda: config.http_protocol_class(config, connections, {}, loop), "127.0.0.1", 0
    )
    async with server:
        yield _Client(server.sockets[0].getsockname()[1])
        while connections.connections:
            await asyncio.sleep(0)


class _Client(asyncio.Protocol):
    """Asks the next question as soon as one is answered."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._number = count()
        self._got = b""

    async def ask(self, turns: int) -> None:
        """Has so many questions answered, over one connection."""
        loop = asyncio.get_running_loop()
        self._left = turns
        self._done = loop.create_future()
        transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        try:
            await self._done
        finally:
            transport.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._build_request())

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(RuntimeError("the server has closed the connection"))

    def _build_request(self) -> bytes:
        session = f"session-{next(self._number) // _TURNS_OF_SESSION}"
        body = json.dumps({"inputText": "What is the weather in Paris?"})
        # The headers that boto3 sends.
        return (
            f"POST /agents/{AGENT_ID}/agentAliases/TSTALIASID/sessions/{session}/text HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{self._port}\r\n"
            "Accept-Encoding: identity\r\nContent-Type: application/json\r\n"
            "User-Agent: Boto3/1.40.0 md/Botocore#1.40.0 ua/2.1 os/linux lang/python#3.11.7\r\n"
            "X-Amz-Date: 20260102T030405Z\r\n"
            "Authorization: AWS4-HMAC-SHA256 Credential=local/20260102/us-east-1/bedrock/"
            "aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=0\r\n"
            "amz-sdk-invocation-id: 4d3c8f7e-0000-4000-8000-000000000000\r\n"
            f"amz-sdk-request: attempt=1\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    def data_received(self, data: bytes) -> None:
        self._got += data
        if not self._got.endswith(b"\r\n0\r\n\r\n"):
            return
        answer, self._got = self._got, b""
        self._left -= 1
        if _ENCODED not in answer:
            self._done.set_exception(RuntimeError(f"another answer: {answer!r}"))
        elif self._left:
            self._transport.write(self._build_request())
        else:
            self._done.set_result(None)


@contextmanager
def _open_application(side: str, folder: Path) -> Iterator[Any]:
    if side == "floor":
        yield _answer_at_once
        return
    write_agent(folder)
    state = folder / "state.sqlite" if side == "sqlite" else None
    settings = Settings(agents=folder / "agents", state=state)
    with ServerState(settings, models={"*": _Instant()}) as world:
        yield application(world)


class _Instant(Model):
    """A model that answers at once."""

    model_id = "instant"

    def complete(self, request: Any) -> ModelReply:
        content = [{"text": f"<answer>{_ANSWER}</answer>"}]
        return ModelReply(content, "end_turn", Usage(100, 20, 0, 0, 1))

    async def acomplete(self, request: Any) -> ModelReply:
        return self.complete(request)


async def _answer_at_once(scope: Any, receive: Any, send: Any) -> None:
    """The floor."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message["body"]
        more = message["more_body"]
    assert json.loads(body)["inputText"]
    headers = [
        (b"x-amzn-bedrock-agent-content-type", b"application/json"),
        (b"x-amz-bedrock-agent-session-id", scope["path"].split("/")[-2].encode()),
        (b"content-type", b"application/vnd.amazon.eventstream"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    event = {
        ":message-type": "event",
        ":event-type": "chunk",
        ":content-type": "application/json",
    }
    frame = encode_frame(
        event, json.dumps({"bytes": b64encode(_ANSWER.encode()).decode()}).encode()
    )
    await send({"type": "http.response.body", "body": frame, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def main(side: str, turns: int) -> None:
    gc.disable()
    with asyncio.Runner(loop_factory=FairEventLoop) as runner, _clients(runner, [side]) as clients:
        runner.run(clients[side].ask(turns))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
