"""Names in teams: what they may be, and how models write and read them."""

from __future__ import annotations

from typing import Any

import pytest
from whole_agents import BOTH, INSTRUCTION, Family, answer

from orchestrator import Agent, Collaborator, DefinitionError
from orchestrator.engine.plan import RemoteAgent
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

POST = {
    "promptState": "ENABLED",
    "promptCreationMode": "OVERRIDDEN",
    "basePromptTemplate": '{"messages": [{"role": "user", "content": [{"text": "$responses$"}]}]}',
}


def one(family: Family, name: str = "helper") -> Agent:
    return Agent(name, INSTRUCTION, family.model([answer("Helped.")]))


class Elsewhere(RemoteAgent):
    """An agent that runs elsewhere."""

    alias_arn = "arn:aws:bedrock:us-east-1:000000000000:agent-alias/AGENTID123/ALIASID123"

    def invoke(self, *given: Any) -> Any:
        raise AssertionError


@BOTH
@pytest.mark.parametrize("name", ["a/b", "two words", "", "a__b", "-a", "a" * 101, "ä", "a\n"])
def test_names_follow_bedrocks_pattern(family: Family, name: str) -> None:
    team = [Collaborator(Elsewhere(), "Helps.", name)]
    if not name:
        team = [Collaborator(one(family), "Helps.", " ")]
    with pytest.raises(DefinitionError, match="collaborator"):
        Agent("boss", INSTRUCTION, family.model([]), collaborators=team)


@BOTH
@pytest.mark.parametrize(
    "names", [("helper", "Helper"), ("helper", "helper"), ("user",), ("User",), ("USER",)]
)
def test_names_that_models_would_mix_up_are_refused(family: Family, names: tuple[str, ...]) -> None:
    team = [Collaborator(one(family), "Helps.", name) for name in names]
    with pytest.raises(DefinitionError, match="rename one"):
        Agent("boss", INSTRUCTION, family.model([]), collaborators=team)


def asking(family: Family, *calls: tuple[str, dict[str, Any]], **options: Any) -> ScriptedModel:
    script = [family.calls(*calls), answer("Done."), "<final_response>So.</final_response>"]
    model = family.model(script)
    team = [Collaborator(one(family), "Helps.")]
    Agent("boss", INSTRUCTION, model, collaborators=team, **options).invoke("q", "s-1")
    return model


@BOTH
def test_mistakes_are_told_in_the_grammar_of_the_model(family: Family) -> None:
    sends = ("AgentCommunication::sendMessage", {"recipient": "helper", "content": " "})
    model = asking(family, sends)
    name = "AgentCommunication__sendMessage" if family.native else "AgentCommunication::sendMessage"
    told = str(model.requests[1].messages)
    assert f"{name} " in told and "sendMessage" not in told.replace(name, "")


@BOTH
def test_what_answered_is_named_in_the_grammar_of_the_model(family: Family) -> None:
    sends = ("AgentCommunication::sendMessage", {"recipient": "helper", "content": "Help."})
    search = ("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "q"})
    base = FakeKnowledgeBase("HANDBOOK01", ["A passage."])
    model = asking(family, sends, search, knowledge_bases=[base], prompts={"POST_PROCESSING": POST})
    told = str(model.requests[-1].messages)
    for name in (sends[0], search[0]):
        assert (name.replace("::", "__") if family.native else name) in told
        assert (name if family.native else name.replace("::", "__")) not in told
