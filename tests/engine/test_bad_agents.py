"""Agents that are made wrong in Python: each refused as it is made, with the way out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from whole_agents import XML, Calls, answer

from orchestrator import ActionGroup, Agent, Collaborator, DefinitionError, Limits, Memory, action
from orchestrator.agent.bedrock_agent import BedrockAgent
from orchestrator.engine.plan import Features, Member, Override
from orchestrator.flows.custom import PythonOrchestration
from orchestrator.memory import InMemoryMemory, SqliteMemory
from orchestrator.testing import FakeGuardrail, FakeKnowledgeBase, ScriptedModel

INSTRUCTION = "You help the customers of an insurer."
ARN = "arn:aws:bedrock:eu-central-1:123456789012:agent-alias/ABCDEFGHIJ/TSTALIASID"
GUARD = FakeGuardrail()
STORE = InMemoryMemory()


def model(*replies: Any) -> ScriptedModel:
    return ScriptedModel([*replies], XML.model_id)


def made(**options: Any) -> Agent:
    return Agent("support", INSTRUCTION, model(), **options)


@action
def get_claim(claim_id: str) -> str:
    """Details of one claim."""
    return claim_id


def quiet(turn: Any) -> Any:
    return (yield from ())


BILLING = Agent("billing", "You know the invoices.", model())
TEAM = [Collaborator(BILLING, "Everything about invoices.")]

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "collaboration": ({"collaboration": "SUPERVISOR_ROTER"}, "'SUPERVISOR_ROTER'.*SUPERVISOR or"),
    "routes nobody": ({"collaboration": "SUPERVISOR_ROUTER"}, "'support'.*give it collaborators="),
    "routes nobody, features": ({"features": Features(routes=True)}, "give it collaborators="),
    "agent as collaborator": ({"collaborators": [BILLING]}, r"'Agent'.*Collaborator\(agent, "),
    "remote as collaborator": (
        {"collaborators": [BedrockAgent(ARN)]},
        r"'BedrockAgent'.*Collaborator\(agent, ",
    ),
    "one collaborator": ({"collaborators": TEAM[0]}, "collaborators= is a list"),
    "name as agent": ({"collaborators": [Collaborator("billing", "Bills.")]}, "and not 'billing'"),
    "collaborators in features": (
        {"features": Features(collaborators=TEAM)},
        r"holds Members.*as_member\(\)",
    ),
    "guardrail id": ({"guardrail": "gr1"}, r"BedrockGuardrail\(id\).*not 'gr1'"),
    "guardrail class": ({"guardrail": FakeGuardrail}, "not the class 'FakeGuardrail'"),
    "guardrail in features": ({"features": Features(guardrail="gr1")}, "not 'gr1'"),
    "results unguarded": ({"features": Features(guard_results=True)}, "without a guardrail="),
    "interval": ({"features": Features(guardrail=GUARD, guard_interval=0)}, "from 1, and not 0"),
    "interval of text": (
        {"features": Features(guardrail=GUARD, guard_interval="9")},
        "whole number from 1, and not '9'",
    ),
    "compat text": (
        {"features": Features(aws_compat="single_knowledge_base")},
        r"aws_compat= is a list: \['single_knowledge_base'\]",
    ),
    "no days": ({"memory": Memory(STORE, storage_days=-3)}, "storage_days= .* from 0 to 365.*-3"),
    "many days": ({"memory": Memory(STORE, storage_days=366)}, "storage_days= .*366"),
    "some days": ({"memory": Memory(STORE, storage_days=1.5)}, "storage_days= .*1.5"),
    "no sessions": (
        {"memory": Memory(STORE, max_recent_sessions=0)},
        "max_recent_sessions= .* from 1, and not 0",
    ),
    "memory": ({"memory": 30}, "InMemoryMemory.*not 30"),
    "memory store": ({"memory": Memory("memory.sqlite")}, "SqliteMemory.*not 'memory.sqlite'"),
    "memory in features": ({"features": Features(memory=STORE)}, r"Memory\(store\)"),
    "features": ({"features": {"guardrail": GUARD}}, "'dict'"),
    "orchestration": ({"orchestration": "orchestration.py"}, "LambdaOrchestration"),
    "function as group": ({"action_groups": [get_claim]}, r"ActionGroup\(\"name\", actions="),
    "group alone": (
        {"action_groups": ActionGroup("claims", actions=[get_claim])},
        "action_groups= is a list of ActionGroups",
    ),
    "groups that can be read once": (
        {"action_groups": (one for one in Calls().groups())},
        "is a list of ActionGroups, not an object of the class 'generator'",
    ),
    "name of a base": ({"knowledge_bases": "handbook"}, "is a list of KnowledgeBases"),
    "names of bases": ({"knowledge_bases": ["docs"]}, r"'docs' is none.*LocalKnowledgeBase\("),
    "base alone": ({"knowledge_bases": FakeKnowledgeBase("KB1", [])}, "knowledge_bases= is a list"),
    "limits": ({"limits": {"iterations": 3}}, r"Limits\(iterations=5\).*'dict'"),
    "time-out": ({"idle_session_ttl": 0}, "idle_session_ttl= .* from 1, and not 0"),
    "stage": ({"prompts": {"ORCHESTRATE": Override()}}, "'ORCHESTRATE'; there are .*ORCHESTRATION"),
    "prompt text": ({"prompts": {"ORCHESTRATION": "You help."}}, r"prompts\['ORCHESTRATION'\]= is"),
    "prompts": ({"prompts": ["ORCHESTRATION"]}, "prompts= is a mapping"),
    "parser unused": (
        {"override_lambda": lambda event: event},
        "override_lambda= would be ignored.*parserMode",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_argument_is_refused(wrong: str) -> None:
    options, says = WRONG[wrong]
    with pytest.raises(DefinitionError, match=says):
        made(**options)


BESIDE: dict[str, Any] = {
    "guardrail": GUARD,
    "collaborators": TEAM,
    "memory": Memory(STORE),
    "orchestration": quiet,
}


@pytest.mark.parametrize("argument", BESIDE)
def test_nothing_is_ignored_beside_features(argument: str) -> None:
    with pytest.raises(DefinitionError, match=rf"{argument}= .*Features\({argument}=\.\.\.\)"):
        made(features=Features(), **{argument: BESIDE[argument]})
    inside = BESIDE[argument]
    if argument == "collaborators":
        inside = [one.as_member() for one in inside]
    if argument == "orchestration":
        inside = PythonOrchestration(quiet)
    made(features=replace(Features(), **{argument: inside}))


def test_a_team_is_not_routed_beside_features() -> None:
    members = [one.as_member() for one in TEAM]
    with pytest.raises(DefinitionError, match=r"collaboration= .*Features\(routes=\.\.\.\)"):
        made(features=Features(collaborators=members), collaboration="SUPERVISOR_ROUTER")
    assert made(features=Features(collaborators=members, routes=True)).plan.routing is not None


def test_an_object_is_told_by_its_class_only() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "password=123"

    with pytest.raises(DefinitionError) as refused:
        made(guardrail=Secret())
    assert "123" not in str(refused.value)
    assert "an object of the class 'Secret'" in str(refused.value)


def test_a_store_is_a_memory() -> None:
    store = InMemoryMemory()
    memory = made(memory=store).plan.features.memory
    assert memory == Memory(store)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_a_memory(tmp_path: Path, kind: type) -> None:
    memory = made(memory=kind(tmp_path / "memory.sqlite")).plan.features.memory
    assert memory is not None
    assert isinstance(memory.store, SqliteMemory)


def test_the_edges_are_taken() -> None:
    for days, most in ((0, 1), (365, 1000)):
        made(memory=Memory(STORE, storage_days=days, max_recent_sessions=most))
    made(features=Features(guardrail=GUARD, guard_results=True, guard_interval=1))
    made(idle_session_ttl=1, limits=Limits(), collaborators=(), action_groups=())


def test_nothing_that_is_right_is_refused() -> None:
    asked = Agent(
        "support",
        INSTRUCTION,
        model("<a>billing</a>"),
        collaborators=[Collaborator(Agent("billing", "Bills.", model(answer("Paid."))), "Bills.")],
        collaboration="SUPERVISOR_ROUTER",
        guardrail=GUARD,
        memory=InMemoryMemory(),
        limits=Limits(iterations=3),
    )
    assert asked.invoke("Have I paid?", "s-1").text == "Paid."


def test_a_member_is_not_a_collaborator() -> None:
    member = Member("billing", "Bills.", BILLING.plan)
    with pytest.raises(DefinitionError, match="'Member' is none"):
        made(collaborators=[member])


def test_another_orchestration_is_another_plan() -> None:
    def other(turn: Any) -> Any:
        return (yield from ())

    digests = {
        made().plan.digest,
        made(orchestration=quiet).plan.digest,
        made(orchestration=other).plan.digest,
    }
    assert len(digests) == 3
