"""Attack 11: session ids that would be paths. All valid ones are safe, and apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore_shapes import service
from hypothesis import given
from hypothesis import strategies as st
from whole_agents import XML, agent, answer

from orchestrator import SQLiteStore

SHAPE = service().operation_model("InvokeAgent").input_shape.members["sessionId"]
IDS = ["..", "...", "a:b", "CON", "NUL", "-.", "a..", "C:", "::", "x" * 100, "__proto__", "--"]


def test_the_pattern_is_awss() -> None:
    assert SHAPE.metadata == {"min": 2, "max": 100, "pattern": "^[0-9a-zA-Z._:-]+$"}


def test_ids_stay_in_the_store_and_apart(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "state"
    root.mkdir(parents=True)
    store = SQLiteStore(root / "sessions.db")
    model = XML.model([answer("Hi.")] * 2 * len(IDS))
    asked = agent(model, sessions=store)
    for session_id in IDS:
        asked.invoke(f"I am {session_id}", session_id)
    for session_id in IDS:
        asked.invoke("Who am I?", session_id)
        told = [m["content"][0]["text"] for m in model.requests[-1].messages]
        assert told[0] == f"I am {session_id}"
        assert len(told) == 3
    assert {info.label.rpartition("/")[2] for info in store.list()} == set(IDS)
    for info in list(store.list()):
        store.delete(info.key)
    assert list(store.list()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in root.parent.iterdir()] == ["state"]
    assert all(path.name.startswith("sessions.db") for path in root.iterdir())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> SQLiteStore:
    return SQLiteStore(tmp_path_factory.mktemp("state") / "sessions.db")


@given(session_id=st.from_regex(r"[0-9a-zA-Z._:-]{2,100}", fullmatch=True))
def test_any_valid_id(shared: SQLiteStore, session_id: str) -> None:
    model = XML.model([answer("Hi.")] * 2)
    asked = agent(model, sessions=shared)
    asked.invoke("Hi", session_id, end_session=False)
    asked.invoke("Hi", session_id, end_session=True)
    assert len(model.requests[0].messages) == 1
    assert len(model.requests[1].messages) == 3
    assert [path.name[:11] for path in shared.path.parent.iterdir()] == ["sessions.db"] * len(
        list(shared.path.parent.iterdir())
    )


def test_another_agent_s_session_of_the_same_id_is_another_one(tmp_path: Path) -> None:
    from orchestrator import Agent

    file = tmp_path / "sessions.db"
    for name in ("one", "two"):
        model = XML.model([answer("Hi.")])
        Agent(name, "You help.", model, sessions=file).invoke("Hi", "s-1")
        assert len(model.requests[0].messages) == 1
