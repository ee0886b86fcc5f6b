"""Everything that a model may call is named in the grammar of its dialect, wherever it is named."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from stage_support import Handbook, asked
from whole_agents import BOTH, INSTRUCTION, NATIVE, Calls, Family, answer

from orchestrator import Agent, Collaborator
from orchestrator.engine.toolbox import Toolbox
from orchestrator.errors import DefinitionError
from orchestrator.testing import ScriptedModel

TEMPLATE = (
    '{"system": "$tools$ $any_function_name$ $agent_collaborators$ $instruction$", '
    '"messages": [{"role": "user", "content": [{"text": "$question$"}]}]}'
)
OWN = {"ORCHESTRATION": {"basePromptTemplate": TEMPLATE, "promptCreationMode": "OVERRIDDEN"}}


def team(family: Family) -> list[Collaborator]:
    other = Agent("payroll", INSTRUCTION, ScriptedModel([], family.model_id))
    return [Collaborator(other, "Knows payments.")]


@BOTH
@pytest.mark.parametrize("leads", [False, True])
def test_names_in_a_prompt(family: Family, leads: bool) -> None:
    model = family.model([answer("Hello.")])
    subject = Agent(
        "hr",
        INSTRUCTION,
        model,
        action_groups=Calls().groups(ask_user=True),
        knowledge_bases=[Handbook()],
        collaborators=team(family) if leads else (),
        prompts=OWN,
    )
    subject.invoke("Hi", "s-1")
    prompt = asked(model.requests[0])
    mark = "__" if family.native else "::"
    for name in ("vacations{}get_days", "GET{}x_amz_knowledgebase_HANDBOOK01{}Search"):
        assert name.replace("{}", mark) in prompt
    assert (f"AgentCommunication{mark}sendMessage" in prompt) is leads
    # A supervisor asks the user by a message, and so has no other way to.
    assert (f"user{mark}askuser" in prompt) is not leads
    if family.native:
        assert "::" not in prompt
        names = [tool["toolSpec"]["name"] for tool in model.requests[0].tools]
        told = {tool["name"] for tool in Toolbox(subject.plan.catalog).descriptions("tool_use")}
        assert set(names) >= told - {"user__askuser"}
        assert ("user__askuser" in names) is not leads


@BOTH
def test_names_in_what_a_model_is_told_of_its_mistakes(family: Family) -> None:
    calls = family.calls(("vacations::get_weather", {}), ("vacations::get_days", {}))
    model = family.model([calls, answer("Sorry.")])
    reply = Agent("hr", INSTRUCTION, model, action_groups=Calls().groups()).invoke("Hi", "s-1")
    mark = "__" if family.native else "::"
    told = json.dumps(model.requests[1].messages[-1]["content"])
    assert f"vacations{mark}get_weather is not a valid function" in told
    assert f"Did you mean vacations{mark}get_days" in told
    other = "::" if family.native else "__"
    assert not re.search(f"vacations{other}", told)
    reprompts = [
        part["trace"]["orchestrationTrace"]["observation"]["repromptResponse"]["text"]
        for part in reply.trace
        if "repromptResponse" in part["trace"]["orchestrationTrace"].get("observation", {})
    ]
    assert len(reprompts) == 2 and all(other not in text for text in reprompts)


@pytest.mark.parametrize("folder", ["memory", "templates", "both", "neither"])
def test_an_agent_s_own_texts_about_memory(folder: str, tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text(
        "agentName: hr\ninstruction: You help employees with their vacations.\n"
        "foundationModel: local\nmemoryConfiguration: {enabledMemoryTypes: [SESSION_SUMMARY]}\n"
    )
    if folder in ("memory", "both"):
        (tmp_path / "memory").mkdir()
        (tmp_path / "memory/memory_guideline.j2").write_text("Remember well.")
    if folder in ("templates", "both"):
        (tmp_path / "templates").mkdir()
        (tmp_path / "templates/memory_guideline.j2").write_text("Remember better.")
    subject = Agent.load(tmp_path, model=NATIVE.model([]))
    system = str(subject.render("ORCHESTRATION", "Hi").system)
    assert ("Remember well." in system) is (folder == "memory")
    assert ("Remember better." in system) is (folder in ("templates", "both"))


def test_a_templates_folder_that_is_not_there_is_still_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for name in ("templtes", "own/templates"):
        with pytest.raises(DefinitionError, match="is not there"):
            Agent("hr", INSTRUCTION, NATIVE.model([]), templates=tmp_path / name)
