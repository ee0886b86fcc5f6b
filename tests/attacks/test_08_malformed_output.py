"""Attack 8: malformed replies. An answer or a typed error, always; never another exception."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_agents import ALL_FAMILIES, XML, Calls, Family, agent, answer, members

from orchestrator import Limits, ModelOutputError, OrchestratorError
from orchestrator.models.base import ModelReply

GOOD = (
    "<thinking>First the days.</thinking><function_calls><invoke><tool_name>vacations::get_days"
    "</tool_name><parameters><employee>E-1</employee><year>2026</year></parameters></invoke>"
    "</function_calls>"
)
ANSWER = answer("You have <b>12</b> days.")
STOPS = ("end_turn", "tool_use", "max_tokens", "malformed_tool_use", "refusal")


@st.composite
def mutated(draw: Any) -> str:
    """A good reply after a few cuts, swaps and repetitions."""
    text = draw(st.sampled_from([GOOD, ANSWER, GOOD + ANSWER, ANSWER + GOOD]))
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        piece = text[start:end]
        change = draw(st.sampled_from(["cut", "twice", "upper", "insert"]))
        new = {"cut": "", "twice": piece * 2, "upper": piece.upper(), "insert": piece + "<&>"}
        text = text[:start] + new[change] + text[end:]
    return text


@given(st.lists(mutated(), min_size=1, max_size=4), st.sampled_from(ALL_FAMILIES[:2]), st.data())
def test_mutations_of_good_replies(replies: list[str], family: Family, data: Any) -> None:
    script = [ModelReply([{"text": text}], data.draw(st.sampled_from(STOPS))) for text in replies]
    calls = Calls()
    asked = agent(family.model(script), calls.groups(), limits=Limits(iterations=len(script)))
    try:
        reply = asked.invoke("How many?", "s-1")
    except OrchestratorError as error:
        assert error.reply is not None
        reply = error.reply
        assert members(reply.trace)[-1] == "failureTrace"
    # Only whole, valid calls are carried out.
    assert all(name == "get_days" and type(made["year"]) is int for name, made in calls.made)


def test_the_raw_reply_is_in_the_trace_and_the_error_maps_to_bedrocks() -> None:
    bad = "<function_calls><invoke><parameters></parameters></invoke>"
    asked = agent(XML.model([bad] * 5), Calls().groups(), limits=Limits(reprompts=3))
    with pytest.raises(ModelOutputError) as caught:
        asked.invoke("Hi")
    assert caught.value.bedrock_name == "DependencyFailedException"
    trace = caught.value.reply.trace  # type: ignore[union-attr]
    assert members(trace).count("modelInvocationOutput") == 4
    assert bad in str(trace)


def test_two_answers_are_one_and_a_call_after_an_answer_is_noted() -> None:
    reply = agent(XML.model(["<answer>One.</answer><answer>Two.</answer>"])).invoke("Hi")
    assert reply.text == "One."
    calls = Calls()
    called = "<answer>Wait.</answer>" + GOOD.partition("</thinking>")[2]
    reply = agent(XML.model([called, answer("12.")]), calls.groups()).invoke("Hi")
    assert reply.text == "12."
    assert any("calls follow the answer" in note for note in reply.notes)
