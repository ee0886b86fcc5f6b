"""What a model searches for: its mistakes are told to it, those of others end the turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from whole_agents import BOTH, Family, agent, answer, members, texts_of

from orchestrator import Agent, ValidationError
from orchestrator.knowledge import LocalKnowledgeBase
from orchestrator.testing import FakeKnowledgeBase

BASE = "HANDBOOK01"
LONGEST = "q" * 20_000
LONG = "Nothing was searched: the query has 20,001 characters"


def search(family: Family, *queries: str) -> Any:
    name = f"GET::x_amz_knowledgebase_{BASE}::Search"
    return family.calls(*[(name, {"searchQuery": query}) for query in queries])


def searching(family: Family, base: Any, *queries: str) -> tuple[Agent, Any]:
    model = family.model([search(family, *queries), answer("Thirty days.")])
    return agent(model, knowledge_bases=[base]), model


@BOTH
def test_a_query_that_cannot_be_searched_is_told_to_the_model(family: Family) -> None:
    def ask() -> tuple[Agent, Any, FakeKnowledgeBase]:
        base = FakeKnowledgeBase(BASE, ["Thirty days a year."])
        script = [search(family, LONGEST + "q"), search(family, "days"), answer("Thirty days.")]
        model = family.model(script)
        return agent(model, knowledge_bases=[base]), model, base

    subject, model, base = ask()
    reply = subject.invoke("How many?", "s-1")
    assert (reply.text, base.queries) == ("Thirty days.", ["days"])
    assert any(LONG in text for text in texts_of(model.requests[1]))
    if family.native:
        result = model.requests[1].messages[-1]["content"][0]["toolResult"]
        assert result["status"] == "error"
    steps = members(reply.trace)
    assert steps.count("observation REPROMPT") == 1
    assert steps.count("observation KNOWLEDGE_BASE") == 1
    assert subject.turns("s-1")[0].trace == reply.trace

    subject, _, base = ask()
    assert asyncio.run(subject.ainvoke("How many?", "s-1")).text == "Thirty days."
    assert base.queries == ["days"]


@BOTH
@pytest.mark.parametrize("query", ["", " \n"])
def test_an_empty_query_is_told_to_the_model(family: Family, query: str) -> None:
    base = FakeKnowledgeBase(BASE, ["Thirty days a year."])
    subject, model = searching(family, base, query)
    assert subject.invoke("How many?", "s-1").text == "Thirty days."
    assert base.queries == []
    assert any("Missing the parameter 'searchQuery'" in it for it in texts_of(model.requests[1]))


@BOTH
def test_the_other_searches_of_a_reply_are_made(family: Family) -> None:
    base = FakeKnowledgeBase(BASE, ["Thirty days a year."])
    subject, model = searching(family, base, LONGEST + "q", "days")
    subject.invoke("How many?", "s-1")
    assert base.queries == ["days"]
    told = "".join(texts_of(model.requests[1]))
    assert LONG in told and "Thirty days a year." in told


@BOTH
def test_a_longest_query_is_searched(family: Family) -> None:
    base = FakeKnowledgeBase(BASE, [])
    searching(family, base, LONGEST)[0].invoke("How many?", "s-1")
    assert base.queries == [LONGEST]


@BOTH
def test_a_wrong_configuration_ends_the_turn(family: Family, tmp_path: Path) -> None:
    (tmp_path / "days.md").write_text("Thirty days a year.")
    base = LocalKnowledgeBase(tmp_path, id=BASE, embedder=None)
    subject, model = searching(family, base, "days")
    wrong = {BASE: {"vectorSearchConfiguration": {"numberOfResults": 0}}}
    with pytest.raises(ValidationError, match="numberOfResults must be a number from 1"):
        subject.invoke("How many?", "s-1", knowledge_bases=wrong)
    assert len(model.requests) == 1
