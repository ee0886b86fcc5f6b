"""Return of control: calls are handed to the caller, whose results go on with the turn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_turns import CLOCK, HOUSE, results_of, roc_agent, told
from whole_agents import BOTH, NATIVE, Calls, Family, agent, answer

from orchestrator import (
    ActionGroup,
    DependencyFailed,
    ReturnControl,
    SessionConflict,
    Sessions,
    SQLiteStore,
    ValidationError,
)
from orchestrator.testing import FakeClock, InMemoryStore, ScriptedModel

DOOR = ("house::open_door", {"door": "front"})
GARAGE = ("house::open_door", {"door": "garage"})
LIGHT = ("house::light", {"on": True})
CLAIM = ("GET::claims::/claims/{id}", {"id": "c-7"})
REMIND = ("POST::claims::/claims/{id}", {"id": "c-7", "text": "please"})


@BOTH
def test_a_function_is_handed_over_in_bedrocks_shape(family: Family) -> None:
    agent = roc_agent(family.model([family.calls(LIGHT)]))
    reply = agent.invoke("Light, please.", "s-1")
    control = reply.return_control
    assert control is not None
    assert (reply.text, reply.stop_reason) == ("", "return_control")
    assert control.invocation_inputs == [
        {
            "functionInvocationInput": {
                "actionGroup": "house",
                "function": "light",
                "parameters": [{"name": "on", "type": "boolean", "value": "true"}],
                "actionInvocationType": "RESULT",
                "agentId": agent.plan.agent_id,
            }
        }
    ]


@BOTH
def test_an_api_operation_is_handed_over_in_bedrocks_shape(family: Family) -> None:
    agent = roc_agent(family.model([family.calls(REMIND)]))
    control = agent.invoke("Remind them.", "s-1").return_control
    assert control is not None
    assert control.invocation_inputs == [
        {
            "apiInvocationInput": {
                "actionGroup": "claims",
                "apiPath": "/claims/{id}",
                "httpMethod": "POST",
                "parameters": [{"name": "id", "type": "string", "value": "c-7"}],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "properties": [{"name": "text", "type": "string", "value": "please"}]
                        }
                    }
                },
                "actionInvocationType": "RESULT",
                "agentId": agent.plan.agent_id,
            }
        }
    ]


@BOTH
def test_results_go_on_with_the_turn(family: Family) -> None:
    model = family.model([family.calls(LIGHT, CLAIM), answer("Both done.")])
    agent = roc_agent(model)
    control = agent.invoke("Do both.", "s-1").return_control
    assert control is not None
    results = control.answer({"light": "It is on.", "/claims/{id}": {"status": "open"}})
    assert results == {
        "invocationId": control.invocation_id,
        "returnControlInvocationResults": [
            {
                "functionResult": {
                    "actionGroup": "house",
                    "function": "light",
                    "responseBody": {"TEXT": {"body": "It is on."}},
                }
            },
            {
                "apiResult": {
                    "actionGroup": "claims",
                    "apiPath": "/claims/{id}",
                    "httpMethod": "GET",
                    "responseBody": {"application/json": {"body": '{"status": "open"}'}},
                }
            },
        ],
    }
    reply = agent.invoke(session_id="s-1", results=results)
    assert (reply.text, reply.stop_reason, reply.return_control) == ("Both done.", "end_turn", None)
    assert results_of(model.requests[1]) == ["It is on.", '{"status": "open"}']


@BOTH
def test_the_question_is_ignored_when_results_are_given(family: Family) -> None:
    model = family.model([family.calls(LIGHT), answer("On.")])
    agent = roc_agent(model)
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    assert agent.invoke("Something else", "s-1", results=control.answer("on")).text == "On."
    assert "Something else" not in json.dumps(model.requests[1].messages)


def test_results_in_another_order_find_their_calls() -> None:
    model = NATIVE.model([NATIVE.calls(LIGHT, CLAIM), answer("Done.")])
    agent = roc_agent(model)
    control = agent.invoke("Do both.", "s-1").return_control
    assert control is not None
    results = control.answer({"light": "on", "/claims/{id}": "open"})
    results["returnControlInvocationResults"].reverse()
    agent.invoke(session_id="s-1", results=results)
    assert results_of(model.requests[1]) == ["on", "open"]


def test_calls_of_one_name_take_a_list_in_their_order() -> None:
    model = NATIVE.model([NATIVE.calls(DOOR, LIGHT, GARAGE), answer("Done.")])
    agent = roc_agent(model)
    control = agent.invoke("Open everything.", "s-1").return_control
    assert control is not None
    results = control.answer({"open_door": ["front is open", ["garage", "jams"]], "light": [1]})
    agent.invoke(session_id="s-1", results=results)
    # A list for a call that is alone is JSON data.
    assert results_of(model.requests[1]) == ["front is open", "[1]", '["garage", "jams"]']


@pytest.mark.parametrize(
    ("results", "complaint"),
    [
        ("one text", "3 calls wait"),
        ({"open_door": "one", "light": "on"}, "2 calls of 'open_door'"),
        ({"open_door": ["one"], "light": "on"}, "give a list of 2"),
        ({"open_door": ["a", "b", "c"], "light": "on"}, "give a list of 2"),
        ({"open_door": ["a", "b"]}, "missing: ['light']"),
        ({"open_door": ["a", "b"], "light": "on", "bell": ""}, "unknown: ['bell']"),
        ({}, "missing: ['light', 'open_door']"),
    ],
)
def test_answers_that_fit_no_call_are_refused(results: Any, complaint: str) -> None:
    agent = roc_agent(NATIVE.model([NATIVE.calls(DOOR, LIGHT, GARAGE)]))
    control = agent.invoke("Open everything.", "s-1").return_control
    assert control is not None
    with pytest.raises(ValidationError) as refused:
        control.answer(results)
    assert complaint in refused.value.message


@BOTH
def test_calls_with_an_executor_are_carried_out_before_the_others_are_handed_over(
    family: Family,
) -> None:
    calls = Calls("12")
    days = ("vacations::get_days", {"employee": "E-1"})
    model = family.model([family.calls(LIGHT, days), answer("Done.")])
    agent = roc_agent(model, *calls.groups())
    control = agent.invoke("Light, and my days.", "s-1").return_control
    assert control is not None
    assert [member for item in control.invocation_inputs for member in item] == [
        "functionInvocationInput"
    ]
    assert calls.made == [("get_days", {"employee": "E-1", "year": 2026})]
    reply = agent.invoke(session_id="s-1", results=control.answer("on"))
    assert reply.text == "Done."
    assert results_of(model.requests[1]) == ["on", "12"]  # the order of the model's calls
    assert len(calls.made) == 1


@BOTH
def test_a_reprompt_goes_to_the_model_as_a_mistake(family: Family) -> None:
    model = family.model([family.calls(LIGHT), answer("No light.")])
    agent = roc_agent(model)
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    results = control.answer("Say which light.")
    results["returnControlInvocationResults"][0]["functionResult"]["responseState"] = "REPROMPT"
    assert agent.invoke(session_id="s-1", results=results).text == "No light."
    last = model.requests[1].messages[-1]["content"][0]
    if family.native:
        assert last["toolResult"]["status"] == "error"
    else:
        assert "<error>" in last["text"]
    assert results_of(model.requests[1]) == ["Say which light."]


def test_a_failure_ends_the_turn() -> None:
    model = NATIVE.model([NATIVE.calls(LIGHT), answer("Next.")])
    agent = roc_agent(model)
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    results = control.answer("the fuse is gone")
    results["returnControlInvocationResults"][0]["functionResult"]["responseState"] = "FAILURE"
    with pytest.raises(DependencyFailed) as failed:
        agent.invoke(session_id="s-1", results=results)
    assert failed.value.resource == "house::light"
    assert failed.value.reply is not None
    assert failed.value.reply.stop_reason == "failure"
    assert len(model.requests) == 1
    assert agent.invoke("And now?", "s-1").text == "Next."


@pytest.mark.parametrize("ends_by_itself", [False, True])
def test_the_same_results_get_the_same_reply_after_the_sessions_end(ends_by_itself: bool) -> None:
    store = InMemoryStore()
    model = NATIVE.model([NATIVE.calls(LIGHT), answer("It is on."), answer("Hello.")])
    agent = roc_agent(model, sessions=Sessions(store))
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    results = control.answer("on")
    first = agent.invoke(session_id="s-1", results=results, end_session=not ends_by_itself)
    if ends_by_itself:
        agent.end_session("s-1")
    later = roc_agent(model, sessions=Sessions(store))  # as in another process
    again = later.invoke(session_id="s-1", results=results, end_session=True)
    assert told(again) == told(first)
    with pytest.raises(ValidationError, match="no call waits"):
        later.invoke(session_id="s-1", results=control.answer("off"))
    later.invoke("Hi.", "s-1")
    assert len(model.requests) == 3
    assert len(model.requests[2].messages) == 1


@BOTH
def test_later_turns_know_what_the_caller_did_beside_a_failure(family: Family) -> None:
    model = family.model([family.calls(LIGHT, DOOR), answer("Next.")])
    agent = roc_agent(model)
    control = agent.invoke("Both, please.", "s-1").return_control
    assert control is not None
    results = control.answer({"light": "the fuse is gone", "open_door": "It is open."})
    light, _ = results["returnControlInvocationResults"]
    light["functionResult"]["responseState"] = "FAILURE"
    with pytest.raises(DependencyFailed, match="house::light"):
        agent.invoke(session_id="s-1", results=results)
    agent.invoke("And now?", "s-1")
    told_later = json.dumps(model.requests[1].messages)
    assert "It is open." in told_later
    assert "The action failed." in told_later and "the fuse is gone" not in told_later


def test_a_result_that_is_too_large_is_not_shown() -> None:
    from orchestrator import Limits

    model = NATIVE.model([NATIVE.calls(LIGHT), answer("Too much.")])
    agent = roc_agent(model, limits=Limits(result_bytes=100))
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    agent.invoke(session_id="s-1", results=control.answer("x" * 101))
    (shown,) = results_of(model.requests[1])
    assert "101 bytes" in shown and "xxx" not in shown


def wrong_id(results: dict[str, Any]) -> dict[str, Any]:
    return {**results, "invocationId": "d9c1e0d4-0000-4000-8000-000000000000"}


def wrong_action(results: dict[str, Any]) -> dict[str, Any]:
    other = {"actionGroup": "house", "function": "open_door", "responseBody": {}}
    return {**results, "returnControlInvocationResults": [{"functionResult": other}]}


def wrong_group(results: dict[str, Any]) -> dict[str, Any]:
    other = {"actionGroup": "claims", "function": "light"}
    return {**results, "returnControlInvocationResults": [{"functionResult": other}]}


def one_more(results: dict[str, Any]) -> dict[str, Any]:
    given = results["returnControlInvocationResults"]
    return {**results, "returnControlInvocationResults": given * 2}


def none_at_all(results: dict[str, Any]) -> dict[str, Any]:
    return {**results, "returnControlInvocationResults": []}


def changed(**members: Any) -> Any:
    def change(results: dict[str, Any]) -> dict[str, Any]:
        (one,) = results["returnControlInvocationResults"]
        made = {"functionResult": {**one["functionResult"], **members}}
        return {**results, "returnControlInvocationResults": [made]}

    return change


@pytest.mark.parametrize(
    "change",
    [
        wrong_id,
        wrong_action,
        wrong_group,
        one_more,
        none_at_all,
        changed(responseState="MAYBE"),
        changed(confirmationState="YES"),
        changed(agentId="ANOTHER123"),
        changed(agentId=7),
        changed(responseBody="on"),
        changed(responseBody={"TEXT": "on"}),
        changed(responseBody={"TEXT": {"body": 5}}),
        changed(responseBody={"TEXT": {"body": "on", "extra": object()}}),
        lambda results: {**results, "returnControlInvocationResults": ["on"]},
        lambda results: [results],
        lambda results: {**results, "invocationId": 7},
    ],
)
def test_results_that_do_not_fit_leave_the_turn_waiting(change: Any) -> None:
    model = NATIVE.model([NATIVE.calls(LIGHT), answer("On.")])
    agent = roc_agent(model)
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    right = control.answer("on")
    with pytest.raises(ValidationError):
        agent.invoke(session_id="s-1", results=change(right))
    assert len(model.requests) == 1
    assert agent.invoke(session_id="s-1", results=right).text == "On."


def test_a_result_may_name_the_agent_that_waits() -> None:
    agent = roc_agent(NATIVE.model([NATIVE.calls(LIGHT), answer("On.")]))
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    with pytest.raises(ValidationError, match=r"agentId 'ANOTHER123', but the agent '.{10}' waits"):
        agent.invoke(session_id="s-1", results=changed(agentId="ANOTHER123")(control.answer("on")))
    right = changed(agentId=agent.plan.agent_id)(control.answer("on"))
    assert agent.invoke(session_id="s-1", results=right).text == "On."


def test_results_of_another_session_are_refused() -> None:
    model = NATIVE.model([NATIVE.calls(LIGHT), NATIVE.calls(LIGHT), answer("On.")])
    agent = roc_agent(model)
    first = agent.invoke("Light, please.", "s-1").return_control
    second = agent.invoke("Light, please.", "s-2").return_control
    assert first is not None and second is not None
    assert first.invocation_id != second.invocation_id
    for session_id in ("s-2", "s-3"):
        with pytest.raises(ValidationError, match="never handed over here"):
            agent.invoke(session_id=session_id, results=first.answer("on"))
    assert agent.invoke(session_id="s-2", results=second.answer("on")).text == "On."


def test_equal_results_given_twice_give_the_same_reply() -> None:
    model = NATIVE.model([NATIVE.calls(LIGHT), answer("On."), answer("Next.")])
    agent = roc_agent(model)
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    first = agent.invoke(session_id="s-1", results=control.answer("on"))
    again = agent.invoke(session_id="s-1", results=control.answer("on"))
    assert told(again) == told(first)
    assert len(model.requests) == 2
    agent.invoke("And then?", "s-1")
    assert told(agent.invoke(session_id="s-1", results=control.answer("on"))) == told(first)
    assert len(model.requests) == 3


def test_equal_results_given_twice_hand_the_next_calls_over_again() -> None:
    model = NATIVE.model([NATIVE.calls(LIGHT), NATIVE.calls(DOOR), answer("Done.")])
    agent = roc_agent(model)
    first = agent.invoke("Light and door.", "s-1").return_control
    assert first is not None
    second = agent.invoke(session_id="s-1", results=first.answer("on"))
    again = agent.invoke(session_id="s-1", results=first.answer("on"))
    assert told(again) == told(second)
    assert again.return_control == second.return_control
    assert again.return_control is not None
    reply = agent.invoke(session_id="s-1", results=again.return_control.answer("open"))
    assert reply.text == "Done."


def test_equal_results_given_twice_give_the_same_failure() -> None:
    model = NATIVE.model([NATIVE.calls(LIGHT), DependencyFailed("gone", resource="the model")])
    agent = roc_agent(model)
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    errors = []
    for _ in range(2):
        with pytest.raises(DependencyFailed) as failed:
            agent.invoke(session_id="s-1", results=control.answer("on"))
        errors.append(failed.value)
    assert errors[0].message == errors[1].message
    assert errors[0].reply is not None and errors[1].reply is not None
    assert told(errors[0].reply) == told(errors[1].reply)
    assert len(model.requests) == 2


def test_other_results_given_later_are_a_conflict() -> None:
    model = NATIVE.model([NATIVE.calls(LIGHT), answer("On.")])
    agent = roc_agent(model)
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    agent.invoke(session_id="s-1", results=control.answer("on"))
    with pytest.raises(SessionConflict, match="they stand"):
        agent.invoke(session_id="s-1", results=control.answer("off"))
    assert len(model.requests) == 2


def test_results_that_come_after_the_time_to_live_are_refused() -> None:
    clock = FakeClock()
    model = NATIVE.model([NATIVE.calls(LIGHT), NATIVE.calls(LIGHT), answer("On.")])
    agent = roc_agent(model, sessions=Sessions(clock=clock), idle_session_ttl=60)
    in_time = agent.invoke("Light, please.", "s-1").return_control
    late = agent.invoke("Light, please.", "s-2").return_control
    assert in_time is not None and late is not None
    clock.advance(60)
    assert agent.invoke(session_id="s-1", results=in_time.answer("on")).text == "On."
    clock.advance(1)
    with pytest.raises(ValidationError, match="expired"):
        agent.invoke(session_id="s-2", results=late.answer("on"))


def test_another_question_gives_the_waiting_turn_up() -> None:
    model = NATIVE.model([NATIVE.calls(LIGHT), answer("Hello.")])
    agent = roc_agent(model)
    control = agent.invoke("Light, please.", "s-1").return_control
    assert control is not None
    assert agent.invoke("Hello?", "s-1").text == "Hello."
    with pytest.raises(ValidationError, match="the session has gone on"):
        agent.invoke(session_id="s-1", results=control.answer("on"))


def test_a_handed_over_call_is_counted_by_the_limit() -> None:
    from orchestrator import LimitExceeded, Limits

    model = NATIVE.model([NATIVE.calls(LIGHT, DOOR)])
    agent = roc_agent(model, limits=Limits(actions=1))
    with pytest.raises(LimitExceeded) as reached:
        agent.invoke("Light and door.", "s-1")
    assert reached.value.limit == "actions"


CHILD = """
import json, sys
sys.path[:0] = {paths!r}
from engine_turns import roc_agent
from whole_agents import NATIVE, answer
control = roc_agent(NATIVE.model([NATIVE.calls(("house::light", {{"on": True}}))]),
                    sessions={store!r}).invoke("Light, please.", "s-1").return_control
print(json.dumps(control.answer("on")))
"""


def test_a_new_process_takes_the_results(tmp_path: Path) -> None:
    store = tmp_path / "sessions.db"
    here = Path(__file__).parent
    child = CHILD.format(paths=[str(here), str(here.parent)], store=str(store))
    done = subprocess.run(
        [sys.executable, "-c", child], capture_output=True, text=True, check=True, timeout=60
    )
    model = NATIVE.model([answer("On.")])
    agent = roc_agent(model, sessions=store)
    reply = agent.invoke(session_id="s-1", results=json.loads(done.stdout))
    assert reply.text == "On."
    assert results_of(model.requests[0]) == ["on"]
    (info,) = SQLiteStore(store).list()
    kinds = [record["kind"] for record in SQLiteStore(store).load(info.key)]
    assert kinds == ["turn", "model", "suspend", "returned", "model", "end"]


def test_the_turn_waits_in_the_store_for_any_agent_that_opens_it() -> None:
    store = InMemoryStore()
    first = roc_agent(NATIVE.model([NATIVE.calls(LIGHT)]), sessions=Sessions(store, clock=CLOCK))
    control = first.invoke("Light, please.", "s-1").return_control
    assert control is not None
    model = ScriptedModel([answer("On.")], NATIVE.model_id)
    second = roc_agent(model, sessions=Sessions(store, clock=CLOCK))
    assert second.invoke(session_id="s-1", results=control.answer("on")).text == "On."


def test_an_executor_may_be_a_return_control_of_ones_own() -> None:
    class Queue(ReturnControl):
        """Where its calls go is the caller's business."""

    group = ActionGroup("house", functions=HOUSE, executor=Queue())
    model = NATIVE.model([NATIVE.calls(LIGHT), answer("On.")])
    asked = agent(model, [group])
    control = asked.invoke("Light.", "s-1").return_control
    assert control is not None
    assert asked.invoke(session_id="s-1", results=control.answer("on")).text == "On."


def test_the_executor_can_be_changed_to_return_control() -> None:
    def light(on: bool) -> str:
        """Switches the light."""
        raise AssertionError("the caller does it")

    group = ActionGroup("house", [light], ReturnControl())
    model = NATIVE.model([NATIVE.calls(LIGHT)])
    assert agent(model, [group]).invoke("Light.", "s-1").stop_reason == "return_control"
