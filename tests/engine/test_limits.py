"""Every budget of a turn: checked before anything is spent, and named when it is reached."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from whole_agents import BOTH, NATIVE, XML, Calls, Family, agent, answer, members, texts_of

from orchestrator import (
    ActionGroup,
    Agent,
    LimitExceeded,
    Limits,
    ModelOutputError,
    Reply,
    Sessions,
    ValidationError,
)
from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.testing import FakeClock, FakeKnowledgeBase

DAYS = ("vacations::get_days", {"employee": "E-1"})
BOOK = ("vacations::book", {"employee": "E-1", "days": 3})


def invoke(agent: Agent) -> Reply:
    return agent.invoke("Go on.", "s-1")


def ainvoke(agent: Agent) -> Reply:
    return asyncio.run(agent.ainvoke("Go on.", "s-1"))


def stream(agent: Agent) -> Reply:
    events: list[Any] = list(agent.stream("Go on.", "s-1"))
    reply: Reply = events[-1].reply
    return reply


EACH_WAY = pytest.mark.parametrize("run", [invoke, ainvoke, stream])
Run = Callable[[Agent], Reply]


def reached(run: Run, agent: Agent, limit: str) -> Reply:
    """Runs into a limit; what the turn had done."""
    with pytest.raises(LimitExceeded) as failed:
        run(agent)
    assert failed.value.limit == limit
    assert f"the limit {limit!r}" in failed.value.message
    reply = failed.value.reply
    assert reply is not None
    assert (reply.stop_reason, reply.text, reply.return_control) == (limit, "", None)
    assert reply.trace[-1]["trace"]["failureTrace"]["failureReason"] == failed.value.message
    return reply


@EACH_WAY
@BOTH
def test_iterations_end_a_model_that_only_asks_for_another_action(family: Family, run: Run) -> None:
    calls = Calls()
    model = family.model([family.calls(DAYS)] * 99)
    asked = agent(model, calls.groups(), limits=Limits(iterations=3))
    reply = reached(run, asked, "iterations")
    assert len(model.requests) == len(calls.made) == reply.usage.calls == 3
    assert members(reply.trace).count("modelInvocationOutput") == 3
    assert members(reply.trace).count("observation ACTION_GROUP") == 3


def test_the_default_ends_such_a_model_too() -> None:
    calls = Calls()
    model = NATIVE.model([NATIVE.calls(DAYS)] * 99)
    reached(invoke, agent(model, calls.groups()), "iterations")
    assert len(model.requests) == len(calls.made) == Limits().iterations


@EACH_WAY
def test_model_calls_count_those_of_all_stages(run: Run) -> None:
    model = NATIVE.model(["<category>D</category>", answer("Twelve."), "<final_response>x"])
    enabled = {"promptState": "ENABLED"}
    stages = {"PRE_PROCESSING": enabled, "POST_PROCESSING": enabled}
    asked = agent(model, prompts=stages, limits=Limits(model_calls=2))
    reply = reached(run, asked, "model_calls")
    assert [request.stage for request in model.requests] == ["PRE_PROCESSING", "ORCHESTRATION"]
    assert reply.usage.calls == 2


def costly(family: Family, tokens: int) -> ModelReply:
    usage = Usage(tokens - 10, 10, calls=1)
    return ModelReply(family.calls(DAYS), "tool_use", usage)


@EACH_WAY
def test_tokens_are_checked_before_the_next_model_call(run: Run) -> None:
    calls = Calls()
    model = NATIVE.model([costly(NATIVE, 60), costly(NATIVE, 40), answer("Never.")])
    asked = agent(model, calls.groups(), limits=Limits(tokens=100))
    reply = reached(run, asked, "tokens")
    assert len(model.requests) == len(calls.made) == 2
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (80, 20)


def test_tokens_below_the_limit_are_enough() -> None:
    model = NATIVE.model([costly(NATIVE, 60), costly(NATIVE, 39), answer("Done.")])
    asked = agent(model, Calls().groups(), limits=Limits(tokens=100))
    assert invoke(asked).text == "Done."


@EACH_WAY
def test_actions_are_counted_before_any_of_a_reply_is_carried_out(run: Run) -> None:
    calls = Calls()
    model = NATIVE.model([NATIVE.calls(DAYS), NATIVE.calls(DAYS, BOOK)])
    reached(run, agent(model, calls.groups(), limits=Limits(actions=2)), "actions")
    assert [name for name, _ in calls.made] == ["get_days"]


def test_searches_count_as_actions() -> None:
    search = ("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "when?"})
    base = FakeKnowledgeBase("HANDBOOK01", ["April."])
    calls = Calls()
    model = NATIVE.model([NATIVE.calls(search, DAYS), NATIVE.calls(search)])
    asked = agent(model, calls.groups(), knowledge_bases=[base], limits=Limits(actions=2))
    reached(invoke, asked, "actions")
    assert (len(base.queries), len(calls.made)) == (1, 1)


def test_calls_that_are_wrong_are_not_counted() -> None:
    wrong = ("vacations::book", {})
    model = NATIVE.model([NATIVE.calls(wrong, wrong, DAYS), answer("Done.")])
    assert invoke(agent(model, Calls().groups(), limits=Limits(actions=1))).text == "Done."


class Taking(Model):
    """A model whose replies take some seconds of a clock that only moves here."""

    def __init__(self, clock: FakeClock, *replies: Any, seconds: float = 10) -> None:
        self.model_id = NATIVE.model_id
        self.clock = clock
        self.seconds = seconds
        self.replies = list(replies)

    def complete(self, request: ModelRequest) -> ModelReply:
        self.clock.advance(self.seconds)
        reply = self.replies.pop(0)
        content = [{"text": reply}] if isinstance(reply, str) else reply
        return ModelReply(content, "end_turn", Usage(1, 1, calls=1))


@EACH_WAY
def test_seconds_are_checked_before_the_next_thing_is_begun(run: Run) -> None:
    clock, calls = FakeClock(), Calls()
    days = NATIVE.calls(DAYS)
    model = Taking(clock, days, days, answer("Late."), answer("Next."))
    sessions = Sessions(clock=clock)
    asked = agent(model, calls.groups(), sessions=sessions, limits=Limits(seconds=15))
    reply = reached(run, asked, "seconds")
    assert len(calls.made) == 1
    assert reply.usage.calls == 2
    model.replies = [answer("Next.")]
    assert asked.invoke("And now?", "s-1").text == "Next."


@EACH_WAY
def test_an_answer_that_is_there_is_given_however_late(run: Run) -> None:
    clock = FakeClock()
    model = Taking(clock, answer("Late, but here."), seconds=700)
    # An event loop has a timer of its own, which may not end while the machine stands still.
    asked = agent(model, sessions=Sessions(clock=clock), limits=Limits(seconds=600))
    assert run(asked).text == "Late, but here."


@EACH_WAY
def test_action_seconds_end_an_action(run: Run) -> None:
    def hang() -> str:
        """Hangs."""
        never.wait(30)
        return ""

    never = threading.Event()
    model = NATIVE.model([NATIVE.calls(("work::hang", {}))])
    asked = agent(model, [ActionGroup("work", [hang])], limits=Limits(action_seconds=0.05))
    with pytest.raises(ActionOutcomeUnknown) as failed:
        run(asked)
    never.set()
    assert "the limit 'action_seconds'" in failed.value.message
    assert failed.value.resource == "work::hang"
    assert len(model.requests) == 1


@EACH_WAY
@BOTH
def test_a_result_over_result_bytes_is_not_shown(family: Family, run: Run) -> None:
    for size, shown in ((1000, True), (1001, False)):
        model = family.model([family.calls(DAYS), answer("Done.")])
        asked = agent(model, Calls("x" * size).groups(), limits=Limits(result_bytes=1000))
        assert run(asked).text == "Done."
        told = "".join(texts_of(model.requests[1]))
        assert ("xxxxx" in told, "1001 bytes" in told) == (shown, not shown)


@pytest.mark.parametrize("limit", [1000, 25_000_000])
def test_a_question_over_input_chars_is_refused_before_anything(limit: int) -> None:
    model = NATIVE.model([answer("Never.")])
    asked = agent(model, limits=Limits(input_chars=limit))
    with pytest.raises(ValidationError, match=f"the limit is {limit:,}"):
        asked.invoke("x" * (limit + 1), "s-1")
    assert model.requests == []
    assert list(asked.sessions.store.list()) == []
    assert Limits().input_chars == 25_000_000


@EACH_WAY
def test_reprompts_end_a_model_that_is_not_understood(run: Run) -> None:
    broken = "<function_calls><invoke></invoke></function_calls>"
    model = XML.model([broken] * 99)
    asked = agent(model, Calls().groups(), limits=Limits(reprompts=2))
    with pytest.raises(ModelOutputError, match="could not be understood 3 times in a row"):
        run(asked)
    assert len(model.requests) == 3


def test_reprompts_are_counted_in_a_row() -> None:
    broken = "<function_calls><invoke></invoke></function_calls>"
    call = XML.calls(DAYS)
    model = XML.model([broken, call, broken, call, broken, answer("Done.")])
    asked = agent(model, Calls().groups(), limits=Limits(reprompts=1))
    assert invoke(asked).text == "Done."


@pytest.mark.parametrize(
    "limits", [Limits(iterations=1), Limits(model_calls=1), Limits(tokens=1), Limits(actions=0)]
)
def test_the_session_can_be_used_after_a_limit(limits: Limits) -> None:
    model = NATIVE.model([NATIVE.calls(DAYS), answer("Next.")])
    asked = agent(model, Calls().groups(), limits=limits)
    with pytest.raises(LimitExceeded):
        invoke(asked)
    assert asked.invoke("And now?", "s-1").text == "Next."


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *[(name, 0, "from 1") for name in ("iterations", "model_calls", "tokens", "parallel")],
        *[(name, 0, "from 1") for name in ("result_bytes", "input_chars")],
        *[(name, -1, "from 0") for name in ("actions", "reprompts")],
        *[(name, 0, "greater than 0") for name in ("seconds", "action_seconds")],
        *[(name, "60", "greater than 0") for name in ("seconds", "action_seconds")],
        ("seconds", float("nan"), "greater than 0"),
        *[("iterations", value, "from 1") for value in (None, "10", 2.5, True)],
    ],
)
def test_a_limit_that_is_none_is_refused_at_once(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Limits(**{name: value})
    assert f"{name}={value!r}" in caught.value.message
    assert allowed in caught.value.message


def test_the_least_limits() -> None:
    assert Limits(actions=0, reprompts=0, seconds=None, action_seconds=None).actions == 0


def test_each_turn_has_its_own_budget() -> None:
    script = [NATIVE.calls(DAYS), answer("Done.")]
    model = NATIVE.model(script * 3)
    limits = Limits(iterations=2, model_calls=2, actions=1)
    asked = agent(model, Calls().groups(), limits=limits)
    assert [invoke(asked).text for _ in range(3)] == ["Done."] * 3


def test_a_turn_that_goes_on_after_a_hand_over_keeps_its_budget() -> None:
    from engine_turns import roc_agent

    light = NATIVE.calls(("house::light", {"on": True}))
    model = NATIVE.model([light, light, answer("Never.")])
    asked = roc_agent(model, limits=Limits(iterations=2))
    control = asked.invoke("Light.", "s-1").return_control
    assert control is not None
    control = asked.invoke(session_id="s-1", results=control.answer("on")).return_control
    assert control is not None
    with pytest.raises(LimitExceeded) as failed:
        asked.invoke(session_id="s-1", results=control.answer("on"))
    assert failed.value.limit == "iterations"
    assert len(model.requests) == 2
