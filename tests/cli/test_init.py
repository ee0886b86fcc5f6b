"""`orchestrator init`: a new agent that runs at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.examples import FIRST_COMMANDS
from orchestrator.definition import load_definition


def run_tests(folder):
    # What the run of this test was given for its own output is not meant for that one.
    environment = {name: it for name, it in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


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
    assert "4 passed" in run_tests(shop)


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
    ("folder", "name"),
    [
        ("My Agent (2)", "My-Agent-2"),
        ("Überbüro", "Uberburo"),
        ("null", "null"),
        ("True", "True"),
        ("42", "42"),
        ("__", "agent"),
        ("a" * 120, "a" * 100),
    ],
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
    monkeypatch.setattr("orchestrator.cli.examples.find_spec", lambda name: None)
    assert "  pip install pytest " in run("init", "other").stdout


EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("example", sorted(FIRST_COMMANDS))
def test_each_example_is_an_agent_of_ones_own(run, place, example):
    done = run("init", "mine", "--example", example, "--json")
    assert done.exit_code == 0
    files = set(json.loads(done.stdout)["files"])
    originals = {
        str(it.relative_to(EXAMPLES / example))
        for it in (EXAMPLES / example).rglob("*")
        if it.is_file() and not {".orchestrator", "__pycache__"} & {*it.parts}
    }
    added = {".gitignore"} | ({"agent.schema.json"} if "agent.yaml" in files else set())
    assert files == originals | added
    if "agent.yaml" in files:
        assert load_definition("mine").agent_name == "mine"
        assert run("lint", "mine").stdout == "nothing to complain about\n"
    # Its texts speak of its own folder, and of no page that it does not have.
    texts = "".join(it.read_text() for it in Path("mine").rglob("*.[mp][dy]"))
    assert "examples/" not in texts and "](../" not in texts


def test_the_list_of_examples_is_whole():
    folders = {it.name for it in EXAMPLES.iterdir() if it.is_dir()}
    assert folders == set(FIRST_COMMANDS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", sorted(set(FIRST_COMMANDS) - {"starter", "flows"}))
def test_the_tests_of_an_example_pass_in_its_copy(run, place, example):
    assert run("init", "mine", "--example", example).exit_code == 0
    assert "passed" in run_tests("mine")


def test_a_team_has_one_model_and_one_schema(run, place):
    nova = "amazon.nova-pro-v1:0"
    assert run("init", "mine", "--example", "team", "--model", nova).exit_code == 0
    files = [Path("mine/agent.yaml"), *Path("mine").glob("*/agent.yaml")]
    assert len(files) == 4
    for file in files:
        first = file.read_text().splitlines()[0]
        assert (file.parent / first.rpartition("=")[2]).resolve() == Path(
            "mine/agent.schema.json"
        ).resolve()
        assert load_definition(file).foundation_model == nova


def test_an_unknown_example_is_told_the_nearest(run, place):
    done = run("init", "mine", "--example", "insurence")
    assert done.exit_code == 2
    assert "did you mean 'insurance'? There are flows, handbook, hr, " in done.stderr
    assert not Path("mine").exists()


def test_programs_name_no_model(run, place):
    done = run("init", "mine", "--example", "flows", "--model", "amazon.nova-pro-v1:0")
    assert done.exit_code == 2
    assert "leave --model out" in done.stderr
    assert not Path("mine").exists()
