"""What `Agent.load` takes from a folder, and what its arguments replace."""

from __future__ import annotations

import asyncio
import json
import re
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
    path.mkdir(exist_ok=True)
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


def test_the_id_of_a_definition_is_the_agents(tmp_path: Path) -> None:
    with_id, without = folder(tmp_path / "one"), folder(tmp_path / "two")
    file = with_id / "agent.yaml"
    file.write_text(file.read_text() + "agentId: ABCDEFGHIJ\n")
    sessions = tmp_path / "s.db"
    agents = [Agent.load(one, sessions=sessions) for one in (with_id, without)]
    assert agents[0].plan.agent_id == "ABCDEFGHIJ" != agents[1].plan.agent_id
    agents[0].invoke("My secret.", "s-1")
    assert "My secret." not in str(agents[1].render("ORCHESTRATION", "Hello?", "s-1").messages)


def test_an_id_that_is_none_is_told_with_its_place(tmp_path: Path) -> None:
    file = folder(tmp_path) / "agent.yaml"
    text = file.read_text()
    file.write_text(text + "agentId: my-agent\n")
    with pytest.raises(DefinitionError, match="ten letters and digits") as caught:
        Agent.load(tmp_path)
    assert caught.value.line == text.count("\n") + 1


def test_a_templates_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nope", str(tmp_path / "nope"), tmp_path / "file"):
        with pytest.raises(DefinitionError, match=re.escape(repr(str(path)))):
            Agent("a", "Help.", "local", templates=path)


def test_whatever_a_model_raises_is_a_failed_dependency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_DEBUG", "1")
    agent = Agent("greeter", "You greet the people who write to you.", Broken([], "my-model"))
    with pytest.raises(DependencyFailed, match="'my-model' raised KeyError") as caught:
        agent.invoke("Hi", "s-1")
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(DependencyFailed):
        asyncio.run(agent.ainvoke("Hi", "s-2"))
    assert "failureTrace" in caught.value.reply.trace[-1]["trace"]
