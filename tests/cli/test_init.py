"""`orchestrator init`: a new agent that runs at once."""

import json
import os
import subprocess
import sys

import pytest

from orchestrator.definition import load_definition


def test_the_new_agent_is_whole(run, shop):
    definition = load_definition(shop)
    assert definition.agent_name == "shop"
    assert definition.foundation_model == "local"
    names = {str(file.relative_to(shop)) for file in shop.rglob("*") if file.is_file()}
    assert names == {
        ".gitignore",
        "README.md",
        "action_groups/orders/handler.py",
        "action_groups/orders/openapi.yaml",
        "agent.schema.json",
        "agent.yaml",
        "memory/README.md",
        "templates/README.md",
        "tests/test_agent.py",
    }


def test_editors_find_the_schema(run, shop):
    first = (shop / "agent.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=agent.schema.json"
    schema = json.loads((shop / "agent.schema.json").read_text())
    assert "agentName" in schema["properties"]
    assert schema == json.loads(run("schema").stdout)


def test_its_tests_pass(shop):
    # What the run of this test was given for its own output is not meant for that one.
    environment = {name: it for name, it in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(shop)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_nothing_is_overwritten(run, shop):
    before = (shop / "agent.yaml").read_text()
    done = run("init", shop, "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["message"].startswith("'shop' exists already")
    assert (shop / "agent.yaml").read_text() == before


def test_an_empty_folder_is_fine(run, place):
    (place / "new").mkdir()
    done = run("init", "new", "--json")
    assert done.exit_code == 0
    assert "agent.yaml" in json.loads(done.stdout)["files"]


@pytest.mark.parametrize(
    ("folder", "name"), [("My Agent (2)", "My-Agent-2"), ("__", "agent"), ("a" * 120, "a" * 100)]
)
def test_any_folder_gives_a_name(run, folder, name):
    assert run("init", folder).exit_code == 0
    assert load_definition(folder).agent_name == name


def test_the_model_is_checked_before_anything_is_written(run, place):
    assert run("init", "new", "--model", "gpt-5").exit_code == 2
    assert not (place / "new").exists()
    model = "openai:llama3.1@http://127.0.0.1:11434/v1"
    assert run("init", "new", "--model", model).exit_code == 0
    assert load_definition("new").foundation_model == model


def test_the_schema_can_be_written_to_a_file(run, place):
    done = run("schema", "--output", "s.json", "--json")
    assert json.loads(done.stdout) == {"file": "s.json"}
    assert json.loads((place / "s.json").read_text())["title"] == "An agent"


def test_what_to_do_next_can_be_typed_as_it_stands(run, monkeypatch):
    shown = run("init", "my agent").stdout
    assert "  orchestrator chat 'my agent' " in shown
    assert "  python -m pytest 'my agent' " in shown and "pip install" not in shown
    monkeypatch.setattr("orchestrator.cli.init.find_spec", lambda name: None)
    assert "  pip install pytest " in run("init", "other").stdout
