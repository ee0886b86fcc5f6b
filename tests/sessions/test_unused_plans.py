"""What past prompts were made of goes with the last session that names it, and comes back."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from whole_agents import NATIVE, answer

from orchestrator import Agent, Sessions, SQLiteStore
from orchestrator.cli import app
from orchestrator.sessions import session_label, unused_plans
from orchestrator.sessions.unused_plans import delete_unused_plans

HOUR = 3_600_000_000_000


def ask(asked: Agent, session: str) -> None:
    asked.invoke("Hi", session)


def build_agent(sessions: Sessions, instruction: str, replies: int = 1) -> Agent:
    model = NATIVE.model([answer("Hi.")] * replies)
    return Agent("greeter", instruction, model, sessions=sessions)


def label(agent: Agent, session: str) -> str:
    return session_label(agent.plan.owner, session)


def prune(file: Path) -> Any:
    words = ["sessions", "prune", "--older-than=0s", "--state", str(file), "--yes", "--json"]
    return json.loads(CliRunner().invoke(app, words).stdout)


@pytest.fixture
def in_two_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nobody had kept a snapshot for two hours."""
    monkeypatch.setattr(unused_plans, "IDLE_SECONDS", 0.0)


@pytest.mark.usefixtures("in_two_hours")
def test_it_goes_with_the_last_session_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    sessions = Sessions(SQLiteStore(file))
    for number, instruction in enumerate(("You greet.", "You greet.", "You thank.")):
        ask(build_agent(sessions, instruction), f"s-{number}")
    store: Any = sessions.store
    assert len(list(store.list_plans())) == 2
    by_label = {it.label.rpartition("/")[2]: it for it in store.list()}
    kept = {it.key: store.load(it.key) for it in by_label.values()}
    for name in ("s-0", "s-2"):
        store.delete(by_label[name].key)
    assert delete_unused_plans(store) == 1
    (digest,) = store.list_plans()
    assert digest == kept[by_label["s-1"].key][0]["plan"]
    assert prune(file)["plans"] == 1 and list(store.list_plans()) == []


def test_what_a_process_may_name_again_stays(tmp_path: Path) -> None:
    """The process begins a turn right after its last session was pruned, and then it ends."""
    file = tmp_path / "s.sqlite"
    sessions = Sessions(SQLiteStore(file))
    greeter = build_agent(sessions, "You greet.", 2)
    ask(greeter, "s-1")
    assert prune(file) == {"deleted": [label(greeter, "s-1")], "plans": 0}
    ask(greeter, "s-2")
    later = build_agent(Sessions(SQLiteStore(file)), "You thank.")
    (turn,) = later.turns("s-2")
    assert (turn.has_changed, turn.has_todays_prompts) == (True, False)
    assert "You greet." in str(turn.steps()[0].prompt().system)


@pytest.mark.parametrize("session", ["s-1", "s-2"])
def test_it_is_kept_again_every_hour(tmp_path: Path, session: str) -> None:
    """In a session that the process has read before, and in another one."""
    now = [time.time_ns()]
    sessions = Sessions(SQLiteStore(tmp_path / "s.sqlite"), clock=lambda: now[0])
    greeter = build_agent(sessions, "You greet.", 3)
    ask(greeter, "s-1")
    store: Any = sessions.store
    (digest,) = store.list_plans()
    assert store.delete_plan(digest, 0.0)
    for passed, kept in ((HOUR // 2, []), (HOUR, [digest])):
        now[0] += passed
        ask(greeter, session)
        assert list(store.list_plans()) == kept


def test_an_event_loop_does_not_keep_it_again_itself(tmp_path: Path) -> None:
    class Noting(SQLiteStore):
        def save_plan(self, digest: str, text: str) -> None:
            writers.append(threading.current_thread())
            super().save_plan(digest, text)

    async def main() -> None:
        for passed in (0, 1, HOUR):
            now[0] += passed
            await greeter.ainvoke("Hi", "s-1")

    now, writers = [time.time_ns()], list[threading.Thread]()
    sessions = Sessions(Noting(tmp_path / "s.sqlite"), clock=lambda: now[0])
    greeter = build_agent(sessions, "You greet.", 3)
    asyncio.run(main())
    assert len(writers) == 2 and threading.current_thread() not in writers
