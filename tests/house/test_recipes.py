"""The recipes of docs/architecture.md are carried out on a copy of the package, and used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import house
import pytest
from left_out import sampled

PAGE = house.ROOT / "docs" / "architecture.md"
RECIPE = re.compile(r"^### (?P<title>.+?): .+?$(?P<text>.*?)(?=^### |\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(
    r"^<!-- no-run: (?P<verb>new file|change) (?P<file>\S+) -->\n```\w+\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
# How many files each recipe may have one open: more would be a worse house.
MOST_FILES = {"A dialect": 1, "A model provider": 2, "An executor": 3, "A store of sessions": 2}

USES = {
    "A dialect": """
        from orchestrator import Agent
        from orchestrator.prompts import load_dialect
        from orchestrator.testing import ScriptedModel

        assert load_dialect("acme").name == "acme"
        model = ScriptedModel(["<answer>Three.</answer>"], model_id="acme.large-1")
        instruction = "Answers questions about claims of customers."
        agent = Agent(name="a", instruction=instruction, model=model)
        assert agent.invoke("How many?").text == "Three."
    """,
    "A model provider": """
        from orchestrator import Agent

        model = "echo:anthropic.claude-3-haiku"
        instruction = "Answers questions about claims of customers."
        agent = Agent(name="a", instruction=instruction, model=model)
        assert agent.invoke("How many?").text == "How many?"
    """,
    "An executor": """
        from pathlib import Path

        from orchestrator import Agent
        from orchestrator.testing import ScriptedModel

        Path("agent").mkdir()
        Path("agent/agent.yaml").write_text('''
        agentName: a
        instruction: Answers questions about claims of customers.
        foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0
        actionGroups:
          - actionGroupName: claims
            actionGroupExecutor: {echo: true}
            functionSchema:
              functions: [{name: get, parameters: {id: {type: string, required: true}}}]
        '''.replace("\\n        ", "\\n"))
        call = {"toolUse": {"toolUseId": "t", "name": "claims__get", "input": {"id": "c-1"}}}
        model = ScriptedModel([[call], "<answer>Open.</answer>"], "anthropic.claude-3-5-sonnet")
        agent = Agent.load("agent", model=model)
        assert agent.invoke("Is c-1 open?").text == "Open."
        assert "c-1" in str(model.requests[1].messages[-1])
    """,
    "A store of sessions": """
        from orchestrator import Agent
        from orchestrator.sessions import FileStore, Sessions
        from orchestrator.testing import ScriptedModel

        def ask(question, reply):
            model = ScriptedModel([f"<answer>{reply}</answer>"], "anthropic.claude-3-5-sonnet")
            sessions = Sessions(FileStore("sessions"))
            instruction = "Answers questions about claims of customers."
            agent = Agent(name="a", instruction=instruction, model=model, sessions=sessions)
            assert agent.invoke(question, session_id="s-1").text == reply
            return str(model.requests[0].messages)

        ask("How many?", "Three.")
        assert "Three." in ask("Which?", "These.")
    """,
}


def recipes() -> dict[str, str]:
    return {it["title"]: it["text"] for it in RECIPE.finditer(PAGE.read_text(encoding="utf-8"))}


def test_every_recipe_is_carried_out_here_and_opens_few_files() -> None:
    files = {title: len(BLOCK.findall(text)) for title, text in recipes().items()}
    assert files == MOST_FILES
    assert Counter(files) == Counter({title: MOST_FILES[title] for title in USES})


@pytest.mark.parametrize("title", sampled(USES))
def test_the_recipe_works(title: str, tmp_path: Path) -> None:
    for folder in ("orchestrator", "templates", "memory", "action_groups"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(house.ROOT / folder, tmp_path / folder, ignore=ignored)
    for block in BLOCK.finditer(recipes()[title]):
        carry_out(block["verb"], tmp_path / block["file"], block["text"])
    program = re.sub(r"^ {8}", "", USES[title], flags=re.MULTILINE)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def carry_out(verb: str, file: Path, text: str) -> None:
    if verb == "new file":
        file.parent.mkdir(parents=True, exist_ok=True)
        assert not file.exists()
        file.write_text(text, encoding="utf-8")
        return
    lines = text.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] == " ")
    after = "".join(line[1:] for line in lines)
    content = file.read_text(encoding="utf-8")
    assert content.count(before) == 1, f"{before!r} is not there once in {file.name}"
    file.write_text(content.replace(before, after), encoding="utf-8")
