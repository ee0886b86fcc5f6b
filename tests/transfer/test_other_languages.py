"""Templates in other languages than Bedrock's: what becomes of them on the way, and who is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transfer_support import TEMPLATE, Place, place, plain, write

from orchestrator.errors import DefinitionError
from orchestrator.transfer import changes, difference, files_of, read_agent, read_folder

PROMPTY = "system:\n{{instruction}}\nuser:\n{{question}}"
HOW = ("loose", "named", "inline")


def agent(folder: Path, how: str, text: str = PROMPTY, ending: str = "prompty") -> Path:
    data = plain("claims")
    files = {
        "loose": f"templates/orchestration.{ending}",
        "named": f"prompts/x.{ending}",
    }
    stage: dict[str, Any] = {"promptType": "ORCHESTRATION"}
    if how == "inline":
        stage |= {"basePromptTemplate": text, "templateFormat": "prompty"}
    else:
        file = folder / files[how]
        file.parent.mkdir(parents=True)
        file.write_text(text)
        stage["basePromptTemplateFile"] = files[how]
    if how != "loose":
        data["promptOverrideConfiguration"] = {"promptConfigurations": [stage]}
    return write(folder, data)


@pytest.mark.parametrize("how", HOW)
def test_it_is_not_pushed_and_that_is_told(there: Place, folder: Path, how: str) -> None:
    document = read_folder(agent(folder, how))
    with pytest.raises(DefinitionError, match="which Bedrock does not"):
        there.push(document)
    pushed = there.push(document, skip=True)
    assert [it.code for it in pushed.notes] == ["not-portable"]
    found = difference(document, there.remote)
    assert (found.changes, [it.code for it in found.notes]) == ([], ["not-portable"])


@pytest.mark.parametrize("how", HOW)
def test_a_pull_leaves_its_file_and_tells_what_changes(
    there: Place, folder: Path, how: str
) -> None:
    pushed = there.push(read_folder(agent(folder, how)), skip=True)
    made = changes(files_of(read_agent(there.remote, pushed.agent_id)), folder)
    assert [it.path for it in made if it.path != "agent.yaml"] == []


@pytest.mark.parametrize("how", HOW)
def test_one_of_a_served_folder_is_told_without_its_language(folder: Path, how: str) -> None:
    with place(agents=agent(folder, how)) as there:
        (summary,) = there.remote.call("agents", "list_agents")["agentSummaries"]
        told = there.remote.call("it", "get_agent", agentId=summary["agentId"])["agent"]
        stages = told["promptOverrideConfiguration"]["promptConfigurations"]
        (stage,) = [it for it in stages if it["promptType"] == "ORCHESTRATION"]
        assert (stage["basePromptTemplate"], stage["promptCreationMode"]) == (PROMPTY, "OVERRIDDEN")
        pulled = read_agent(there.remote, summary["agentId"])
    (found,) = [it for it in pulled.notes if it.code == "template-language"]
    assert "ORCHESTRATION" in found.message and "templateFormat" in found.suggestion


@pytest.mark.parametrize("text", [TEMPLATE, TEMPLATE.replace("sailor", "{{sailor}}")])
def test_bedrocks_own_is_not_taken_for_another(there: Place, folder: Path, text: str) -> None:
    pushed = there.push(read_folder(agent(folder, "named", text, "txt")))
    pulled = read_agent(there.remote, pushed.agent_id)
    assert "template-language" not in [it.code for it in pulled.notes]
