"""Returned control as tool calls, and their results back into the turn."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_support import calls, function, group, says, tool, user

from orchestrator.server.operations import Caller

ONE = {"actionGroups": [group(function("get_days"), function("book"))]}
ASKS = {"actionGroups": [group(function("book", confirms=True))]}
OPENAPI = {
    "openapi": "3.0.0",
    "info": {"title": "hr", "version": "1"},
    "paths": {
        "/employees/{id}/days": {
            "post": {
                "operationId": "addDays",
                "description": "Adds days.",
                "parameters": [
                    {
                        "name": "id",
                        "in": "path",
                        "required": True,
                        "description": "Who.",
                        "schema": {"type": "integer"},
                    }
                ],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {
                                    "days": {"type": "number", "description": "How many."}
                                },
                            }
                        }
                    }
                },
                "responses": {"200": {"description": "ok"}},
            }
        }
    },
}
BY_API = {
    "actionGroups": [
        {
            "actionGroupName": "hr",
            "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
            "apiSchema": {"payload": json.dumps(OPENAPI)},
        }
    ]
}
DAYS = ("hr__get_days", {"employee": "e7", "days": "3"})
BOOK = ("hr__book", {"employee": "e7"})


def called(heard: Any) -> Any:
    choice = heard.json["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    return choice["message"]


def test_a_call_and_its_result(start):
    server = start([calls(DAYS), says("Five days.")], members=ONE)
    message = called(server.complete(user("How many?")))
    assert message["content"] is None
    (call,) = message["tool_calls"]
    assert call["type"] == "function"
    assert call["function"]["name"] == "hr__get_days"
    assert json.loads(call["function"]["arguments"]) == {"employee": "e7", "days": 3}
    heard = server.complete(user("How many?"), message, tool(call, "5 days"))
    assert heard.json["choices"][0]["message"]["content"] == "Five days."
    assert "5 days" in str(server.model.requests[1].messages)
    assert "How many?" in str(server.model.requests[1].messages)


def test_a_call_and_its_result_streamed(start):
    server = start([calls(DAYS), says("Five days.")], members=ONE)
    *chunks, last, done = server.complete(user("How many?"), stream=True).events
    assert done == "[DONE]"
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    (call,) = chunks[-1]["choices"][0]["delta"]["tool_calls"]
    assert call["index"] == 0
    heard = server.complete(user("How many?"), tool(call, "5 days"), stream=True)
    texts = [it["choices"][0]["delta"].get("content", "") for it in heard.events[:-1]]
    assert "".join(texts) == "Five days."


def test_several_calls_at_once_in_any_order(start):
    server = start([calls(DAYS, BOOK, DAYS), says("Done.")], members=ONE)
    message = called(server.complete(user("Book and tell")))
    first, second, third = message["tool_calls"]
    assert len({first["id"], second["id"], third["id"]}) == 3
    heard = server.complete(
        user("Book and tell"),
        message,
        tool(third, "third"),
        tool(first, "first"),
        tool(second, "second"),
    )
    assert heard.json["choices"][0]["message"]["content"] == "Done."
    said = str(server.model.requests[1].messages)
    assert said.index("'first'") < said.index("'second'") < said.index("'third'")


def test_calls_of_an_api(start):
    arguments = {"id": "7", "days": "1.5"}
    server = start(
        [calls(("POST__hr__employees_id_days", arguments)), says("Added.")], members=BY_API
    )
    name = server.model._replies[0][0]["toolUse"]
    name["name"] = _tool_name(server)
    (call,) = called(server.complete(user("Add")))["tool_calls"]
    assert call["function"]["name"] == "POST__hr__employees__id__days"
    assert json.loads(call["function"]["arguments"]) == {"id": 7, "days": 1.5}
    heard = server.complete(user("Add"), tool(call, '{"ok": true}'))
    assert heard.json["choices"][0]["message"]["content"] == "Added."


def _tool_name(server: Any) -> str:
    ((agent_id, alias_id, _, _),) = server.world.agents.list_invocable(Caller())
    agent = server.world.agents.resolve_alias(Caller(), agent_id, alias_id)
    names = [tool["toolSpec"]["name"] for tool in agent.render("ORCHESTRATION", "x").tools]
    return next(name for name in names if name.startswith("POST"))


def test_in_a_session_the_turn_goes_on_in_it(start):
    session = {"headers": {"X_Session_Id": "s-1"}}
    server = start([calls(DAYS), says("Five."), says("Again.")], members=ONE)
    (call,) = called(server.complete(user("How many?"), **session))["tool_calls"]
    assert call["id"].endswith("_s-1")
    server.complete(tool(call, "5 days"), **session)
    server.complete(user("Really?"), **session)
    assert "5 days" in str(server.model.requests[2].messages)


def test_the_same_results_twice_give_the_same_answer(start):
    server = start([calls(DAYS), says("Five days.")], members=ONE)
    (call,) = called(server.complete(user("How many?")))["tool_calls"]
    for _ in range(2):
        heard = server.complete(user("How many?"), tool(call, "5 days"))
        assert heard.json["choices"][0]["message"]["content"] == "Five days."
    assert len(server.model.requests) == 2
    other = server.complete(user("How many?"), tool(call, "6 days"))
    assert (other.status, other.json["error"]["code"]) == (409, "conflict")


@pytest.mark.parametrize(("said", "booked"), [("CONFIRM", True), ("Deny", False), ("no", False)])
def test_consent(start, said, booked):
    server = start([calls(BOOK), says("Done.")], members=ASKS)
    (call,) = called(server.complete(user("Book")))["tool_calls"]
    assert call["actionInvocationType"] == "USER_CONFIRMATION_AND_RESULT"
    result = "booked, I swear" if said == "CONFIRM" else said
    assert server.complete(user("Book"), tool(call, result)).status == 200
    assert ("booked, I swear" in str(server.model.requests[1].messages)) is booked


def test_a_call_without_a_result_is_told(start):
    server = start([calls(DAYS, BOOK), says("never")], members=ONE)
    first, _ = called(server.complete(user("Both")))["tool_calls"]
    heard = server.complete(user("Both"), tool(first, "5"))
    assert heard.status == 400
    assert "hr__book" in heard.json["error"]["message"]


def test_results_of_two_replies_are_refused(start):
    server = start([calls(DAYS), calls(DAYS)], members=ONE)
    (one,) = called(server.complete(user("How many?")))["tool_calls"]
    (two,) = called(server.complete(user("How many?")))["tool_calls"]
    heard = server.complete(tool(one, "5"), tool(two, "5"))
    assert heard.status == 400
    assert "several replies" in heard.json["error"]["message"]


def test_results_for_another_session_than_the_clients_are_refused(start):
    server = start([calls(DAYS)], members=ONE)
    (call,) = called(server.complete(user("How many?")))["tool_calls"]
    heard = server.complete(tool(call, "5"), headers={"X_Session_Id": "s-2"})
    assert heard.status == 400
    assert "another session" in heard.json["error"]["message"]


@pytest.mark.parametrize("id", ["call_abc", "", "call_0_", "x" * 5000, "call_0_0000000-0000_.."])
def test_ids_that_no_agent_gave_are_refused(start, id):
    server = start([calls(DAYS)], members=ONE)
    server.complete(user("How many?"), headers={"X_Session_Id": "s-1"})
    heard = server.complete({"role": "tool", "tool_call_id": id, "content": "5"})
    assert heard.status in (400, 404)
    assert len(heard.json["error"]["message"]) < 300
