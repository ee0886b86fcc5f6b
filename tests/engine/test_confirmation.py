"""User confirmation: calls that the user must allow, carried out here or by the caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_turns import HOUSE, results_of, roc_agent
from whole_agents import BOTH, NATIVE, Family, agent, answer

from orchestrator import (
    ActionGroup,
    Agent,
    LambdaHandler,
    ReturnControl,
    SQLiteStore,
    ValidationError,
    action,
)

DENIED = "The user did not confirm this call; it was not carried out."
HANDLER = """
import json, os

def lambda_handler(event, context):
    with open(os.environ["DONE"], "a") as file:
        file.write(event["function"] + " " + event["parameters"][0]["value"] + chr(10))
    body = {"TEXT": {"body": "done"}}
    response = {"actionGroup": event["actionGroup"], "function": event["function"],
                "functionResponse": {"responseBody": body}}
    return {"messageVersion": "1.0", "response": response}
"""
CONFIRMED = [{**one, "requireConfirmation": "ENABLED"} for one in HOUSE]
DOOR = ("house::open_door", {"door": "front"})
GARAGE = ("house::open_door", {"door": "garage"})


class House:
    """An agent whose group is a Lambda handler that writes down what it did."""

    def __init__(self, folder: Path) -> None:
        (folder / "handler.py").write_text(HANDLER)
        self.done = folder / "done.txt"
        self.done.touch()
        executor = LambdaHandler(folder / "handler.py", environment={"DONE": str(self.done)})
        self.groups = [ActionGroup("house", functions=CONFIRMED, executor=executor)]

    def carried_out(self) -> list[str]:
        return self.done.read_text().splitlines()


def control_of(agent: Agent, session_id: str = "s-1") -> Any:
    return agent.invoke("Open, please.", session_id).return_control


@BOTH
def test_a_lambda_call_waits_for_confirmation_and_is_carried_out_once(
    family: Family, tmp_path: Path
) -> None:
    house = House(tmp_path)
    model = family.model([family.calls(DOOR), answer("It is open.")])
    asked = agent(model, house.groups)
    control = control_of(asked)
    ((kind, call),) = control.invocation_inputs[0].items()
    assert (kind, call["actionInvocationType"]) == ("functionInvocationInput", "USER_CONFIRMATION")
    assert house.carried_out() == []
    results = control.answer({"open_door": True})
    assert results["returnControlInvocationResults"] == [
        {
            "functionResult": {
                "actionGroup": "house",
                "function": "open_door",
                "confirmationState": "CONFIRM",
            }
        }
    ]
    assert asked.invoke(session_id="s-1", results=results).text == "It is open."
    assert house.carried_out() == ["open_door front"]
    assert results_of(model.requests[1]) == ["done"]
    assert asked.invoke(session_id="s-1", results=results).text == "It is open."
    assert house.carried_out() == ["open_door front"]


@BOTH
def test_a_denied_call_is_not_carried_out_and_the_model_is_told(
    family: Family, tmp_path: Path
) -> None:
    house = House(tmp_path)
    model = family.model([family.calls(DOOR), answer("As you wish.")])
    asked = agent(model, house.groups)
    reply = asked.invoke(session_id="s-1", results=control_of(asked).answer(False))
    assert reply.text == "As you wish."
    assert house.carried_out() == []
    assert results_of(model.requests[1]) == [DENIED]


def test_some_calls_are_confirmed_and_others_denied(tmp_path: Path) -> None:
    house = House(tmp_path)
    model = NATIVE.model([NATIVE.calls(DOOR, GARAGE), answer("Half.")])
    asked = agent(model, house.groups)
    asked.invoke(session_id="s-1", results=control_of(asked).answer({"open_door": [False, True]}))
    assert house.carried_out() == ["open_door garage"]
    assert results_of(model.requests[1]) == [DENIED, "done"]


def test_a_body_beside_the_confirmation_does_not_replace_the_action(tmp_path: Path) -> None:
    # AWS's own samples send `responseBody: {TEXT: {body: ""}}` along.
    house = House(tmp_path)
    model = NATIVE.model([NATIVE.calls(DOOR), answer("Open.")])
    asked = agent(model, house.groups)
    results = control_of(asked).answer(True)
    (one,) = results["returnControlInvocationResults"]
    one["functionResult"]["responseBody"] = {"TEXT": {"body": ""}}
    asked.invoke(session_id="s-1", results=results)
    assert house.carried_out() == ["open_door front"]
    assert results_of(model.requests[1]) == ["done"]


def test_nothing_is_carried_out_without_a_confirmation(tmp_path: Path) -> None:
    house = House(tmp_path)
    model = NATIVE.model([NATIVE.calls(DOOR), answer("Open.")])
    asked = agent(model, house.groups)
    control = control_of(asked)
    with pytest.raises(ValidationError, match="True or False"):
        control.answer({"open_door": "yes, do it"})
    results = control.answer(True)
    del results["returnControlInvocationResults"][0]["functionResult"]["confirmationState"]
    with pytest.raises(ValidationError, match="'CONFIRM' or 'DENY'"):
        asked.invoke(session_id="s-1", results=results)
    assert house.carried_out() == []
    assert asked.invoke(session_id="s-1", results=control.answer(True)).text == "Open."


@BOTH
def test_a_call_of_the_callers_is_confirmed_by_its_result(family: Family) -> None:
    model = family.model([family.calls(DOOR), answer("Open.")])
    groups = [ActionGroup("house", functions=CONFIRMED, executor=ReturnControl())]
    asked = agent(model, groups)
    control = control_of(asked)
    call = control.invocation_inputs[0]["functionInvocationInput"]
    assert call["actionInvocationType"] == "USER_CONFIRMATION_AND_RESULT"
    results = control.answer({"open_door": "opened by hand"})
    (one,) = results["returnControlInvocationResults"]
    assert one["functionResult"] == {
        "actionGroup": "house",
        "function": "open_door",
        "confirmationState": "CONFIRM",
        "responseBody": {"TEXT": {"body": "opened by hand"}},
    }
    asked.invoke(session_id="s-1", results=results)
    assert results_of(model.requests[1]) == ["opened by hand"]


def test_a_call_of_the_callers_can_be_denied() -> None:
    model = NATIVE.model([NATIVE.calls(DOOR), answer("Closed.")])
    groups = [ActionGroup("house", functions=CONFIRMED, executor=ReturnControl())]
    asked = agent(model, groups)
    results = control_of(asked).answer(False)
    (one,) = results["returnControlInvocationResults"]
    assert one["functionResult"]["confirmationState"] == "DENY"
    assert "responseBody" not in one["functionResult"]
    asked.invoke(session_id="s-1", results=results)
    assert results_of(model.requests[1]) == [DENIED]


def test_a_bool_is_data_where_nobody_asks_for_confirmation() -> None:
    model = NATIVE.model([NATIVE.calls(DOOR), answer("Open.")])
    asked = roc_agent(model)
    asked.invoke(session_id="s-1", results=control_of(asked).answer(False))
    assert results_of(model.requests[1]) == ["false"]


def test_a_python_action_asks_for_confirmation() -> None:
    done: list[str] = []

    @action(require_confirmation=True)
    def delete(name: str) -> str:
        """Deletes a file."""
        done.append(name)
        return f"{name} is gone"

    model = NATIVE.model([NATIVE.calls(("files::delete", {"name": "a.txt"})), answer("Gone.")])
    asked = agent(model, [ActionGroup("files", [delete])])
    control = control_of(asked)
    assert done == []
    assert asked.invoke(session_id="s-1", results=control.answer(True)).text == "Gone."
    assert done == ["a.txt"]
    assert results_of(model.requests[1]) == ["a.txt is gone"]


def test_an_api_operation_asks_for_confirmation() -> None:
    responses = {"200": {"description": "done"}}
    operation = {
        "operationId": "wipe",
        "description": "Wipes all.",
        "x-requireConfirmation": "ENABLED",
        "responses": responses,
    }
    schema = {
        "openapi": "3.0.0",
        "info": {"title": "disk", "version": "1"},
        "paths": {"/wipe": {"post": operation}},
    }
    model = NATIVE.model([NATIVE.calls(("POST::disk::/wipe", {})), answer("No.")])
    asked = agent(model, [ActionGroup("disk", api_schema=schema, executor=ReturnControl())])
    control = control_of(asked)
    call = control.invocation_inputs[0]["apiInvocationInput"]
    assert call["actionInvocationType"] == "USER_CONFIRMATION_AND_RESULT"
    results = control.answer({"/wipe": False})
    assert results["returnControlInvocationResults"] == [
        {
            "apiResult": {
                "actionGroup": "disk",
                "apiPath": "/wipe",
                "httpMethod": "POST",
                "confirmationState": "DENY",
            }
        }
    ]
    assert asked.invoke(session_id="s-1", results=results).text == "No."


def test_confirmed_calls_are_journaled_with_their_intent(tmp_path: Path) -> None:
    house = House(tmp_path)
    store = SQLiteStore(tmp_path / "sessions.db")
    model = NATIVE.model([NATIVE.calls(DOOR), answer("Open.")])
    asked = agent(model, house.groups, sessions=store)
    asked.invoke(session_id="s-1", results=control_of(asked).answer(True))
    (info,) = store.list()
    assert [record["kind"] for record in store.load(info.key)] == [
        "turn",
        "model",
        "suspend",
        "returned",
        "intent",
        "action",
        "model",
        "end",
    ]
    store.close()


def test_the_turn_goes_on_with_what_was_confirmed_in_another_process(tmp_path: Path) -> None:
    house = House(tmp_path)
    path = tmp_path / "sessions.db"
    first = agent(NATIVE.model([NATIVE.calls(DOOR)]), house.groups, sessions=path)
    results = control_of(first).answer(True)
    second = agent(NATIVE.model([answer("Open.")]), house.groups, sessions=path)
    assert second.invoke(session_id="s-1", results=results).text == "Open."
    assert house.carried_out() == ["open_door front"]
    # The first knows of it, too.
    assert first.invoke(session_id="s-1", results=results).text == "Open."
    assert house.carried_out() == ["open_door front"]
