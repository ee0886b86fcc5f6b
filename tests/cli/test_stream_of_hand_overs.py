"""A hand-over and its answer are in the stream's trace as they are in the reply's."""

import re

import pytest

from orchestrator import ActionGroup, Agent, ReturnControl, TracePart, TurnEnd, action
from orchestrator.testing import ScriptedModel

MODEL = "anthropic.claude-3-5-sonnet-20240620-v1:0"
carried_out = []


@action(require_confirmation=True)
def pay(euros: int) -> str:
    """Pay.

    Args:
        euros: How much.
    """
    carried_out.append(euros)
    return f"paid {euros}"


def call(name, **values):
    return [{"toolUse": {"toolUseId": "t-1", "name": name, "input": values}}]


def streamed(agent, *args, **options):
    """The trace parts of a stream without their times, and the reply."""
    events = list(agent.stream(*args, **options))
    parts = [event.part["trace"] for event in events if isinstance(event, TracePart)]
    return parts, next(event.reply for event in events if isinstance(event, TurnEnd))


def without_times(parts):
    return re.sub(r"'[^']*Time': '[^']*'", "", str(parts))


@pytest.fixture
def agent():
    functions = [{"name": "order", "description": "Order.", "parameters": {}}]
    return Agent(
        name="payer",
        instruction="You pay and order.",
        model=ScriptedModel(
            [call("shop__order"), call("bank__pay", euros=3), "<answer>Paid."], MODEL
        ),
        action_groups=[
            ActionGroup("bank", actions=[pay]),
            ActionGroup("shop", functions=functions, executor=ReturnControl()),
        ],
    )


def test_the_stream_tells_what_the_trace_tells(agent):
    parts, handed = streamed(agent, "Pay", "s-1")
    assert without_times(parts) == without_times([part["trace"] for part in handed.trace])
    assert "RETURN_CONTROL" in str(parts[-1])
    results = handed.return_control.answer("ordered")
    parts, asked = streamed(agent, "", "s-1", results=results)
    assert without_times(parts) == without_times([part["trace"] for part in asked.trace])
    assert "ordered" in str(parts[0]) and "RETURN_CONTROL" not in str(parts[0])


@pytest.mark.parametrize(("confirmed", "paid"), [(True, [3]), (False, [])])
def test_a_call_is_carried_out_when_it_is_confirmed(agent, confirmed, paid):
    carried_out.clear()
    handed = agent.invoke("Pay", "s-1")
    asked = agent.invoke("", "s-1", results=handed.return_control.answer("ordered"))
    answer = asked.return_control.answer({"pay": confirmed})
    assert agent.invoke("", "s-1", results=answer).text == "Paid."
    assert carried_out == paid
