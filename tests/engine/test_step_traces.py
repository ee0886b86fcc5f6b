"""The trace parts of each step: together they are the turn's trace, and each tells of its step."""

from __future__ import annotations

from typing import Any

import pytest
from trace_turns import EACH_TURN, IDS, Turn
from whole_agents import NATIVE, Calls, Family, agent, answer, outcome

from orchestrator import Agent, Collaborator
from orchestrator.testing import ScriptedModel

QUESTION = "How many days have I left?"
DAYS = ("vacations::get_days", {"employee": "E-1"})


def kinds(parts: list[dict[str, Any]]) -> list[str]:
    return [name for it in parts for members in it["trace"].values() for name in members]


@pytest.mark.parametrize(("turn", "family"), EACH_TURN, ids=IDS)
def test_all_parts_belong_to_a_step_in_their_order(turn: Turn, family: Family) -> None:
    asked = agent(family.model(turn.script(family)), **turn.agent_options())
    first = outcome(asked, QUESTION, "s-1")
    if turn.results is not None:
        results = first.return_control.answer(turn.results)
        outcome(asked, session_id="s-1", results=results)
    (past,) = asked.turns("s-1")
    traces = past.step_traces()
    assert len(traces) == len(past.steps())
    if traces:  # a model that fails at once leaves no step
        assert sorted(str(it) for one in traces for it in one) == sorted(map(str, past.trace))
    for step, parts in zip(past.steps(), traces, strict=True):
        if step.kind == "model" and step.stage == "ORCHESTRATION":
            assert kinds(parts)[:2] == ["modelInvocationInput", "modelInvocationOutput"]


def test_calls_of_one_reply_have_each_their_own_parts() -> None:
    other = ("vacations::get_days", {"employee": "E-2"})
    model = NATIVE.model([NATIVE.calls(DAYS, other), "<answer>Hm", answer("Twelve.")])
    asked = agent(model, Calls().groups())
    asked.invoke(QUESTION, "s-1")
    (past,) = asked.turns("s-1")
    traces = past.step_traces()
    # Both are carried out at the same time, and the first to end is the first step.
    calls = {
        step.arguments["employee"]: parts
        for step, parts in zip(past.steps(), traces, strict=True)
        if step.kind == "action"
    }
    assert calls.keys() == {"E-1", "E-2"}
    for employee, parts in calls.items():
        assert kinds(parts) == ["invocationInput", "observation"]
        asked_for = parts[0]["trace"]["orchestrationTrace"]["invocationInput"]
        given = asked_for["actionGroupInvocationInput"]["parameters"]
        assert [it["value"] for it in given] == [employee]


def test_steps_of_collaborators_have_those_of_their_own_turn() -> None:
    use = {"toolUseId": "t-1", "name": "AgentCommunication__sendMessage"}
    sent = [{"toolUse": {**use, "input": {"recipient": "days", "content": "How many?"}}}]
    family = NATIVE.model([]).model_id
    inner = Agent("days", "You count.", ScriptedModel([answer("Twelve.")], model_id=family))
    lead = Agent(
        "lead",
        "You lead.",
        ScriptedModel([sent, answer("He said twelve.")], model_id=family),
        collaborators=[Collaborator(inner, "Counts days.")],
    )
    lead.invoke(QUESTION, "s-1")
    (past,) = lead.turns("s-1")
    found = {
        (step.kind, bool(step.branch), step.text): kinds(parts)
        for step, parts in zip(past.steps(), past.step_traces(), strict=True)
    }
    inside = [it for (kind, below, _), it in found.items() if kind == "model" and below]
    assert inside[0][:2] == ["modelInvocationInput", "modelInvocationOutput"]
    (ended,) = [it for (kind, _, _), it in found.items() if kind == "agent"]
    assert ended == ["invocationInput", "observation"]
