"""Teams that are loaded from folders: models, sessions, mistakes with their places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from crew import blocks
from whole_agents import CLAUDE_35

from orchestrator import Agent, DefinitionError
from orchestrator.testing import ScriptedModel

LEADS = """\
agentName: {name}
instruction: You lead the agents of a shop and answer its customers with their help.
foundationModel: scripted:replies.jsonl@{model}
agentCollaboration: {how}
agentCollaborators:
  - collaboratorName: helper
    agentDescriptor: {{folder: helper}}
    collaborationInstruction: Knows the prices.
    relayConversationHistory: {relay}
"""
ALONE = """\
agentName: helper
instruction: You help the agent that leads you with everything that it asks you for.
foundationModel: scripted:replies.jsonl@{model}
"""


def write(folder: Path, text: str, *replies: Any, **members: str) -> Path:
    folder.mkdir(exist_ok=True)
    told = {"model": CLAUDE_35, "how": "SUPERVISOR", "relay": "DISABLED", "name": "boss"} | members
    (folder / "agent.yaml").write_text(text.format(**told))
    lines = [json.dumps(one if isinstance(one, str) else blocks(one, "t")) for one in replies]
    (folder / "replies.jsonl").write_text("\n".join(lines))
    return folder


def team(path: Path, **members: str) -> Path:
    asks = [("helper", "What is a pen?")]
    write(path, LEADS, asks, "<answer>3 euros.</answer>", **members)
    write(path / "helper", ALONE, "<answer>A pen is 3.</answer>")
    return path


def test_each_folder_has_its_own_model_and_files(tmp_path: Path) -> None:
    reply = Agent.load(team(tmp_path)).invoke("A pen?", "s-1")
    assert reply.text == "3 euros."
    assert {part.get("collaboratorName") for part in reply.trace} == {None, "helper"}


def test_a_given_model_is_every_agents(tmp_path: Path) -> None:
    script = [blocks([("helper", "A pen?")], "t"), "<answer>3.</answer>", "<answer>Three.</answer>"]
    model = ScriptedModel(script, CLAUDE_35)
    assert Agent.load(team(tmp_path), model=model).invoke("A pen?", "s-1").text == "Three."
    assert len(model.requests) == 3


def test_the_way_of_leading_and_the_relay_are_read(tmp_path: Path) -> None:
    agent = Agent.load(team(tmp_path, how="SUPERVISOR_ROUTER", relay="TO_COLLABORATOR"))
    assert agent.plan.routing is not None
    assert agent.plan.collaborators["helper"].relay
    assert agent.plan.depth == 2


def test_an_agent_that_does_not_lead_loads_nobody(tmp_path: Path) -> None:
    agent = Agent.load(team(tmp_path, how="DISABLED"))
    assert agent.plan.collaborators == {}


def test_a_collaborator_runs_alone_too(tmp_path: Path) -> None:
    assert Agent.load(team(tmp_path) / "helper").invoke("A pen?", "s-1").text == "A pen is 3."


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (ALONE + "instructon: x\n", 4, "'instructon' is not a member of an agent"),
        (ALONE.replace("scripted:replies.jsonl@{model}", "gpt-5"), 3, "gpt-5"),
        (ALONE + "guardrailConfiguration: {{file: gone.yaml}}\n", 4, "no file 'gone.yaml'"),
        (ALONE + "agentCollaboration: SUPERVISOR\n", 4, "needs agentCollaborators"),
    ],
)
def test_a_collaborators_mistake_names_its_own_file_and_line(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    team(tmp_path)
    write(tmp_path / "helper", text)
    with pytest.raises(DefinitionError) as caught:
        Agent.load(tmp_path)
    error = caught.value
    assert message in error.reason
    assert (Path(error.file or ""), error.line) == (tmp_path / "helper" / "agent.yaml", line)


def test_a_folder_without_an_agent_is_told(tmp_path: Path) -> None:
    (team(tmp_path) / "helper" / "agent.yaml").unlink()
    with pytest.raises(DefinitionError, match=r"helper: the folder has no agent\.yaml"):
        Agent.load(tmp_path)


def test_a_fourth_level_is_refused_with_its_place(tmp_path: Path) -> None:
    folder = tmp_path
    for level in range(3):
        write(folder, LEADS, name=f"level{level}")
        last, folder = folder, folder / "helper"
    write(folder, ALONE)
    with pytest.raises(DefinitionError, match="there are 4 levels") as caught:
        Agent.load(tmp_path)
    assert (caught.value.file, caught.value.line) == (str(last / "agent.yaml"), 7)


def test_hundreds_of_levels_are_refused_before_they_are_read(tmp_path: Path) -> None:
    folder = tmp_path
    for level in range(3):
        write(folder, LEADS, name=f"level{level}")
        folder = folder / "helper"
    for _ in range(200):  # none of these is looked at
        folder.mkdir()
        (folder / "agent.yaml").write_text("agentName: [")
        folder = folder / "h"
    with pytest.raises(DefinitionError, match="there are 4 levels"):
        Agent.load(tmp_path)


@pytest.mark.parametrize("link", [".", "..", "../.."])
def test_no_link_makes_an_agent_lead_itself(link: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "boss", LEADS)
    write(folder / "helper", LEADS)
    (folder / "helper" / "helper").symlink_to(link, target_is_directory=True)
    with pytest.raises(DefinitionError) as caught:
        Agent.load(folder)
    assert (Path(caught.value.file or ""), caught.value.line) == (
        folder / "helper" / "agent.yaml",
        7,
    )


def test_an_agent_of_bedrock_is_named_by_its_alias(tmp_path: Path) -> None:
    arn = "arn:aws:bedrock:eu-central-1:123456789012:agent-alias/AAAAAAAAAA/BBBBBBBBBB"
    where = f"{{{{aliasArn: '{arn}'}}}}"
    write(tmp_path, LEADS.replace("{{folder: helper}}", where))
    agent = Agent.load(tmp_path)
    member = agent.plan.collaborators["helper"]
    assert (member.alias_arn, member.agent) == (arn, None)
