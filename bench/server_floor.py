"""The floor of the server: the least application that answers the same boto3 call.

One frame of an event stream after the time that a model would take: no agent, no session, no check.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from bench.server_model import TOKEN
from orchestrator.server.wire.responses import encode_frame

_WAIT = "BENCH_WAIT_SECONDS"  # for the worker processes
_HEADERS = {
    ":message-type": "event",
    ":event-type": "chunk",
    ":content-type": "application/json",
}


async def _invoke(request: Request) -> StreamingResponse:
    question = json.loads(await request.body())["inputText"]
    wait = request.app.state.wait

    async def frames() -> AsyncIterator[bytes]:
        if wait:
            await asyncio.sleep(wait)
        text = f"seen {TOKEN.findall(question)[0]}".encode()
        yield encode_frame(_HEADERS, json.dumps({"bytes": b64encode(text).decode()}).encode())

    headers = {
        "x-amzn-bedrock-agent-content-type": "application/json",
        "x-amz-bedrock-agent-session-id": request.path_params["session"],
    }
    return StreamingResponse(frames(), 200, headers, "application/vnd.amazon.eventstream")


def application() -> Any:
    path = "/agents/{agent}/agentAliases/{alias}/sessions/{session}/text"
    app = Starlette(routes=[Route(path, _invoke, methods=["POST"])])
    app.state.wait = float(os.environ[_WAIT])
    return app


def main(port: int, workers: int, wait: float) -> None:
    os.environ[_WAIT] = str(wait)
    uvicorn.run(
        "bench.server_floor:application",
        factory=True,
        port=port,
        workers=workers,
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
