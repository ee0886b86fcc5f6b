"""Forks: a turn goes on from one of its model calls, with other prompts, models or results."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from whole_agents import NATIVE, XML, Calls, Family, agent, answer

from orchestrator import Agent, Collaborator, SQLiteStore, ValidationError
from orchestrator.actions import ActionResult
from orchestrator.errors import ResourceNotFound
from orchestrator.testing import InMemoryStore

CALL = ("vacations::get_days", {"employee": "E-1"})
OTHER = '{"system": "OTHER $instruction$", "messages": [{"role": "user", "content": "$question$"}]}'
STORES = pytest.mark.parametrize("durable", [False, True], ids=["memory", "file"])


def store_of(tmp_path: Path, durable: bool) -> Any:
    return SQLiteStore(tmp_path / "s.db") if durable else InMemoryStore()


@cache
def second_turn(family: Family) -> tuple[Any, ...]:
    """Two calls and an answer; models give each call an id, so they are the same ones each time."""
    return family.calls(CALL), family.calls(CALL), answer("Twelve.")


def three_steps(family: Family, store: Any) -> tuple[Agent, Calls, list[Any]]:
    """An agent whose second turn calls twice and answers; what its models were asked then."""
    calls = Calls()
    model = family.model([answer("Hello."), *second_turn(family)])
    asked = agent(model, calls.groups(), sessions=store)
    asked.invoke("Hi.", "s-1")
    asked.invoke("How many?", "s-1", session_attributes={"who": "me"})
    return asked, calls, model.requests[1:]


@pytest.mark.parametrize("family", [NATIVE, XML], ids=lambda it: it.name)
@pytest.mark.parametrize("call", [1, 2, 3])
@STORES
def test_an_unchanged_fork_sends_the_same_prompts_and_repeats_nothing_before_it(
    family: Family, call: int, durable: bool, tmp_path: Path
) -> None:
    asked, calls, sent = three_steps(family, store_of(tmp_path, durable))
    before = [record.copy() for turn in asked.turns("s-1") for record in turn.records]
    model = family.model(list(second_turn(family)[call - 1 :]))
    again = asked.with_changes(model=model)
    made = len(calls.made)
    turn = asked.turns("s-1")[1]
    forked = again.fork("s-1", turn.id, call)
    assert forked == "s-1-fork-1"
    assert again.invoke("", forked).text == "Twelve."
    assert [(it.system, list(it.messages)) for it in model.requests] == [
        (it.system, list(it.messages)) for it in sent[call - 1 :]
    ]
    assert len(calls.made) - made == 3 - call
    new = asked.turns(forked)
    assert [it.question for it in new] == ["Hi.", "How many?"]
    assert new[1].fork_origin == {"session": "s-1", "turn": turn.id, "step": call}
    assert new[1].id != turn.id
    assert [record for turn in asked.turns("s-1") for record in turn.records] == before
    assert again.fork("s-1-fork-1", new[1].id, 1) == "s-1-fork-2"


@STORES
def test_a_fork_goes_on_with_other_prompts_models_and_results(
    durable: bool, tmp_path: Path
) -> None:
    asked, calls, _ = three_steps(NATIVE, store_of(tmp_path, durable))
    changed = asked.with_changes(
        prompts={"ORCHESTRATION": OTHER},
        instruction="You are brief.",
        model=(model := NATIVE.model([answer("Ninety.")])),
    )
    assert changed.plan.digest != asked.plan.digest
    turn = asked.turns("s-1")[1]
    changed.fork("s-1", turn.id, 3, new_session_id="what-if", results={2: "90"})
    assert changed.invoke("", "what-if").text == "Ninety."
    (request,) = model.requests
    assert request.system == "OTHER You are brief."
    texts = str(request.messages)
    assert "'90'" in texts
    assert "'12'" in texts
    assert len(calls.made) == 2
    # Each turn has the prompts that it was sent, where the store keeps them.
    assert changed.turns("what-if")[1].steps()[-1].prompt().system == request.system
    with pytest.raises(ValidationError, match="there is no result 3"):
        changed.fork("s-1", turn.id, 3, results={3: "no"})


def test_another_question_takes_the_place_of_a_turn(tmp_path: Path) -> None:
    asked, _, _ = three_steps(NATIVE, SQLiteStore(tmp_path / "s.db"))
    other = asked.with_changes(model=(model := NATIVE.model([answer("Fine."), answer("New.")])))
    first, second = asked.turns("s-1")
    forked = other.fork("s-1", second.id)
    assert other.invoke("How are you?", forked).text == "Fine."
    assert [it.question for it in other.turns(forked)] == ["Hi.", "How are you?"]
    assert len(model.requests[0].messages) == 3
    # Before the first turn there is nothing: the id is a new session's.
    assert other.invoke("Hello!", other.fork("s-1", first.id)).text == "New."


def test_what_cannot_be_a_fork_is_refused_with_the_way_out() -> None:
    asked, _, _ = three_steps(NATIVE, InMemoryStore())
    turn = asked.turns("s-1")[1].id
    with pytest.raises(ResourceNotFound, match="no turn 'x'"):
        asked.fork("s-1", "x", 1)
    with pytest.raises(ValidationError, match="has 3 model calls, and no call 4; give 1 to 3"):
        asked.fork("s-1", turn, 4)
    with pytest.raises(ValidationError, match="there is a session 's-1' already"):
        asked.fork("s-1", turn, 1, new_session_id="s-1")
    with pytest.raises(ValidationError, match="no stage 'ORCHESTRATE'"):
        asked.with_changes(prompts={"ORCHESTRATE": "x"})


def test_a_fork_goes_on_from_a_collaborators_call_while_another_one_works() -> None:
    calls = Calls()
    days = NATIVE.model([NATIVE.calls(CALL), answer("12"), answer("12, again")])
    other = NATIVE.model([answer("Nothing.")] * 2)
    sent = [
        ("AgentCommunication::sendMessage", {"recipient": name, "content": f"{name}?"})
        for name in ("days", "other")
    ]
    model = NATIVE.model([NATIVE.calls(*sent), answer("It is 12."), answer("Still 12.")])
    boss = Agent(
        "boss",
        "You lead others.",
        model,
        collaborators=[
            Collaborator(agent(days, calls.groups()), "For vacation days.", "days"),
            Collaborator(agent(other), "For all else.", "other"),
        ],
    )
    boss.invoke("How many?", "s-1")
    (turn,) = boss.turns("s-1")
    _, last = [it for it in turn.steps() if it.kind == "model" and it.team == "days"]
    forked = boss.fork("s-1", turn.id, last.call)
    assert boss.invoke("", forked).text == "Still 12."
    # The call before it was not made again, and whoever is asked again is asked the same.
    assert calls.made == [("get_days", {"employee": "E-1", "year": 2026})]
    first, second, again = days.requests
    assert (again, list(again.messages)) == (second, list(second.messages)) != first
    assert all(it == other.requests[0] for it in other.requests)
    assert "12, again" in str(model.requests[2].messages)
    assert [it.text for it in boss.turns("s-1")] == ["It is 12."]
    changed = boss.with_changes(model=NATIVE.model([answer("Again 12.")]))
    end = turn.steps()[-1]
    assert (end.kind, end.team) == ("model", "")
    assert changed.invoke("", changed.fork("s-1", turn.id, end.call)).text == "Again 12."


def test_executors_are_exchanged_and_prompts_are_not() -> None:
    class Recorded:
        def call(self, call: Any, context: Any) -> ActionResult:
            return ActionResult(f"recorded {call.operation.name}")

    asked, calls, sent = three_steps(NATIVE, InMemoryStore())
    model = NATIVE.model([NATIVE.calls(CALL), answer("Done.")])
    other = asked.with_changes(model=model).with_executors(lambda executor: Recorded())
    assert other.plan.digest == asked.plan.digest
    other.invoke("", other.fork("s-1", asked.turns("s-1")[1].id, 1))
    assert len(calls.made) == 2
    assert "recorded get_days" in str(model.requests[1].messages)
    assert list(model.requests[0].messages) == list(sent[0].messages)


@STORES
def test_turns_that_were_undone_are_in_no_fork(durable: bool, tmp_path: Path) -> None:
    model = NATIVE.model([answer("One."), answer("Two."), answer("Three."), answer("Four.")])
    asked = agent(model, sessions=store_of(tmp_path, durable))
    asked.invoke("One?", "s-1")
    asked.invoke("Two?", "s-1")
    asked.undo_turn("s-1")
    asked.invoke("Three?", "s-1")
    forked = asked.fork("s-1", asked.turns("s-1")[1].id, 1)
    assert asked.invoke("", forked).text == "Four."
    assert [it.question for it in asked.turns(forked)] == ["One?", "Three?"]
    assert list(model.requests[3].messages) == list(model.requests[2].messages)
