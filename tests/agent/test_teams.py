"""Inline agents that lead others: definitions by name, and agents elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from inline_support import INSTRUCTION, called, group, handler, scripted

from orchestrator import Agent, DefinitionError

SEND = "AgentCommunication__sendMessage"


def collaborator(name: str, model: Any, *leads: str, **changes: Any) -> dict[str, Any]:
    led = {"agentCollaboration": "SUPERVISOR", "collaboratorConfigurations": list(map(lead, leads))}
    given = {"agentName": name, "foundationModel": model, "instruction": INSTRUCTION}
    return {**given, **(led if leads else {}), **changes}


def lead(name: str, **changes: Any) -> dict[str, Any]:
    told = {"collaboratorName": name, "collaboratorInstruction": f"For what {name} knows."}
    return {**told, **changes}


def team(model: Any, *collaborators: Any, **changes: Any) -> dict[str, Any]:
    return {
        "foundationModel": model,
        "instruction": INSTRUCTION,
        "agentCollaboration": "SUPERVISOR",
        "collaborators": list(collaborators),
        "collaboratorConfigurations": [lead(str(collaborators[0]["agentName"]))],
        **changes,
    }


def test_a_collaborator_is_defined_beside_its_supervisor() -> None:
    days = scripted(called(), "<answer>12</answer>")
    model = scripted(
        called(SEND, recipient="days", content="How many?"), "<answer>It is 12.</answer>"
    )
    agent = Agent.inline(**team(model, collaborator("days", days, actionGroups=[group(handler)])))
    reply = agent.invoke("How many are left?", "s-1")
    assert reply.text == "It is 12."
    assert "For what days knows." in model.requests[0].system
    below = [part for part in reply.trace if part.get("collaboratorName") == "days"]
    assert below
    assert not any("agentId" in part for part in reply.trace)
    assert {len(part["callerChain"]) for part in below} == {2}


def test_collaborators_lead_others_of_the_same_list() -> None:
    low = scripted("<answer>12</answer>")
    middle = scripted(called(SEND, recipient="low", content="And you?"), "<answer>12!</answer>")
    top = scripted(called(SEND, recipient="middle", content="You?"), "<answer>Twelve.</answer>")
    agent = Agent.inline(
        **team(top, collaborator("middle", middle, "low"), collaborator("low", low))
    )
    assert agent.plan.depth == 3
    assert agent.invoke("How many?", "s-1").text == "Twelve."
    assert "And you?" in str(low.requests[0].messages)


def test_a_router_sends_inputs_to_one_of_them_at_once() -> None:
    days = scripted("<answer>12</answer>")
    model = scripted("<a>days</a>")
    agent = Agent.inline(
        **team(model, collaborator("days", days), agentCollaboration="SUPERVISOR_ROUTER")
    )
    assert agent.invoke("How many?", "s-1").text == "12"


def test_the_conversation_is_relayed_when_that_is_asked_for() -> None:
    led = [lead("days", relayConversationHistory="TO_COLLABORATOR")]
    agent = Agent.inline(
        **team(scripted(), collaborator("days", scripted()), collaboratorConfigurations=led)
    )
    assert agent.plan.collaborators["days"].relay


def test_agents_in_aws_are_named_by_their_alias() -> None:
    pytest.importorskip("orchestrator.agent.bedrock_agent")
    arn = "arn:aws:bedrock:eu-west-1:123456789012:agent-alias/AGENT12345/ALIAS12345"
    led = [lead("days", agentAliasArn=arn)]
    agent = Agent.inline(**team(scripted(), {"agentName": "x"}, collaboratorConfigurations=led))
    assert agent.plan.collaborators["days"].alias_arn == arn


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"agentCollaboration": None}, "no agentCollaboration: set it to SUPERVISOR"),
        ({"collaboratorConfigurations": []}, "leads others and has no collaboratorConfigurations"),
        ({"collaborators": []}, "leads 'days', which has no agentAliasArn .* there are none"),
        ({"collaboratorConfigurations": [lead("dais")]}, "leads 'dais'.*there are days"),
        ({"collaboratorConfigurations": [lead("days"), lead("days")]}, "second collaborator"),
        ({"collaboratorConfigurations": ["days"]}, "is a mapping, not 'str'"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], said: str) -> None:
    given = team(scripted(), collaborator("days", scripted()), **changes)
    with pytest.raises(DefinitionError, match=said):
        Agent.inline(**given)


def test_agents_that_lead_each_other_are_refused() -> None:
    agents = [collaborator("one", scripted(), "two"), collaborator("two", scripted(), "one")]
    with pytest.raises(DefinitionError, match="in a circle: INLINE_AGENT → one → two → one"):
        Agent.inline(**team(scripted(), *agents))
    with pytest.raises(DefinitionError, match="in a circle: INLINE_AGENT → one → one"):
        Agent.inline(**team(scripted(), collaborator("one", scripted(), "one")))
