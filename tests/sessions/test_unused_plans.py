"""What past prompts were made of goes with the last session that names it, and comes back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from typer.testing import CliRunner
from whole_agents import NATIVE, answer

from orchestrator import Agent, Sessions, SQLiteStore
from orchestrator.cli import app
from orchestrator.sessions.unused_plans import delete_unused_plans

HOUR = 3_600_000_000_000


def ask(asked: Agent, session: str) -> None:
    asked.invoke("Hi", session)


def build_agent(sessions: Sessions, instruction: str, replies: int = 1) -> Agent:
    model = NATIVE.model([answer("Hi.")] * replies)
    return Agent("greeter", instruction, model, sessions=sessions)


def prune(file: Path) -> Any:
    words = ["sessions", "prune", "--older-than=0s", "--state", str(file), "--yes", "--json"]
    return json.loads(CliRunner().invoke(app, words).stdout)


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


def test_a_process_that_still_has_the_agent_keeps_it_again(tmp_path: Path) -> None:
    file, now = tmp_path / "s.sqlite", [time.time_ns()]
    sessions = Sessions(SQLiteStore(file), clock=lambda: now[0])
    greeter = build_agent(sessions, "You greet.", 3)
    ask(greeter, "s-1")
    now[0] += HOUR // 2
    assert prune(file)["plans"] == 1
    store: Any = sessions.store
    ask(greeter, "s-2")
    assert list(store.list_plans()) == []
    now[0] += HOUR
    ask(greeter, "s-3")
    assert len(list(store.list_plans())) == 1
