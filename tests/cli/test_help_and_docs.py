"""Help texts and docs/cli.md agree; starting is quick and light."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from left_out import sampled

from orchestrator.cli import app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
EVERYWHERE = {"--json", "--debug", "--help"}


def commands(group=None, path=()):
    """All commands by their words."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands())


def section(name):
    found = re.search(rf"^## `orchestrator {name}`\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found, f"docs/cli.md has no section about {name!r}"
    return found[1]


def options(command):
    every = [name for param in command.params for name in (*param.opts, *param.secondary_opts)]
    return {name for name in every if name.startswith("--")}


def test_the_verbs_are_those_of_the_page():
    told = re.findall(r"^## `orchestrator (.+)`$", PAGE, re.M)
    assert told == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name):
    documented = set(re.findall(r"--[a-z-]+", section(name)))
    missing = options(COMMANDS[name]) - EVERYWHERE - documented
    if name.startswith("sessions"):
        missing -= {"--state"}  # told once for all of them
    assert not missing


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_has_a_help_with_an_example(name, run):
    shown = run(*name.split(), "--help")
    assert shown.exit_code == 0
    assert f"$ orchestrator {name}" in " ".join(shown.stdout.split())
    assert options(COMMANDS[name]) >= {"--json", "--debug"}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_example_is_broken_in_two(name, run):
    shown = [line.strip() for line in run(*name.split(), "--help").stdout.splitlines()]
    examples = re.findall(r"^ *(\$ .*)$", COMMANDS[name].help, re.M)
    assert examples and set(examples) <= set(shown)


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_a_help_shows_neither_types_nor_braces(name, run):
    shown = run(*name.split(), "--help").stdout
    assert not re.search("[<{](?!thinking|/|answer)", shown)
    indents = {len(line) - len(line.lstrip()) for line in shown.splitlines() if "$ orch" in line}
    assert len(indents) < 2
    assert "[[" not in shown and "......" not in shown


def test_documented_options_exist():
    every = {
        "--help",
        "--version",
        *(it for command in COMMANDS.values() for it in options(command)),
    }
    assert set(re.findall(r"(?<![\w|-])--[a-z][a-z-]*", PAGE)) <= every


def test_help_wraps_in_a_narrow_terminal(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERMINAL_WIDTH", "40")
    assert run("invoke", "--help").exit_code == 0


def test_starting_loads_nothing_heavy():
    code = (
        "import sys, orchestrator.cli\n"
        "try: orchestrator.cli.app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'boto3', 'pydantic', 'yaml', 'jinja2', 'asyncio'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_python_m_orchestrator_is_the_same_program(run):
    command = [sys.executable, "-m", "orchestrator", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d+\.\d+.*\n", done.stdout)


@pytest.mark.parametrize("words", sampled(["schema", "render shop Hello", "lint shop --json"]))
def test_a_closed_pipe_is_no_failure(shop, words):
    # `true` has ended, or ends soon, without having read anything.
    pipe = f"{sys.executable} -m orchestrator {words} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
