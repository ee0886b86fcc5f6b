"""What a call of Bedrock costs, beside `http.client` with botocore's signature; and many at once.

Both ask a server on this machine in another process; counted is the CPU time of the client. The
floor encodes the whole body for each call, signs it, and decodes the answer.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.bedrock_server import EVENTS, WAIT_SECONDS
from bench.harness import Row, compare, settle
from orchestrator.message import Message
from orchestrator.models import BedrockModel, Model, ModelRequest, OpenAIModel

_HISTORIES = (0, 10, 50, 200)
_AT_ONCE = 200
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_SESSION_TOKEN": "token" * 100,
    "AWS_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def bedrock() -> list[Row]:
    """Calls with histories of up to 200 steps, 200 calls at once, and a stream's event."""
    os.environ.update(_ENVIRONMENT)
    with serving() as url:
        rows = [row for steps in _HISTORIES for row in _calls(url, steps)]
        return [*rows, *_at_once(url), *_events(url)]


def _calls(url: str, steps: int) -> list[Row]:
    messages = _history(steps)
    model = BedrockModel("fast", endpoint_url=url)
    request = ModelRequest("ORCHESTRATION", "Be brief.", messages)
    floor = _Floor(url)
    loop = asyncio.new_event_loop()

    async def acomplete(times: int) -> None:
        for _ in range(times):
            await model.acomplete(request)

    count = 50
    times = compare(
        {
            "floor": lambda: floor.call(messages),
            "sync": lambda: model.complete(request),
            # One run of the loop for all: starting it is no part of a call.
            "async": lambda: loop.run_until_complete(acomplete(1)),
        },
        count=count,
        rounds=9,
    )
    # The loop's own start and stop for each call are taken out.
    began = time.process_time_ns()
    for _ in range(200):
        loop.run_until_complete(asyncio.sleep(0))
    times["async"] -= (time.process_time_ns() - began) / 200 / 1000
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    floor.close()
    base = times["floor"]
    note = f"{{:.0f}} µs, floor {base:.0f}"
    return [
        (
            f"Bedrock call, {steps} steps",
            times["sync"] / base,
            "x floor",
            1.1,
            note.format(times["sync"]),
        ),
        (
            f"Bedrock call, async, {steps} steps",
            times["async"] / base,
            "x floor",
            0.9,
            note.format(times["async"]),
        ),
    ]


def _at_once(url: str) -> list[Row]:
    """Wall clock of 200 calls at once, and CPU time of one when so many connections are idle."""
    rows = []
    models = {
        "Bedrock": BedrockModel("slow", endpoint_url=url),
        "OpenAI": OpenAIModel("slow", f"{url}/slow/v1", api_key="k"),
    }
    for name, model in models.items():
        cold, warm, alone, among = asyncio.run(_measure_calls(model))
        note = f"wall clock; {WAIT_SECONDS * 1000:.0f} ms each; {cold:.0f} ms with new connections"
        rows += [
            (f"{_AT_ONCE} {name} calls at once", warm, "ms", 100.0, note),
            (
                f"{name} call, {_AT_ONCE} connections idle",
                among / alone,
                "x with one",
                1.2,
                f"{alone:.0f}, {among:.0f} µs",
            ),
        ]
    return rows


async def _measure_calls(model: Model) -> tuple[float, float, float, float]:
    request = ModelRequest("ORCHESTRATION", "Be brief.", _history(0))

    async def measure_call() -> float:
        times = []
        for _ in range(20):
            began = time.process_time_ns()
            await model.acomplete(request)
            times.append((time.process_time_ns() - began) / 1000)
        return statistics.median(times)

    await model.acomplete(request)
    alone = await measure_call()
    walls = []
    for _ in range(9):
        settle()
        began = time.perf_counter()
        await asyncio.gather(*(model.acomplete(request) for _ in range(_AT_ONCE)))
        walls.append((time.perf_counter() - began) * 1000)
    return walls[0], statistics.median(walls[1:]), alone, await measure_call()


def _events(url: str) -> list[Row]:
    model = BedrockModel("fast", endpoint_url=url)
    request = ModelRequest("ORCHESTRATION", "Be brief.", _history(0))
    loop = asyncio.new_event_loop()

    async def collect() -> None:
        async for _ in model.astream(request):
            pass

    times = compare(
        {
            "sync": lambda: list(model.stream(request)),
            "async": lambda: loop.run_until_complete(collect()),
        },
        count=3,
        rounds=15,
    )
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    return [
        (f"event of Bedrock's stream, {name}", took / EVENTS, "µs", 5.0, f"{EVENTS} events")
        for name, took in times.items()
    ]


class _Floor:
    """`http.client` over a kept connection."""

    def __init__(self, url: str) -> None:
        from botocore.credentials import Credentials

        self._url = url
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        self._credentials = Credentials(*[_ENVIRONMENT[name] for name in names])
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"))

    def call(self, messages: list[Message]) -> Any:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        body = json.dumps({"system": [{"text": "Be brief."}], "messages": messages}).encode()
        fields = {"Content-Type": "application/json"}
        request = AWSRequest("POST", f"{self._url}/model/fast/converse", fields, body)
        frozen = self._credentials.get_frozen_credentials()
        SigV4Auth(frozen, "bedrock", "eu-central-1").add_auth(request)
        self._connection.request("POST", "/model/fast/converse", body, dict(request.headers))
        return json.loads(self._connection.getresponse().read())

    def close(self) -> None:
        self._connection.close()


def _history(steps: int) -> list[Message]:
    messages = [Message("user", [{"text": "What is the weather in Paris?"}])]
    for number in range(steps):
        call = {"toolUseId": f"t{number}", "name": "weather__get", "input": {"city": "Paris"}}
        result = {"toolUseId": f"t{number}", "content": [{"text": "It is sunny in Paris."}]}
        messages += [
            Message("assistant", [{"text": "I look it up."}, {"toolUse": call}]),
            Message("user", [{"toolResult": result}]),
        ]
    return messages


@contextmanager
def serving() -> Iterator[str]:
    program = [sys.executable, "-m", "bench.bedrock_server"]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None and server.stdin is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.stdin.close()
