"""A stage that is switched off does not run, whatever else the agent has."""

from __future__ import annotations

import pytest
from stage_support import agent, stages
from whole_agents import BOTH, INSTRUCTION, Family, answer

from orchestrator import Agent, Collaborator
from orchestrator.testing import ScriptedModel

OFF = {"promptState": "DISABLED"}


@BOTH
@pytest.mark.parametrize("off", [False, True])
def test_a_router_without_its_stage_is_a_supervisor(family: Family, off: bool) -> None:
    member = Agent("payroll", INSTRUCTION, ScriptedModel([answer("Paid.")], family.model_id))
    model = family.model([answer("I do it myself.")] if off else ["<a>payroll</a>"])
    subject = agent(
        model,
        collaborators=[Collaborator(member, "Knows payments.")],
        collaboration="SUPERVISOR_ROUTER",
        prompts={"ROUTING_CLASSIFIER": OFF} if off else {},
    )
    assert subject.invoke("Am I paid?", "s-1").text == ("I do it myself." if off else "Paid.")
    assert stages(model) == ["ORCHESTRATION" if off else "ROUTING_CLASSIFIER"]


@BOTH
@pytest.mark.parametrize("stage", ["PRE_PROCESSING", "POST_PROCESSING"])
def test_a_template_of_one_s_own_can_be_off(family: Family, stage: str) -> None:
    template = '{"messages": [{"role": "user", "content": [{"text": "$question$"}]}]}'
    own = {**OFF, "promptCreationMode": "OVERRIDDEN", "basePromptTemplate": template}
    model = family.model([answer("Hello.")])
    assert agent(model, prompts={stage: own}).invoke("Hi", "s-1").text == "Hello."
    assert stages(model) == ["ORCHESTRATION"]
