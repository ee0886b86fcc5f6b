"""Attack 10, on models: a definition names files outside of its folder as scripts and weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import Agent
from orchestrator.errors import DefinitionError

INSTRUCTION = "You help employees with their vacations, and with nothing else."
CANARY = '"<answer>canary-71c</answer>"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent's folder, beside files that are none of its business."""
    for name in ("secret.jsonl", "secret@claude.jsonl", "secret.gguf", "secret.GGUF"):
        (tmp_path / name).write_text(CANARY)
    made = tmp_path / "agent"
    made.mkdir()
    (made / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (made / "own.jsonl").write_text('"<answer>own</answer>"\n')
    return made


def outside(folder: Path) -> list[str]:
    above = folder.parent
    return [
        f"scripted:{above}/secret.jsonl",
        f"scripted:{above}/secret.jsonl@anthropic.claude-3-5-sonnet-20240620-v1:0",
        "scripted:../secret.jsonl",
        "scripted:../secret@claude.jsonl",
        "scripted:link.jsonl",
        f" scripted:{above}/secret.jsonl",
        f"replay:{above}/secret.jsonl",
        "replay:../secret.jsonl",
        f"local:{above}/secret.gguf",
        f"local:{above}/secret.GGUF",
        "local:../secret.gguf",
        "local:~/secret.gguf",
    ]


def write(folder: Path, spec: str, more: str = "") -> None:
    (folder / "agent.yaml").write_text(
        f"agentName: a\ninstruction: {INSTRUCTION}\nfoundationModel: '{spec}'\n{more}"
    )


def stage(spec: str) -> dict[str, object]:
    return {"promptType": "PRE_PROCESSING", "promptState": "ENABLED", "foundationModel": spec}


@pytest.mark.parametrize("number", range(12))
def test_a_definition_names_no_file_outside(folder: Path, number: int) -> None:
    spec = outside(folder)[number]
    write(folder, spec)
    with pytest.raises(DefinitionError, match="folder") as caught:
        Agent.load(folder)
    assert "canary" not in str(caught.value)
    assert caught.value.place == f"{folder / 'agent.yaml'}:3:18"
    configuration = f"promptOverrideConfiguration: {{promptConfigurations: [{stage(spec)}]}}\n"
    write(folder, "scripted:own.jsonl", configuration)
    with pytest.raises(DefinitionError, match="folder"):
        Agent.load(folder)


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("member", ["foundationModel", "promptOverrideConfiguration"])
def test_neither_does_one_in_a_call(folder: Path, number: int, member: str) -> None:
    spec = outside(folder)[number]
    given: dict[str, object] = {"foundationModel": "anthropic.claude-v2", member: spec}
    if member == "promptOverrideConfiguration":
        given[member] = {"promptConfigurations": [stage(spec)]}
    for options in ({}, {"folder": folder}, {"folder": folder, "trusted": True}):
        with pytest.raises(DefinitionError, match="folder"):
            Agent.inline(instruction=INSTRUCTION, **given, **options)


def test_its_own_files_and_those_that_code_names_are_used(folder: Path) -> None:
    write(folder, "scripted:own.jsonl")
    assert Agent.load(folder).invoke("Hi", "s-1").text == "own"
    made = Agent.inline(
        instruction=INSTRUCTION, foundationModel="scripted:own.jsonl", folder=folder
    )
    assert made.invoke("Hi", "s-1").text == "own"
    spec = f"scripted:{folder.parent}/secret.jsonl"
    assert Agent("a", INSTRUCTION, spec).invoke("Hi", "s-1").text == "canary-71c"
    assert Agent.load(folder, model=spec).invoke("Hi", "s-1").text == "canary-71c"
    replaced = Agent.inline(instruction=INSTRUCTION, foundationModel="replay:/no", model=spec)
    assert replaced.invoke("Hi", "s-1").text == "canary-71c"
