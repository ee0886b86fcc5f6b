"""Worker processes: they share what is kept, and one that dies is replaced."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from serving_support import Start, WaitingModel, client, invoke, text_of, write_agent
from waiting import until

from orchestrator.server import serving, supervisor
from orchestrator.server.settings import Settings


@pytest.mark.exhaustive
def test_a_killed_worker_is_replaced(start: Start, model: WaitingModel, tmp_path: Path) -> None:
    model.go.set()
    server = start(
        *("--agents", write_agent(tmp_path), "--model", model.spec),
        *("--state", tmp_path / "sessions.sqlite", "--workers", 2),
    )
    assert text_of(invoke(server.url, "One")) == "All is well."
    before = set(server.wait_for_workers(2))
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    # Connections wait in the socket, which the parent holds, until a new worker takes them.
    assert text_of(invoke(server.url, "Two")) == "All is well."
    until(lambda: len(set(server.workers()) - before) == 2)
    asked = [message["content"] for message in model.loopback.asked[-1].json["messages"]]
    assert "One" in str(asked) and "All is well." in str(asked)  # the session outlived them
    server.signal()
    code, log = server.end()
    assert code == 0
    assert all(
        f"worker process {worker} ended: it was killed by SIGKILL" in log for worker in before
    )


@pytest.mark.exhaustive
def test_while_workers_are_replaced_others_are_and_the_server_can_end(
    start: Start, model: WaitingModel, tmp_path: Path
) -> None:
    server = start(
        *("--agents", write_agent(tmp_path), "--model", model.spec, "--shutdown-seconds", 60),
        *("--state", tmp_path / "sessions.sqlite", "--workers", 2),
    )
    before = set(server.wait_for_workers(2))
    events = invoke(server.url)
    assert model.asked.wait(60)
    busy = server.worker_connected_to(urlsplit(model.loopback.url).port)
    server.signal(signal.SIGHUP)
    # It is told to end, and waits for its turn. What comes after it is not replaced until then.
    until(lambda: f"Terminated child process [{busy}]" in server.log)
    new = set(server.workers()) - before
    os.kill(min(new), signal.SIGKILL)
    until(lambda: len(set(server.workers()) - before - new) == 1)
    server.signal()
    until(lambda: server.workers() == [busy])
    model.go.set()
    assert text_of(events) == "All is well."
    assert server.end()[0] == 0


@pytest.mark.exhaustive
def test_a_new_worker_is_told_to_end_with_its_server(start: Start, tmp_path: Path) -> None:
    server = start(
        *("--agents", write_agent(tmp_path), "--model", "local", "--workers", 2),
        *("--state", tmp_path / "sessions.sqlite"),
    )
    before = set(server.wait_for_workers(2))
    server.signal(signal.SIGHUP)
    until(lambda: set(server.workers()) - before)
    (new,) = set(server.workers()) - before
    server.signal()
    code, log = server.end()
    assert code == 0
    # It is not killed: it may have begun a turn by then.
    assert f"Terminated child process [{new}]" in log


def test_a_worker_that_does_not_answer_is_named(caplog: pytest.LogCaptureFixture) -> None:
    worker = supervisor.Worker(uvicorn.Config("nowhere:app"), [])
    worker.process = SimpleNamespace(is_alive=lambda: True, pid=17, exitcode=None)
    assert worker.is_alive(0.5)
    assert not worker.is_alive(0)
    assert caplog.messages == ["worker process 17 has not answered for 0 seconds"]


def test_the_end_of_a_worker_ends_the_wait_for_its_answer() -> None:
    worker = supervisor.Worker(uvicorn.Config("nowhere:app"), [])
    worker.start()  # and ends, since there is no such application
    worker.join()
    assert worker.parent_conn.poll(0)
    assert not worker.ping()


def test_a_killed_worker_is_replaced_while_another_one_does_not_answer(
    start: Start, tmp_path: Path
) -> None:
    server = start("--state", tmp_path / "sessions.sqlite", "--workers", 2)
    client(server.url, "bedrock-agent").list_agents()
    mute, victim = sorted(server.wait_for_workers(2))
    os.kill(mute, signal.SIGSTOP)
    os.kill(victim, signal.SIGKILL)
    until(lambda: set(server.workers()) - {mute, victim})
    # It was not waited for, until it was killed as one that hangs.
    assert mute in server.workers()
    assert client(server.url, "bedrock-agent").list_agents()["agentSummaries"] == []
    os.kill(mute, signal.SIGCONT)
    server.signal()
    code, log = server.end()
    assert code == 0
    assert f"Child process [{victim}] died" in log
    assert f"Child process [{mute}] died" not in log


def test_a_worker_that_loads_a_model_is_given_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """To read a model's weights keeps all threads waiting, also the one that says it is alive."""
    given: list[Any] = []

    class Supervisor:
        processes = ()

        def __init__(self, config: Any, sockets: Any) -> None:
            given.append(config.timeout_worker_healthcheck)

        def run(self) -> None:
            pass

    monkeypatch.setattr(serving, "Supervisor", Supervisor)
    monkeypatch.setenv("ORCHESTRATOR_SERVER_SETTINGS", "")  # taken back after the test
    serving.serve(
        Settings(port=0, state=tmp_path / "sessions.sqlite", workers=2), lambda url, world: None
    )
    assert given == [60]


@pytest.mark.exhaustive
def test_workers_end_with_a_parent_that_was_killed(start: Start, tmp_path: Path) -> None:
    server = start("--state", tmp_path / "sessions.sqlite", "--workers", 2)
    client(server.url, "bedrock-agent").list_agents()
    workers = server.wait_for_workers(2)
    server.signal(signal.SIGKILL)
    until(lambda: not any(_runs(worker) for worker in workers))


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]
    except OSError:
        return False


@pytest.mark.exhaustive
def test_an_interrupt_of_the_whole_group(start: Start, model: WaitingModel, tmp_path: Path) -> None:
    """A terminal's Ctrl-C reaches the workers too, and lets running turns finish all the same."""
    server = start(
        *("--agents", write_agent(tmp_path), "--model", model.spec, "--shutdown-seconds", 60),
        *("--state", tmp_path / "sessions.sqlite", "--workers", 2),
    )
    server.wait_for_workers(2)
    events = invoke(server.url)
    assert model.asked.wait(60)
    server.signal_all(signal.SIGINT)
    server.wait_for_workers(1)  # the idle one has ended
    model.go.set()
    assert text_of(events) == "All is well."
    assert server.end()[0] == 0
