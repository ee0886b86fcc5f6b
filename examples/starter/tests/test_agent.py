"""The whole agent, with a model whose replies are written beforehand: quick, and free."""

from pathlib import Path

from orchestrator import Agent
from orchestrator.testing import ScriptedModel

FOLDER = Path(__file__).resolve().parents[1]


def load(*replies):
    # The id chooses the prompts: those of models with native tools.
    model = ScriptedModel(replies, model_id="anthropic.claude-3-5-sonnet-20240620-v1:0")
    return Agent.load(FOLDER, model=model), model


def call(name, **values):
    return [{"toolUse": {"toolUseId": "t-1", "name": name, "input": values}}]


def test_an_order_is_looked_up():
    agent, model = load(
        call("GET__orders__getOrder", orderId="1042"),
        "<answer>Emma will arrive on Thursday.</answer>",
    )
    reply = agent.invoke("Where is order 1042?", session_id="s-1")
    assert reply.text == "Emma will arrive on Thursday."
    assert "on its way" in str(model.requests[1].messages[-1])


def test_the_user_is_asked_for_the_number():
    agent, _ = load(call("user__askuser", question="What is the order's number?"))
    reply = agent.invoke("Where is my order?", session_id="s-1")
    assert (reply.text, reply.stop_reason) == ("What is the order's number?", "ask_user")


def test_an_order_is_cancelled_when_the_customer_has_agreed():
    agent, model = load(
        call("POST__orders__cancelOrder", orderId="1043"),
        "<answer>Order 1043 is cancelled.</answer>",
    )
    asked = agent.invoke("Cancel order 1043", session_id="s-1")
    assert asked.return_control is not None
    agreed = asked.return_control.answer({"/orders/{orderId}/cancellation": True})
    reply = agent.invoke("", session_id="s-1", results=agreed)
    assert reply.text == "Order 1043 is cancelled."
    assert "cancelled" in str(model.requests[1].messages[-1])


def test_an_order_that_is_on_its_way_is_not_cancelled():
    agent, model = load(
        call("POST__orders__cancelOrder", orderId="1042"),
        "<answer>It has left the shop.</answer>",
    )
    asked = agent.invoke("Cancel order 1042", session_id="s-1")
    agreed = asked.return_control.answer({"/orders/{orderId}/cancellation": True})
    agent.invoke("", session_id="s-1", results=agreed)
    assert "cannot be cancelled" in str(model.requests[1].messages[-1])
