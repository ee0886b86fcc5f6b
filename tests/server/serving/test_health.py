"""Whoever runs a server asks it whether it lives, and whether it is ready."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from server_requests import Raw, send, write_keys
from serving_support import WaitingModel, invoke, text_of, write_agent
from waiting import until

from orchestrator.errors import DependencyFailed
from orchestrator.server import app, health
from orchestrator.server.active_requests import ActiveRequests
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

READY = {"sessions": "ok", "documents": "ok", "memory": "ok", "models": "ok", "agents": "ok"}
SECRET = "postgresql://admin:hunter2@10.0.0.7/agents"


@contextmanager
def serving(
    fresh: float = 0.0, seconds: float = 60.0, is_scripted: bool = True, **settings: Any
) -> Iterator[Any]:
    """A server, its state, and what its checks are."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        times = {"seconds": seconds, "fresh": fresh}
        patch.setattr(health.Readiness.__init__, "__kwdefaults__", times)
        models = {"*": ScriptedModel(["<answer>All is well.</answer>"])} if is_scripted else None
        state = stack.enter_context(ServerState(Settings(port=0, **settings), models=models))
        url = stack.enter_context(serve_in_thread(state))
        yield url, state, lambda path="/readyz": send(url, "GET", path)


def checks(answer: Raw) -> dict[str, str]:
    found: dict[str, str] = json.loads(answer.body)["checks"]
    return found


def test_a_server_that_can_serve_is_alive_and_ready(tmp_path: Path) -> None:
    with serving(state=tmp_path / "s.sqlite") as (_, _, ask):
        alive, ready = ask("/livez"), ask()
        assert (alive.status, alive.body) == (200, b'{"status": "alive"}')
        assert ready.status == 200
        assert json.loads(ready.body) == {"status": "ready", "checks": {"disk": "ok", **READY}}
        assert ready.headers["cache-control"] == "no-store"


def test_probes_need_no_key_and_have_no_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "orchestrator.server")
    with serving(keys=write_keys(tmp_path)) as (url, _, ask):
        assert [ask("/livez").status, ask().status] == [200, 200]
        assert send(url, "GET", "/v1/models").status == 401
        assert send(url, "POST", "/readyz").status == 403
    lines = [it.getMessage() for it in caplog.records if it.name.endswith("access")]
    assert [" ".join(line.split(" ")[:3]) for line in lines] == [
        "GET /v1/models 401",
        "POST /readyz 403",
    ]


def test_a_store_that_fails_is_named_and_its_error_stays_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(key: str) -> None:
        raise DependencyFailed(f"{SECRET} does not answer")

    with serving() as (_, state, ask):
        state.sessions.store.load, before = fail, state.sessions.store.load
        answer = ask()
        assert answer.status == 503
        assert json.loads(answer.body) == {
            "status": "not ready",
            "checks": {**READY, "sessions": "failed (DependencyFailed)"},
        }
        assert ask("/livez").status == 200
        assert SECRET not in str(answer.headers)
        assert SECRET in caplog.text and caplog.text.count("not ready") == 1
        assert ask().status == 503 and caplog.text.count("not ready") == 1
        state.sessions.store.load = before
        assert ask().status == 200


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_of_the_state_on_which_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    class FullFile(io.BytesIO):
        def write(self, content: object) -> int:
            raise OSError(number, os.strerror(number))

    with serving(state=tmp_path / "s.sqlite") as (_, _, ask):
        assert ask().status == 200  # it opens the files of the stores
        before = sorted(tmp_path.iterdir())
        assert ask().status == 200
        assert sorted(tmp_path.iterdir()) == before
        with monkeypatch.context() as patch:
            patch.setattr(health, "TemporaryFile", lambda dir: FullFile())
            answer = ask()
        assert answer.status == 503
        reason = f"nothing can be written ({os.strerror(number)})"
        assert checks(answer) == {"disk": reason, **READY}
        assert str(tmp_path) not in answer.body.decode()
        assert f"disk: {reason} to {str(tmp_path)!r}" in caplog.text
        assert ask().status == 200


def test_weights_that_are_missing(tmp_path: Path) -> None:
    agents = write_agent(tmp_path, "local:light")
    with serving(is_scripted=False, agents=agents) as (_, _, ask):
        answer = ask()
    assert answer.status == 503
    assert checks(answer)["models"] == "what 1 model is made of is not on this machine"
    assert str(tmp_path) not in answer.body.decode()


def test_agents_of_which_none_can_be_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agents = write_agent(tmp_path, "anthropic.claude-3-5-sonnet-20240620-v1:0")
    (folder,) = agents.iterdir()
    file = folder / "agent.yaml"
    right = file.read_text()
    # As when a flat copy of a folder has lost the folders inside it.
    lost = {"actionGroups": [{"actionGroupName": "orders", "apiSchema": {"file": "lost.yaml"}}]}
    file.write_text(json.dumps({**json.loads(right), **lost}))
    with serving(agents=agents) as (_, state, ask):
        answer = ask()
        assert answer.status == 503
        assert checks(answer) == {**READY, "agents": "of 1 agents none can be used"}
        assert "lost.yaml" in caplog.text
        # One that can be used is enough.
        (agents / "second").mkdir()
        second = {**json.loads(right), "agentName": "second", "agentId": "SECOND0001"}
        (agents / "second" / "agent.yaml").write_text(json.dumps(second))
        state.agents.folders.refresh()
        assert checks(ask()) == READY


def test_checks_that_hang_are_given_up_and_begun_once() -> None:
    begun, go = [], threading.Event()

    def hang(key: str) -> None:
        begun.append(key)
        assert go.wait(60)

    with serving(seconds=0.01) as (_, state, ask):
        state.sessions.store.load, before = hang, state.sessions.store.load
        for _ in range(3):
            answer = ask()
            assert answer.status == 503
            # On a busy machine the others may not have answered, either.
            assert checks(answer)["sessions"] == "no answer within 0.01 seconds"
        until(lambda: begun)  # its thread may be late
        state.sessions.store.load = before
        go.set()
        until(lambda: ask().status == 200)
        assert len(begun) == 1


def test_however_often_somebody_asks_the_checks_run_once() -> None:
    asked: list[str] = []
    with serving(fresh=600.0) as (_, state, ask), ThreadPoolExecutor(16) as threads:
        load: Callable[[str], Any] = state.sessions.store.load
        state.sessions.store.load = lambda key: [asked.append(key), load(key)]
        assert {it.status for it in threads.map(lambda _: ask(), range(64))} == {200}
    assert len(asked) == 1


def test_a_server_that_ends_is_not_ready_and_begins_nothing(
    model: WaitingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[ActiveRequests] = []

    class Watched(ActiveRequests):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            processes.append(self)

    monkeypatch.setattr(app, "ActiveRequests", Watched)
    settings = Settings(port=0, agents=write_agent(tmp_path), model=model.spec)
    with ServerState(settings) as state, serve_in_thread(state) as url:
        events = invoke(url)
        assert model.asked.wait(60)
        # As between the signal and the end of listening.
        processes[0].is_stopping = True
        ready, refused = send(url, "GET", "/readyz"), send(url, "GET", "/v1/models")
        alive = send(url, "GET", "/livez")
        model.go.set()
        assert text_of(events) == "All is well."
        processes[0].is_stopping = False
    assert (ready.status, checks(ready)) == (503, {"server": "shutting down"})
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert alive.status == 200
