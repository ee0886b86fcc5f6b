"""Attack 16: loops, fan-out and huge texts. Every budget is checked before it is spent."""

from __future__ import annotations

from typing import Any

import pytest
from whole_agents import EACH, XML, Calls, Family, agent, answer, members

from orchestrator import ActionGroup, LimitExceeded, Limits, ValidationError
from orchestrator.models.base import ModelReply, Usage


def days(number: int) -> tuple[str, dict[str, Any]]:
    return ("vacations::get_days", {"employee": f"E-{number}"})


def refused(asked: Any, limit: str, question: str = "Go") -> LimitExceeded:
    with pytest.raises(LimitExceeded, match=rf"the limit '{limit}'") as caught:
        asked.invoke(question, "s-1")
    assert caught.value.limit == limit
    assert caught.value.reply is not None
    assert caught.value.reply.stop_reason == limit
    assert members(caught.value.reply.trace)[-1] == "failureTrace"
    return caught.value


@EACH
def test_an_endless_loop_stops_at_the_default(family: Family) -> None:
    model = family.model([family.calls(days(n)) for n in range(99)])
    refused(agent(model, Calls().groups()), "iterations")
    assert len(model.requests) == Limits().iterations


@EACH
def test_model_calls_of_all_stages_count(family: Family) -> None:
    script = ["<category>D</category>", *[family.calls(days(n)) for n in range(9)]]
    model = family.model(script)
    stages = {"PRE_PROCESSING": {"promptState": "ENABLED"}}
    refused(
        agent(model, Calls().groups(), prompts=stages, limits=Limits(model_calls=3)), "model_calls"
    )
    assert len(model.requests) == 3


@EACH
@pytest.mark.parametrize("fan_out", [51, 1000])
def test_a_fan_out_over_the_budget_carries_nothing_out(family: Family, fan_out: int) -> None:
    calls = Calls()
    model = family.model([family.calls(*[days(n) for n in range(fan_out)])])
    refused(agent(model, calls.groups()), "actions")
    assert calls.made == []


@EACH
def test_tokens_are_counted_before_the_next_call(family: Family) -> None:
    def large(number: int) -> ModelReply:
        reply = family.calls(days(number))
        content = reply if isinstance(reply, list) else [{"text": reply}]
        return ModelReply(content, "tool_use", Usage(600, 500, calls=1))

    model = family.model([large(n) for n in range(9)])
    error = refused(agent(model, Calls().groups(), limits=Limits(tokens=2000)), "tokens")
    assert len(model.requests) == 2
    usage = error.reply.usage  # type: ignore[union-attr]
    assert (usage.input_tokens, usage.output_tokens) == (1200, 1000)


def test_time_is_a_budget_too() -> None:
    from orchestrator.sessions import Sessions
    from orchestrator.testing import FakeClock

    clock = FakeClock()

    def slow() -> str:
        """Takes its time."""
        clock.advance(40)
        return "ok"

    model = XML.model([XML.calls(("tools::slow", {}))] * 9)
    asked = agent(
        model,
        [ActionGroup("tools", [slow])],
        limits=Limits(seconds=100),
        sessions=Sessions(clock=clock),
    )
    refused(asked, "seconds")
    assert len(model.requests) == 3


@EACH
def test_fifty_megabytes_of_a_result_do_not_reach_the_model(family: Family) -> None:
    model = family.model([family.calls(days(1)), answer("Too large.")])
    reply = agent(model, Calls("x" * 50_000_000).groups()).invoke("Go")
    assert reply.text == "Too large."
    sent = sum(len(message.json_text) for message in model.requests[1].messages)
    before = sum(len(message.json_text) for message in model.requests[0].messages)
    assert sent - before < 2_000
    assert "50000000 bytes" in model.requests[1].messages[-1].json_text
    assert len(str(reply.trace)) < 1_000_000


def test_a_question_over_the_limit_costs_nothing() -> None:
    model = XML.model([answer("Hi.")])
    asked = agent(model, limits=Limits(input_chars=1_000))
    with pytest.raises(ValidationError, match=r"\('input_chars'\)"):
        asked.invoke("x" * 1_001, "s-1")
    assert model.requests == []
    assert asked.invoke("x" * 1_000, "s-1").text == "Hi."


def test_a_turn_over_its_budget_leaves_the_session_to_the_next() -> None:
    model = XML.model([*[XML.calls(days(n)) for n in range(2)], answer("Hi.")])
    asked = agent(model, Calls().groups(), limits=Limits(iterations=2))
    refused(asked, "iterations")
    assert asked.invoke("Go on", "s-1").text == "Hi."
