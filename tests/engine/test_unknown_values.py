"""A small model that does not know a value says so, and the user is asked for it."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import ActionGroup, Agent, action
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel


@action
def convert(amount: float, currency: str) -> str:
    """Converts an amount of money.

    Args:
        amount: The amount in euros.
        currency: Three letters, such as USD.
    """
    return f"{amount} in {currency}"


def call(id: str, **values: Any) -> list[dict[str, Any]]:
    return [{"toolUse": {"toolUseId": id, "name": "money__convert", "input": values}}]


def agent(model: ScriptedModel, **options: Any) -> Agent:
    groups = [ActionGroup("money", actions=[convert])]
    return Agent("money", "You convert money.", model, action_groups=groups, **options)


@pytest.mark.parametrize(
    ("values", "question"),
    [
        ({"amount": "?", "currency": "USD"}, "Could you tell me the amount in euros?"),
        (
            {"amount": 5, "currency": "?"},
            "Could you tell me the currency (Three letters)?",
        ),
    ],
)
def test_a_question_mark_becomes_a_question(values: dict[str, Any], question: str) -> None:
    model = ScriptedModel([call("t-1", **values)], model_id="local")
    reply = agent(model).invoke("Convert my money", "s-1")
    assert (reply.text, reply.stop_reason) == (question, "ask_user")


def test_other_models_mean_a_question_mark_as_a_value() -> None:
    model = ScriptedModel([call("t-1", amount=5, currency="?"), "<answer>Done."])
    reply = agent(model).invoke("Convert my money", "s-1")
    assert reply.text == "Done."


def test_a_call_that_was_made_is_not_offered_again() -> None:
    same = {"amount": 5, "currency": "USD"}
    model = ScriptedModel(
        [call("t-1", **same), call("t-2", **same), call("t-3", **same), "<answer>5.0 in USD"],
        model_id="local",
    )
    reply = agent(model).invoke("Convert 5 euros to USD", "s-1")
    assert reply.text == "5.0 in USD"
    formats = [request.call_format for request in model.requests]
    assert [format.excluded for format in formats if format] == [
        frozenset(),
        frozenset(),
        *[frozenset({"money__convert"})] * 2,
    ]
    assert {operation.name for operation in formats[0].operations} == {"money__convert"}


def test_searches_are_part_of_what_may_be_called() -> None:
    model = ScriptedModel(["<answer>Hello."], model_id="local")
    base = FakeKnowledgeBase("KB12345678", ["Rates change daily."])
    agent(model, knowledge_bases=[base]).invoke("Hi", "s-1")
    names = [operation.name for operation in model.requests[0].call_format.operations]
    assert names == ["money__convert", "GET__x_amz_knowledgebase_KB12345678__Search"]
