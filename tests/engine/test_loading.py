"""What `Agent.load` takes from a folder, and what its arguments replace."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from orchestrator import Agent, DefinitionError, DependencyFailed
from orchestrator.testing import ScriptedModel

DEFINITION = """
agentName: greeter
instruction: You greet the people who write to you, in one friendly sentence.
foundationModel: scripted:replies.jsonl
promptOverrideConfiguration:
  promptConfigurations:
    - promptType: PRE_PROCESSING
      promptState: ENABLED
      foundationModel: scripted:verdicts.jsonl
"""
VERDICT = "<thinking>A greeting.</thinking><category>D</category>"


def folder(path: Path) -> Path:
    (path / "agent.yaml").write_text(DEFINITION)
    (path / "replies.jsonl").write_text(json.dumps("<answer>Hello!"))
    (path / "verdicts.jsonl").write_text(json.dumps(VERDICT))
    return path


def test_scripts_are_relative_to_the_agents_folder(tmp_path: Path) -> None:
    assert Agent.load(folder(tmp_path)).invoke("Hi", "s-1").text == "Hello!"


def test_a_given_model_replaces_every_model_of_the_definition(tmp_path: Path) -> None:
    model = ScriptedModel([VERDICT, "<answer>Good day."])
    agent = Agent.load(folder(tmp_path), model=model)
    assert agent.invoke("Hi", "s-1").text == "Good day."
    assert [request.stage for request in model.requests] == ["PRE_PROCESSING", "ORCHESTRATION"]


def test_a_folder_and_its_file_name_the_same_agent(tmp_path: Path) -> None:
    found = Agent.load(folder(tmp_path) / "agent.yaml")
    assert found.invoke("Hi", "s-1").text == "Hello!"


@pytest.mark.parametrize(
    ("named", "place"),
    [("scripted:replies.jsonl", "4:18"), ("scripted:verdicts.jsonl", "9:24")],
)
def test_a_model_that_is_none_is_told_with_its_place(
    tmp_path: Path, named: str, place: str
) -> None:
    file = folder(tmp_path) / "agent.yaml"
    file.write_text(DEFINITION.replace(named, "antropic.claude-v2"))
    with pytest.raises(DefinitionError, match=r"did you mean 'anthropic\.claude-v2'") as caught:
        Agent.load(tmp_path)
    assert caught.value.place == f"{file}:{place}"
    Agent.load(tmp_path, model=ScriptedModel([]))  # then nobody asks what the definition names


class Broken(ScriptedModel):
    """A model of the user's own that raises what it likes."""

    def complete(self, request):  # type: ignore[no-untyped-def]
        raise KeyError("choices")


def test_whatever_a_model_raises_is_a_failed_dependency(tmp_path: Path) -> None:
    agent = Agent("greeter", "You greet the people who write to you.", Broken([], "my-model"))
    with pytest.raises(DependencyFailed, match="'my-model' raised KeyError") as caught:
        agent.invoke("Hi", "s-1")
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(DependencyFailed):
        asyncio.run(agent.ainvoke("Hi", "s-2"))
    assert "failureTrace" in caught.value.reply.trace[-1]["trace"]
