"""Turns that are undone: the next turn begins as they did."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import (
    ActionGroup,
    Agent,
    ReturnControl,
    SessionConflict,
    Sessions,
    SQLiteStore,
    ValidationError,
)
from orchestrator.actions import ActionResult
from orchestrator.testing import FakeClock, InMemoryStore, ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


class List:
    """A list that people sign."""

    def call(self, call, context):
        return ActionResult(
            "signed", session_attributes={**context.session_attributes, "by": "Ana"}
        )


SIGN = [{"toolUse": {"toolUseId": "t-1", "name": "list__sign", "input": {}}}]
HAND = [{"toolUse": {"toolUseId": "t-2", "name": "shop__order", "input": {}}}]
SIGN_LIST = {"name": "sign", "description": "Sign.", "parameters": {}}
ORDER = {"name": "order", "description": "Order.", "parameters": {}}


def greeter(store, *replies):
    model = ScriptedModel(list(replies), CLAUDE)
    groups = [
        ActionGroup("list", functions=[SIGN_LIST], executor=List()),
        ActionGroup("shop", functions=[ORDER], executor=ReturnControl()),
    ]
    return Agent("greeter", "You greet people.", model, action_groups=groups, sessions=store), model


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path: Path):
    if request.param == "memory":
        yield InMemoryStore()
        return
    store = SQLiteStore(tmp_path / "s.sqlite")
    yield store
    store.close()


def questions(agent) -> list[str]:
    return [turn.question for turn in agent.turns("s-1")]


def test_the_next_turn_begins_as_the_undone_one_did(store) -> None:
    agent, model = greeter(store, "<answer>Hello Ana.", "<answer>No.", "<answer>Ana.")
    for question in ("I am Ana.", "Who am I?"):
        agent.invoke(question, "s-1")
    agent.undo_turn("s-1")
    assert agent.invoke("Who am I?", "s-1").text == "Ana."
    assert model.requests[2].messages == model.requests[1].messages
    assert [(turn.question, turn.text) for turn in agent.turns("s-1")] == [
        ("I am Ana.", "Hello Ana."),
        ("Who am I?", "Ana."),
    ]


def test_so_are_session_attributes(store) -> None:
    agent, _ = greeter(store, SIGN, "<answer>Signed.")
    agent.invoke("Sign", "s-1", session_attributes={"user": "u-1"})
    label = f"{agent.plan.owner}/s-1"
    assert agent.sessions.peek(label).attributes == {"user": "u-1", "by": "Ana"}
    agent.undo_turn("s-1")
    assert agent.sessions.peek(label).attributes == {}


def test_turns_are_undone_one_by_one_until_there_is_none(store) -> None:
    agent, _ = greeter(store, "<answer>One.", "<answer>Two.", "<answer>Three.")
    for question in ("1", "2", "3"):
        agent.invoke(question, "s-1")
    agent.undo_turn("s-1")
    agent.undo_turn("s-1")
    assert questions(agent) == ["1"]
    agent.undo_turn("s-1")
    with pytest.raises(ValidationError, match="'s-1' has no turn that can be undone"):
        agent.undo_turn("s-1")
    assert questions(agent) == []


def test_a_turn_that_waits_can_be_undone(store) -> None:
    agent, _ = greeter(store, HAND, "<answer>Hello.")
    results = agent.invoke("Order", "s-1").return_control.answer("done")
    agent.undo_turn("s-1")
    with pytest.raises(ValidationError, match="no call waits"):
        agent.invoke("", "s-1", results=results)
    assert agent.invoke("Hi", "s-1").text == "Hello."
    assert questions(agent) == ["Hi"]


def test_a_turn_that_runs_is_not_undone(store) -> None:
    agent, _ = greeter(store, "<answer>Hello.")
    stream = agent.stream("Hi", "s-1")
    next(stream)
    with pytest.raises(SessionConflict):
        agent.undo_turn("s-1")
    stream.close()


def test_what_was_said_before_the_end_of_a_session_is_not_undone(store) -> None:
    agent, _ = greeter(store, "<answer>Hello.")
    agent.invoke("Hi", "s-1")
    assert agent.turns("s-1")[0].current
    agent.end_session("s-1")
    assert not agent.turns("s-1")[0].current
    with pytest.raises(ValidationError, match="no turn that can be undone"):
        agent.undo_turn("s-1")
    assert questions(agent) == ["Hi"]


def test_a_session_that_was_idle_for_too_long_has_nothing_to_undo() -> None:
    clock = FakeClock()
    agent, _ = greeter(Sessions(clock=clock), "<answer>Hello.")
    agent.invoke("Hi", "s-1")
    clock.advance(1801)
    with pytest.raises(ValidationError, match="no turn that can be undone"):
        agent.undo_turn("s-1")


def test_a_session_is_not_idle_because_its_last_turn_was_undone() -> None:
    clock = FakeClock()
    agent, model = greeter(
        Sessions(clock=clock), "<answer>Hello Ana.", "<answer>What?", "<answer>Ana."
    )
    agent.invoke("I am Ana.", "s-1")
    clock.advance(1700)
    agent.invoke("Who am I?", "s-1")
    clock.advance(1700)
    agent.undo_turn("s-1")
    agent.invoke("Who am I?", "s-1")
    assert "I am Ana." in str(model.requests[2].messages)


def test_another_process_finds_the_turn_undone(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    ours, theirs = SQLiteStore(file), SQLiteStore(file)
    agent, model = greeter(ours, "<answer>Hello Ana.", "<answer>No.", "<answer>Ana.")
    agent.invoke("I am Ana.", "s-1")
    agent.invoke("Who is Bob?", "s-1")  # it stays decoded here
    other, _ = greeter(theirs)
    other.undo_turn("s-1")
    agent.invoke("Who am I?", "s-1")
    assert "Bob" not in str(model.requests[2].messages)
    ours.close()
    theirs.close()


def test_the_journal_keeps_what_was_undone(store) -> None:
    agent, _ = greeter(store, "<answer>Hello.")
    agent.invoke("Hi", "s-1")
    agent.undo_turn("s-1")
    key = agent.sessions.key(f"{agent.plan.owner}/s-1")
    kinds = [record["kind"] for record in store.load(key)]
    assert kinds == ["turn", "model", "end", "undone"]


@pytest.mark.parametrize("spoil", ["other", "ended"])
def test_a_record_that_undoes_no_last_turn_is_left_out(spoil: str) -> None:
    store = InMemoryStore()
    agent, _ = greeter(store, "<answer>Hello.")
    agent.invoke("Hi", "s-1")
    (turn,) = agent.turns("s-1")
    if spoil == "ended":
        agent.end_session("s-1")
    key = f"{agent.plan.owner}/s-1"
    id = turn.id if spoil == "ended" else "00000000-0000-4000-8000-000000000000"
    store.append(key, len(store.load(key)), [{"kind": "undone", "turn": id, "at": turn.at}])
    assert questions(greeter(store)[0]) == ["Hi"]
