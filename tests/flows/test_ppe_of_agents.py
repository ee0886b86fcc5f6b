"""PPE scripts as the orchestration of agents: tools, listeners, chats and thoughts in a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_support import agent, handed_over, script, texts

from orchestrator import FlowError, TextDelta, load_flow

TOOLS = ["---", "tools: [get_days]", "---", "user: '{{ question }}'"]


def call(name: str, **given: Any) -> list[dict[str, Any]]:
    return [{"toolUse": {"toolUseId": "1", "name": name, "input": given}}]


def test_the_model_calls_the_agents_actions() -> None:
    made, model = agent(script(*TOOLS), call("get_days", employee="7"), "12 days.")
    reply = made.invoke("How many days has 7?", session_id="s-1")
    assert reply.text == "12 days."
    assert texts(model.requests[0]) == ["How many days has 7?"]
    (block,) = model.requests[1].messages[-1]["content"]
    assert block["toolResult"]["content"] == [{"text": '{"left":12,"of":"7"}'}]
    kinds = [next(iter(it["trace"])) for it in reply.trace]
    assert "orchestrationTrace" in kinds or "customOrchestrationTrace" in kinds


def test_an_action_that_the_caller_carries_out_waits_and_listeners_are_told_once() -> None:
    heard: list[Any] = []

    def hear(event: Any, *args: Any) -> None:
        heard.append((event["type"], args[0]))

    flow = script(
        "---",
        "tools: [pay]",
        "---",
        "$on: {event: beforeCall, callback: hear}",
        "$on: {event: afterCall, callback: hear}",
        "user: '{{ question }}'",
    ).as_orchestration({"hear": hear})
    made, _ = agent(flow, call("pay", to="Emma"), "Paid.", groups=[handed_over()])
    waits = made.invoke("Pay Emma", session_id="s-1")
    assert heard == [("beforeCall", "pay")]
    reply = made.invoke(session_id="s-1", results=waits.return_control.answer("5 EUR"))
    assert reply.text == "Paid."
    assert heard == [("beforeCall", "pay"), ("afterCall", "pay")]


def test_who_must_confirm_a_call_is_asked_in_the_turn() -> None:
    lines = [*TOOLS[:2], "permissions: {call: [get_days: {action: confirm}]}", *TOOLS[2:]]
    made, model = agent(script(*lines), call("get_days", employee="7"), "I may not.")
    waits = made.invoke("How many?", session_id="s-1")
    (asked,) = waits.return_control.invocation_inputs
    assert asked["functionInvocationInput"]["function"] == "user"
    (given,) = asked["functionInvocationInput"]["parameters"]
    assert given["value"] == 'May \'get_days\' be called with {"employee":"7"}? (yes or no)'
    reply = made.invoke(session_id="s-1", results=waits.return_control.answer("no"))
    assert reply.text == "I may not."
    assert "not permitted" in str(model.requests[1].messages[-1])


def test_a_chat_of_roles_is_a_turn(tmp_path: Path) -> None:
    (tmp_path / "elf.ai.yaml").write_text("---\nname: Dobby\n---\n")
    main = tmp_path / "main.ai.yaml"
    main.write_text("---\nroles: {dobby: elf}\n---\n---\nuser[@dobby]: '{{ question }}'\n")
    made, model = agent(load_flow(main), "dobby: Hello!")
    assert made.invoke("Who is there?", session_id="s-1").text == "Hello!"
    assert texts(model.requests[0]) == ["user: @dobby, Who is there?"]


def test_thoughts_are_no_part_of_a_streamed_answer() -> None:
    flow = script("---", "shouldThink: first", "---", "user: '{{ question }}'")
    made, _ = agent(flow, "<Think>a secret</Think><Answer>Four.</Answer>")
    told = [it.text for it in made.stream("2 + 2?", session_id="s-1") if isinstance(it, TextDelta)]
    assert "".join(told) == "Four."


def test_what_a_listener_changes_is_the_streamed_answer() -> None:
    flow = script("$on: {event: llm, callback: \"?=arg1 + '!'\"}", "user: '{{ question }}'")
    made, _ = agent(flow, "Four")
    told = [it.text for it in made.stream("2 + 2?", session_id="s-1") if isinstance(it, TextDelta)]
    assert "".join(told) == "Four!"


def test_a_bias_is_refused_before_the_model_of_an_agent_is_asked() -> None:
    made, model = agent(script("user: '((joy:5)) {{ question }}'"), "A")
    with pytest.raises(FlowError, match="biases tokens"):
        made.invoke("q", session_id="s-1")
    assert model.requests == []
