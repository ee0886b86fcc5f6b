"""What tests of running servers share: servers in processes of their own, a model to wait for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from typing import Any

import boto3
from botocore.config import Config
from model_servers import Answer, Loopback, json_answer
from waiting import until

AGENT_ID, ALIAS_ID = "WAITINGONE", "TSTALIASID"
ANSWER = "<answer>All is well.</answer>"


def write_agent(folder: Path, model: str = "local") -> Path:
    """A folder of one agent."""
    own = folder / "agents" / "own"
    own.mkdir(parents=True)
    members = {
        "agentId": AGENT_ID,
        "agentName": "waiting",
        "foundationModel": model,
        "instruction": "You answer questions of all kinds, as well as you can.",
    }
    (own / "agent.yaml").write_text(json.dumps(members))
    return folder / "agents"


class WaitingModel:
    """A model behind OpenAI's API, which answers when it is let.

    Attributes:
        asked: Set when it was asked.
        go: What it waits for.
        spec: How it is named.
    """

    def __init__(self, loopback: Loopback) -> None:
        self.asked = Event()
        self.go = Event()
        self.loopback = loopback
        self.spec = f"openai:waiting@{loopback.url}/v1"
        loopback.answers[:] = [Answer(Pieces(self))]


class Pieces:
    """The answer, piece by piece, for every request anew."""

    def __init__(self, model: WaitingModel) -> None:
        self._model = model

    def __iter__(self) -> Iterator[bytes]:
        self._model.asked.set()
        assert self._model.go.wait(60)
        if not self._model.loopback.asked[-1].json.get("stream"):
            message = {"role": "assistant", "content": ANSWER}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            yield json.dumps({"id": "c", "choices": [choice]}).encode()
            return
        yield _piece({"delta": {"role": "assistant", "content": ANSWER}})
        yield _piece({"delta": {}, "finish_reason": "stop"})
        yield b"data: [DONE]\n\n"


def _piece(choice: dict[str, Any]) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, **choice}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


@contextmanager
def waiting_model() -> Iterator[WaitingModel]:
    with Loopback([json_answer({})]).running() as loopback:
        model = WaitingModel(loopback)
        try:
            yield model
        finally:
            model.go.set()


class Process:
    """`orchestrator serve` in a process of its own.

    Attributes:
        url: Where it serves.
        told: What it printed.
    """

    def __init__(self, *options: object) -> None:
        command = [sys.executable, "-m", "orchestrator", "serve", "--json", "--port", "0"]
        self._log = TemporaryFile()
        self._process = subprocess.Popen(
            [*command, *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        try:
            self.told = json.loads(self._process.stdout.readline())
        except BaseException:
            self.stop()
            raise
        self.url: str = self.told["url"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """As a terminal does: the process and its workers."""
        os.killpg(self._process.pid, number)

    def end(self) -> tuple[int, str]:
        """Waits for its end; the exit code and what it logged."""
        self._process.communicate(timeout=60)
        return self._process.returncode, self.log

    @property
    def log(self) -> str:
        """What it has logged so far."""
        descriptor = self._log.fileno()
        # Its processes write where this file's position is, so it is not to be moved.
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._log.close()

    def wait_for_workers(self, count: int) -> list[int]:
        """The ids of the worker processes, once there are so many."""
        until(lambda: len(self.workers()) == count)
        return self.workers()

    def workers(self) -> list[int]:
        """The ids of the worker processes."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
                command = (status.parent / "cmdline").read_bytes()
            except OSError:
                continue
            if int(fields[1]) == self.pid and fields[0] != "Z" and b"spawn_main" in command:
                found.append(int(status.parent.name))
        return found

    def worker_connected_to(self, port: int) -> int:
        """The id of the worker process that has a connection to a port of this machine."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        # Fields by proc(5): the remote address, the state (1: established), the inode.
        inodes = {one[9] for one in lines if one[2].endswith(f":{port:04X}") and one[3] == "01"}
        (found,) = (worker for worker in self.workers() if inodes & _sockets_of(worker))
        return found


def _sockets_of(process: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):  # it has just been closed
            found.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    return found


def client(url: str, service: str = "bedrock-agent-runtime", **config: Any) -> Any:
    """boto3's own client, which tries once."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(**{"retries": {"total_max_attempts": 1}, **config}),
    )


def invoke(url: str, text: str = "Hello", session_id: str = "s-1") -> Any:
    """The events of one turn, as they come."""
    answer = client(url).invoke_agent(
        agentId=AGENT_ID, agentAliasId=ALIAS_ID, sessionId=session_id, inputText=text
    )
    return answer["completion"]


def text_of(events: Any) -> str:
    """The text of a turn; its connection is closed, whatever comes."""
    with closing(events):
        return b"".join(event["chunk"]["bytes"] for event in events).decode()


Start = Callable[..., Process]


@contextmanager
def processes() -> Iterator[Start]:
    with ExitStack() as stack:

        def start(*options: object) -> Process:
            process = Process(*options)
            stack.callback(process.stop)
            return process

        yield start
