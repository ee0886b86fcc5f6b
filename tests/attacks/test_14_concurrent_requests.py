"""Row 14: the same session, asked by many clients of the server at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from botocore.exceptions import ClientError
from runtime_servers import CLAUDE, Runtime, definition, running, says, write_agent

from orchestrator.models import Model, ModelReply, ModelRequest

CLIENTS = 12


class Held(Model):
    """Answers when all other clients have been told that the session is busy."""

    model_id = CLAUDE

    def __init__(self) -> None:
        self.calls = 0
        self.release = threading.Event()

    def complete(self, request: ModelRequest) -> ModelReply:
        self.calls += 1
        assert self.release.wait(60)
        return ModelReply([{"text": says("Only once.")}])


def test_one_wins_and_the_others_conflict(tmp_path: Path) -> None:
    write_agent(tmp_path / "agents" / "own", definition())
    model, refused = Held(), threading.Semaphore(0)

    def ask(server: Runtime) -> str:
        try:
            return str(server.invoke("Hi", "shared")["text"])
        except ClientError as error:
            refused.release()
            return str(error.response["Error"]["Code"])

    with running(model, tmp_path / "agents") as server, ThreadPoolExecutor(CLIENTS) as pool:
        answers = [pool.submit(ask, server) for _ in range(CLIENTS)]
        for _ in range(CLIENTS - 1):
            assert refused.acquire(timeout=60)
        model.release.set()
        told = sorted(answer.result() for answer in answers)
    assert told == ["ConflictException"] * (CLIENTS - 1) + ["Only once."]
    assert model.calls == 1
