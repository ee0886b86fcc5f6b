"""What is kept of a session, read turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_turns import roc_agent
from whole_agents import NATIVE, Calls, answer

from orchestrator import Agent, PastTurn, SessionConflict, Sessions, SQLiteStore, ValidationError
from orchestrator.errors import ThrottlingError
from orchestrator.testing import FakeClock, InMemoryStore, ScriptedModel

DAYS = NATIVE.calls(("vacations::get_days", {"employee": "E-1"}))
LIGHT = NATIVE.calls(("house::light", {"on": True}))


def made(store: Any, *script: Any, clock: FakeClock | None = None) -> Agent:
    sessions = Sessions(store, clock=clock or FakeClock())
    return roc_agent(NATIVE.model(list(script)), *Calls().groups(), sessions=sessions)


def told(turns: list[PastTurn]) -> list[tuple[str, str, str, bool]]:
    return [(turn.question, turn.text, turn.stop_reason, turn.new) for turn in turns]


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
def test_every_turn_is_there_with_its_trace(stored: bool, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db") if stored else InMemoryStore()
    clock = FakeClock()
    failing = ThrottlingError("slow down")
    script = [DAYS, answer("Twelve."), failing, answer("Hello."), answer("Hm."), LIGHT]
    asked = made(store, *script, clock=clock)
    replies = [asked.invoke("Days?", "s-1")]
    clock.advance(1)
    with pytest.raises(ThrottlingError) as failed:
        asked.invoke("Again?", "s-1")
    assert failed.value.reply is not None
    replies += [failed.value.reply, asked.invoke("Hi.", "s-1", end_session=True)]
    replies += [asked.invoke("Hm?", "s-1"), asked.invoke("Light.", "s-1")]
    turns = made(store).turns("s-1")
    assert told(turns) == [
        ("Days?", "Twelve.", "end_turn", False),
        ("Again?", "slow down", "failure", False),
        ("Hi.", "Hello.", "end_turn", False),
        ("Hm?", "Hm.", "end_turn", True),
        ("Light.", "", "return_control", False),
    ]
    assert turns[1].at - turns[0].at == 1_000_000_000
    # In any order; each as it was when the turn ran.
    for turn, reply in reversed(list(zip(turns, replies, strict=True))):
        assert turn.trace == reply.trace
        assert turn.trace is turn.trace


def test_a_turn_whose_process_stopped_is_told_as_far_as_it_went() -> None:
    store = InMemoryStore()
    made(store, DAYS, answer("Twelve.")).invoke("Days?", "s-1")
    (info,) = store.list()
    records = store.load(info.key)
    store.delete(info.key)
    store.append(info.key, 0, records[:-2], label=info.label)
    (turn,) = made(store).turns("s-1")
    assert told([turn]) == [("Days?", "", "interrupted", False)]
    assert "actionGroupInvocationOutput" in str(turn.trace[-1])


def test_records_that_name_no_model_have_a_trace() -> None:
    store = InMemoryStore()
    reply = made(store, DAYS, answer("Twelve.")).invoke("Days?", "s-1")
    (info,) = store.list()
    records = [
        {name: it for name, it in record.items() if name != "model"}
        for record in store.load(info.key)
    ]
    store.delete(info.key)
    store.append(info.key, 0, records, label=info.label)
    (turn,) = made(store).turns("s-1")
    assert turn.trace == reply.trace


def test_of_a_changed_agent_only_the_traces_are_missing() -> None:
    store = InMemoryStore()
    made(store, DAYS, answer("Twelve."), answer("Hi.")).invoke("Days?", "s-1")
    changed = roc_agent(NATIVE.model([]), sessions=store)  # without the vacations
    (turn,) = changed.turns("s-1")
    assert (turn.question, turn.text) == ("Days?", "Twelve.")
    with pytest.raises(SessionConflict, match="another version of this agent"):
        assert turn.trace


def test_a_session_that_never_was_has_no_turns() -> None:
    assert made(InMemoryStore()).turns("s-1") == []
    with pytest.raises(ValidationError):
        made(InMemoryStore()).turns("no/id")


def test_a_changed_agent_is_known_to_be_one(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    model = NATIVE.model([answer("Twelve.")])
    first = Agent("desk", "You answer the staff.", model, sessions=store)
    first.invoke("Days?", "s-1")
    same = Agent("desk", "You answer the staff.", NATIVE.model([]), sessions=store)
    other = Agent("desk", "You sing for the staff.", ScriptedModel([], "my-model"), sessions=store)
    assert [turn.has_changed for turn in same.turns("s-1")] == [False]
    (turn,) = other.turns("s-1")
    assert turn.has_changed
    sent = turn.trace[0]["trace"]["orchestrationTrace"]["modelInvocationInput"]
    assert sent["foundationModel"] == model.model_id
    assert [record["kind"] for record in turn.records] == ["turn", "model", "end"]
