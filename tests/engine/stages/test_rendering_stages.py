"""`Agent.render` shows what a stage outside the loop is told of a question."""

from __future__ import annotations

import pytest

from orchestrator import Agent, Collaborator, Memory
from orchestrator.testing import ScriptedModel

SONNET = "anthropic.claude-3-5-sonnet-20240620-v1:0"
INSTRUCTION = "You look after the customers of a shop and their orders."


def supervisor(*script: str) -> Agent:
    other = Agent("orders", INSTRUCTION, ScriptedModel([], SONNET))
    return Agent(
        "shop",
        INSTRUCTION,
        ScriptedModel(list(script), SONNET),
        collaborators=[Collaborator(other, "Orders.")],
        collaboration="SUPERVISOR_ROUTER",
        memory=Memory(),
    )


@pytest.mark.parametrize(
    "stage", ["ROUTING_CLASSIFIER", "MEMORY_SUMMARIZATION", "KNOWLEDGE_BASE_RESPONSE_GENERATION"]
)
def test_a_stage_is_shown_with_its_question(stage: str) -> None:
    prompt = supervisor().render(stage, "Where is my parcel?")
    assert "Where is my parcel?" in prompt.system + str(list(prompt))


@pytest.mark.parametrize("stage", ["ROUTING_CLASSIFIER", "MEMORY_SUMMARIZATION"])
def test_a_stage_is_shown_with_what_was_said_before(stage: str) -> None:
    agent = supervisor("<a>undecidable</a>", "<answer>It is on its way.</answer>")
    agent.invoke("Where is my parcel?", "s-1")
    shown = str(list(agent.render(stage, "And when will it be here?", "s-1")))
    for said in ("Where is my parcel?", "It is on its way.", "And when will it be here?"):
        assert said in shown


def test_the_shown_routing_prompt_is_the_one_that_is_sent() -> None:
    agent = supervisor("<a>undecidable</a>", "<answer>It is on its way.</answer>")
    shown = agent.render("ROUTING_CLASSIFIER", "Where is my parcel?")
    agent.invoke("Where is my parcel?", "s-1")
    model = agent.plan.orchestration.model
    assert isinstance(model, ScriptedModel)
    assert list(shown) == list(model.requests[0].messages)
