"""Attack 17, on definitions in a call: whoever sends one wants the host's programs and secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Agent
from orchestrator.errors import DefinitionError
from orchestrator.testing import ScriptedModel

MODEL = "anthropic.claude-3-5-sonnet-20240620-v1:0"
INSTRUCTION = "You help employees with their vacations, and with nothing else."
API = {
    "openapi": "3.0.0",
    "info": {"title": "t", "version": "1"},
    "servers": [{"url": "https://api.example.com"}],
    "paths": {"/x": {"get": {"operationId": "x", "description": "d", "responses": {}}}},
}


def group(executor: dict[str, Any]) -> dict[str, Any]:
    schema = {} if "mcp" in executor else {"apiSchema": {"payload": json.dumps(API)}}
    made = {"actionGroupName": "g", "actionGroupExecutor": executor, **schema}
    return {"actionGroups": [made]}


def stage(spec: str) -> dict[str, Any]:
    configuration = {"promptType": "PRE_PROCESSING", "foundationModel": spec}
    return {"promptOverrideConfiguration": {"promptConfigurations": [configuration]}}


REACHING: dict[str, tuple[dict[str, Any], str]] = {
    "a variable": (group({"http": {"headers": {"X": "${env:CANARY}"}}}), "header 'X'"),
    "a part of a header": (group({"http": {"headers": {"X": "a ${env:HOME}"}}}), "header 'X'"),
    "an attribute": (group({"http": {"headers": {"X": "${session:t}"}}}), "header 'X'"),
    "an MCP server's header": (
        group({"mcp": {"url": "https://x.example", "headers": {"X": "${env:CANARY}"}}}),
        "header 'X'",
    ),
    "a private host": (group({"http": {"allowPrivate": ["localhost"]}}), "'localhost' in a priv"),
    "a loopback model": ({"foundationModel": "openai:m@http://127.0.0.1:11434/v1"}, "an address"),
    "metadata": ({"foundationModel": "openai:m@http://169.254.169.254/"}, "at an address"),
    "a stage's model": (stage("openai:m@http://localhost/v1"), "at an address"),
    "an embedder": (
        {
            "knowledgeBases": [
                {
                    "knowledgeBaseId": "K",
                    "description": "d",
                    "folder": "kb",
                    "embedder": "openai:m@http://localhost/v1",
                }
            ]
        },
        "the embedder",
    ),
}


@pytest.mark.parametrize("way", REACHING)
@pytest.mark.parametrize("in_folder", [False, True])
def test_it_does_not_reach_out_of_itself(way: str, in_folder: bool, tmp_path: Path) -> None:
    members, why = REACHING[way]
    (tmp_path / "kb").mkdir()
    given = {"foundationModel": MODEL, "instruction": INSTRUCTION, **members}
    with pytest.raises(DefinitionError, match=why) as caught:
        Agent.inline(**given, folder=tmp_path if in_folder else None)
    assert "pass trusted=True" in str(caught.value)


@pytest.mark.parametrize("in_folder", [False, True])
def test_it_starts_no_program(in_folder: bool, tmp_path: Path) -> None:
    made = tmp_path / "made"
    members = group({"mcp": {"command": ["touch", str(made)]}})
    members["actionGroups"][0]["environment"] = {"X": "${env:CANARY}"}
    given = {"foundationModel": MODEL, "instruction": INSTRUCTION, **members}
    with pytest.raises(DefinitionError, match="'g' would start 'touch'; pass trusted=True"):
        Agent.inline(**given, folder=tmp_path if in_folder else None)
    assert not made.exists()


def test_neither_do_those_that_it_leads(tmp_path: Path) -> None:
    led = {"agentName": "led", "instruction": INSTRUCTION, "foundationModel": MODEL}
    with pytest.raises(DefinitionError, match="pass trusted=True"):
        Agent.inline(
            foundationModel=MODEL,
            instruction=INSTRUCTION,
            agentCollaboration="SUPERVISOR",
            collaborators=[{**led, **REACHING["a variable"][0]}],
            collaboratorConfigurations=[
                {"collaboratorName": "led", "collaboratorInstruction": "For all."}
            ],
        )


def test_one_that_is_trusted_does(tmp_path: Path) -> None:
    for way in ("a variable", "a private host", "a loopback model"):
        given = {"foundationModel": MODEL, **REACHING[way][0]}
        assert Agent.inline(instruction=INSTRUCTION, trusted=True, **given).plan


def test_hundreds_of_agents_that_lead_agents_are_refused() -> None:
    names = [f"a{number}" for number in range(400)]

    def leads(name: str) -> dict[str, Any]:
        one = {"collaboratorName": name, "collaboratorInstruction": "For all."}
        return {"agentCollaboration": "SUPERVISOR", "collaboratorConfigurations": [one]}

    team = [
        {"agentName": name, "instruction": INSTRUCTION, **leads(after)}
        for name, after in zip(names, [*names[1:], "last"], strict=True)
    ]
    with pytest.raises(DefinitionError, match="there are 4 levels of agents"):
        Agent.inline(
            model=ScriptedModel([], MODEL),
            instruction=INSTRUCTION,
            collaborators=[*team, {"agentName": "last", "instruction": INSTRUCTION}],
            **leads("a0"),
        )
