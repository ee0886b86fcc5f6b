"""`request_id`: an invocation that is made again, because its answer was lost, is made once."""

from uuid import uuid4

import pytest

from orchestrator import Agent
from orchestrator.actions import ActionGroup, action
from orchestrator.errors import ModelOutputError, SessionConflict, ValidationError
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


def make(sessions, *replies, actions=()):
    groups = [ActionGroup("shop", actions=list(actions))] if actions else []
    model = ScriptedModel(list(replies), CLAUDE)
    instruction = "You help people who ask about orders of a shop."
    return Agent("shop", instruction, model, action_groups=groups, sessions=sessions)


def say(text):
    return f"<answer>{text}</answer>"


@pytest.mark.parametrize("store", [None, "sessions.sqlite"])
def test_the_stored_answer_is_given_whatever_came_after(tmp_path, store):
    agent = make(store and tmp_path / store, say("1"), say("2"))
    id = str(uuid4())
    first = agent.invoke("One?", "s-1", request_id=id)
    agent.invoke("Two?", "s-1")
    again = agent.invoke("One?", "s-1", request_id=id.upper())
    assert (again.text, again.trace) == ("1", first.trace)
    assert [turn.question for turn in agent.turns("s-1")] == ["One?", "Two?"]
    assert agent.turns("s-1")[0].id == id


def test_another_process_gives_the_stored_answer_too(tmp_path):
    file, id = tmp_path / "sessions.sqlite", str(uuid4())
    make(file, say("1")).invoke("One?", "s-1", request_id=id)
    assert make(file).invoke("One?", "s-1", request_id=id).text == "1"


def test_a_failure_is_the_answer_of_its_request():
    agent, id = make(None), str(uuid4())
    for _ in range(2):
        with pytest.raises(ModelOutputError, match="has 0 replies and was asked for reply 1"):
            agent.invoke("One?", "s-1", request_id=id)


def test_a_turn_that_waits_is_handed_over_again():
    @action(require_confirmation=True)
    def pay() -> str:
        """Pays."""
        return "paid"

    call = [{"toolUse": {"toolUseId": "t-1", "name": "shop__pay", "input": {}}}]
    agent, id = make(None, call, say("Paid."), actions=[pay]), str(uuid4())
    first = agent.invoke("Pay", "s-1", request_id=id).return_control
    second = agent.invoke("Pay", "s-1", request_id=id).return_control
    assert first.invocation_id == second.invocation_id
    assert agent.invoke("", "s-1", results=second.answer({"pay": True})).text == "Paid."
    assert agent.invoke("Pay", "s-1", request_id=id).text == "Paid."


def test_an_id_stands_for_one_question():
    agent, id = make(None, say("1")), str(uuid4())
    agent.invoke("One?", "s-1", request_id=id)
    with pytest.raises(SessionConflict, match="was used for another question"):
        agent.invoke("Two?", "s-1", request_id=id)
    with pytest.raises(ValidationError, match="request_id '1' is no UUID"):
        agent.invoke("Two?", "s-1", request_id="1")


def test_an_undone_turn_is_asked_again():
    agent, id = make(None, say("1"), say("2")), str(uuid4())
    agent.invoke("One?", "s-1", request_id=id)
    agent.undo_turn("s-1")
    assert agent.invoke("One?", "s-1", request_id=id).text == "2"
