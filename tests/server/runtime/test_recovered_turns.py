"""A server goes on with turns that a stopped process has left, each for its tenant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import until
from whole_agents import NATIVE, answer

from orchestrator import Agent, DependencyFailed, Sessions, SQLiteStore, TurnLeft
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState

AGENT = f"""\
agentId: GREETER001
agentName: greeter
foundationModel: {NATIVE.model_id}
instruction: You greet people who come to the door of the house.
"""
KEYS = "- {tenant: ann, apiKey: canary-key-of-ann-77, allow: []}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "agents" / "greeter"
    home.mkdir(parents=True)
    (home / "agent.yaml").write_text(AGENT)
    (tmp_path / "keys.yaml").write_text(KEYS)
    (tmp_path / "keys.yaml").chmod(0o600)
    return tmp_path


def load(folder: Path, store: SQLiteStore, tenant: str, *script: Any) -> Agent:
    sessions = Sessions(store)
    agent = Agent.load(
        folder / "agents" / "greeter", model=NATIVE.model(list(script)), sessions=sessions
    )
    return agent.for_tenant(tenant)


def leave_turn(folder: Path, session: str, tenant: str = "") -> None:
    store = SQLiteStore(folder / "state.sqlite")
    events = load(folder, store, tenant, answer("Never.")).stream("Hello", session)
    next(events)
    with pytest.raises(TurnLeft):
        events.throw(TurnLeft())
    store.close()


def read_texts(folder: Path, session: str, tenant: str = "") -> list[str]:
    store = SQLiteStore(folder / "state.sqlite")
    try:
        return [turn.text for turn in load(folder, store, tenant).turns(session)]
    finally:
        store.close()


def serve(folder: Path, *script: Any, **settings: Any) -> Iterator[ServerState]:
    given = Settings(port=0, agents=folder / "agents", state=folder / "state.sqlite", **settings)
    with ServerState(given, models={"*": NATIVE.model(list(script))}) as state:
        state.recovery.patience = 0
        yield state


def test_what_was_left_is_gone_on_with_at_the_start(folder: Path) -> None:
    leave_turn(folder, "s-1")
    for state in serve(folder, answer("Hello again.")):
        with state.recovery.running():
            until(lambda: read_texts(folder, "s-1") == ["Hello again."])
        assert state.recovery.run_pass() == []


def test_a_client_may_ask_again_first(folder: Path) -> None:
    leave_turn(folder, "s-1")
    for state in serve(folder):
        state.recovery.patience = 3600
        assert state.recovery.run_pass() == []
    assert read_texts(folder, "s-1") == [""]


def test_each_turn_goes_on_for_its_tenant(folder: Path) -> None:
    leave_turn(folder, "s-1", "ann")
    leave_turn(folder, "s-1", "bob")  # who has no key any more
    for state in serve(folder, answer("Hello Ann."), keys=folder / "keys.yaml"):
        (turn,) = state.recovery.run_pass()
        assert (turn.session_id, turn.outcome) == ("s-1", "answer")
    assert read_texts(folder, "s-1", "ann") == ["Hello Ann."]
    assert read_texts(folder, "s-1", "bob") == [""]


def test_the_log_says_what_became_of_it_and_why(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leave_turn(folder, "s-1", "ann")
    for state in serve(folder, DependencyFailed("the model is away"), keys=folder / "keys.yaml"):
        state.recovery.run_pass()
    (line,) = [it.getMessage() for it in caplog.records if it.name == "orchestrator.server"]
    assert line == (
        "a turn of session 's-1' of the agent GREETER001/TSTALIASID and tenant 'ann' that a "
        "process had left came to: failure; the model is away"
    )


def test_a_turn_whose_agent_is_gone_stays(folder: Path) -> None:
    leave_turn(folder, "s-1")
    (folder / "agents" / "greeter" / "agent.yaml").write_text(
        AGENT.replace("GREETER001", "GREETER002")
    )
    for state in serve(folder):
        assert state.recovery.run_pass() == []
