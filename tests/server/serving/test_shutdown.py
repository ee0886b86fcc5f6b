"""A server that is told to stop ends in order: turns go on for a while, and none is lost."""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    EventStreamError,
)
from left_out import sampled
from serving_support import (
    AGENT_ID,
    Start,
    WaitingModel,
    client,
    invoke,
    text_of,
    write_agent,
)

from orchestrator import Sessions
from orchestrator.models import Model
from orchestrator.models.base import ModelReply, ModelRequest
from orchestrator.server.active_requests import ActiveRequests
from orchestrator.server.app import application
from orchestrator.server.operations import Caller, EventStream, Request
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.server.uvicorn_config import FastStopServer, build_config
from orchestrator.testing import ScriptedModel


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGINT]))
def test_an_idle_server_says_what_it_serves_and_ends_at_once(
    start: Start, tmp_path: Path, number: int
) -> None:
    server = start("--agents", write_agent(tmp_path))
    assert server.told["pid"] == server.pid
    told = {"agentId": AGENT_ID, "agentAliasId": "TSTALIASID", "agentName": "waiting"}
    assert server.told["agents"] == [told]
    server.signal(number)
    code, log = server.end()
    assert (code, log) == (0, "")


@pytest.mark.parametrize("workers", sampled([1, 2]))
def test_a_running_turn_goes_on(
    start: Start, model: WaitingModel, tmp_path: Path, threads: ThreadPoolExecutor, workers: int
) -> None:
    kept = ("--state", tmp_path / "sessions.sqlite", "--workers", workers)
    options = ("--model", model.spec, "--shutdown-seconds", 60)
    server = start("--agents", write_agent(tmp_path), *options, *kept)
    events = invoke(server.url)
    told = threads.submit(text_of, events)
    assert model.asked.wait(60)
    server.signal()
    # It takes no more connections: whoever asks is refused, and does not wait.
    with pytest.raises((EndpointConnectionError, ConnectionClosedError)):
        for number in count(2):  # a turn that was left may still be ending
            try:
                invoke(server.url, session_id=f"s-{number}").close()
            except ClientError as error:  # the moment between the signal and that
                assert error.response["Error"]["Code"] == "ServiceUnavailableException"
    model.go.set()
    assert told.result(60) == "All is well."
    assert server.end()[0] == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", [1, 2])
def test_a_turn_that_is_not_done_in_time_is_left_for_the_next_process(
    start: Start, model: WaitingModel, tmp_path: Path, workers: int
) -> None:
    options = ("--agents", write_agent(tmp_path), "--model", model.spec)
    kept = ("--state", tmp_path / "sessions.sqlite")
    server = start(*options, *kept, "--workers", workers, "--shutdown-seconds", "0.2")
    events = invoke(server.url, "Is all well?")
    assert model.asked.wait(60)
    server.signal()
    with pytest.raises(EventStreamError, match="shutting down") as error:
        text_of(events)
    assert error.value.response["Error"]["Code"] == "internalServerException"
    assert server.end()[0] == 0
    model.go.set()
    again = start(*options, *kept)
    assert text_of(invoke(again.url, "Is all well?")) == "All is well."
    first, second = [asked.json["messages"] for asked in model.loopback.asked]
    assert first == second  # one question, not two


@pytest.mark.exhaustive
def test_a_second_interrupt_ends_at_once(
    start: Start, model: WaitingModel, tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    server = start("--agents", write_agent(tmp_path), "--model", model.spec)
    told = threads.submit(text_of, invoke(server.url))
    assert model.asked.wait(60)
    server.signal(signal.SIGINT)
    while not wait([told], timeout=0.05).done:  # until the first one was heard of
        server.signal(signal.SIGINT)
    with pytest.raises(EventStreamError, match="shutting down"):
        told.result()
    code, log = server.end()
    assert code == 0
    assert "Traceback" not in log


def test_a_server_in_a_thread_waits_as_well(
    model: WaitingModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(
        port=0, agents=write_agent(tmp_path), model=model.spec, shutdown_seconds=0.2
    )
    with ServerState(settings) as world:
        with serve_in_thread(world) as url:
            events = invoke(url)
            assert model.asked.wait(60)
        with pytest.raises(EventStreamError, match="shutting down"):
            text_of(events)
    # Its line with the status 200 does not say that the turn was left.
    assert "The server is shutting down. What the turn has done is kept" in caplog.text


def converse(url: str) -> str:
    with pytest.raises(ClientError) as error:
        client(url, "bedrock-runtime").converse(
            modelId="any", messages=[{"role": "user", "content": [{"text": "Hello"}]}]
        )
    return str(error.value.response["Error"]["Code"])


def test_a_server_that_has_answered_so_many_requests_as_it_may_ends_by_itself(
    threads: ThreadPoolExecutor,
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        server = FastStopServer(build_config(app, lifespan="off", limit_max_requests=1))
        running = threads.submit(server.run, sockets=[listening])
        with closing(http.client.HTTPConnection(*listening.getsockname(), timeout=60)) as asking:
            asking.request("GET", "/")
            assert asking.getresponse().status == 204
        try:
            running.result(60)
        finally:
            server.end()


@pytest.mark.exhaustive
def test_an_answer_in_one_piece_is_refused_when_it_is_not_there_in_time(
    start: Start, model: WaitingModel, threads: ThreadPoolExecutor
) -> None:
    server = start("--model", model.spec, "--shutdown-seconds", "0.2")
    told = threads.submit(converse, server.url)
    assert model.asked.wait(60)
    server.signal()
    assert told.result(60) == "ServiceUnavailableException"
    assert server.end()[0] == 0


class Endless(Model):
    """A model that never answers; it notes that it was asked, and that nobody waits any more."""

    model_id = "endless"

    def __init__(self) -> None:
        self.asked, self.stopped = threading.Event(), threading.Event()

    def complete(self, request: ModelRequest) -> ModelReply:
        raise AssertionError("a server does not block")

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        raise AssertionError("it was never set")


def test_a_client_that_goes_stops_what_was_asked_of_the_model() -> None:
    model = Endless()
    body = b'{"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}'
    with (
        ServerState(Settings(port=0), models={"*": model}) as world,
        serve_in_thread(world) as url,
    ):
        with closing(http.client.HTTPConnection(urlsplit(url).netloc)) as connection:
            connection.request("POST", "/model/any/converse", body)
            assert model.asked.wait(60)
            assert not model.stopped.is_set()
        assert model.stopped.wait(60)


@pytest.mark.parametrize("reads", [0, 1])
def test_events_that_nobody_has_read_yet_are_closed_at_once(reads: int) -> None:
    closed: list[bool] = []

    async def events() -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        try:
            while True:
                yield "chunk", {"bytes": b"x"}
        finally:
            closed.append(True)

    async def handler(request: Request) -> EventStream:
        stream = events()
        await anext(stream)
        return EventStream(stream)

    async def client() -> None:
        operations = {"bedrock-agent-runtime": {"InvokeAgent": handler}}
        watched = ActiveRequests(Sessions(), 60).limit_operations(operations)[
            "bedrock-agent-runtime"
        ]
        answer: Any = await watched["InvokeAgent"](Request("", "InvokeAgent", {}))
        for _ in range(reads):
            assert await anext(answer.events) == ("chunk", {"bytes": b"x"})
        await answer.events.aclose()
        assert closed == [True]

    asyncio.run(client())


@pytest.mark.parametrize("version", ["2.3", "2.4"])
def test_a_client_that_goes_before_the_first_byte_gives_the_session_back(
    tmp_path: Path, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    agents = write_agent(tmp_path)
    model = ScriptedModel(["<answer>All is well.</answer>"])
    body = b'{"inputText": "Hello"}'

    async def send(message: Any) -> None:
        raise OSError  # the connection is lost

    async def client(world: ServerState) -> None:
        app = application(world)
        answers = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            return next(answers, None) or await asyncio.Event().wait()

        path = f"/agents/{AGENT_ID}/agentAliases/TSTALIASID/sessions/s-1/text"
        await app(
            {
                "type": "http",
                "asgi": {"version": "3.0", "spec_version": version},
                "method": "POST",
                "path": path,
                "raw_path": path.encode(),
                "query_string": b"",
                "headers": [(b"host", b"127.0.0.1:8080"), (b"content-type", b"application/json")],
            },
            receive,
            send,
        )
        agent = world.agents.resolve_alias(Caller(), AGENT_ID, "TSTALIASID")
        assert (await agent.ainvoke("Hello", "s-1")).text == "All is well."

    with ServerState(Settings(agents=agents), models={"*": model}) as world:
        asyncio.run(client(world))
    assert not [it for it in caplog.records if it.levelname == "ERROR"]
