"""Agents on disk, scripts for their models, and the command line run in process."""

import shutil
from pathlib import Path

import pytest
from cli_support import write_buyer, write_script
from stuck import stuck
from typer.testing import CliRunner

from orchestrator.cli import app

__all__ = ["stuck"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """The working directory of every test; no weights, no colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORCHESTRATOR_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def run():
    """Runs the command line: `run("lint", "shop")`."""

    def run(*words, input=None):
        return CliRunner().invoke(app, [str(word) for word in words], input=input)

    return run


@pytest.fixture
def script(place):
    """Writes a model's replies, and gives the `--model` that reads them."""
    count = iter(range(100))

    def script(*replies):
        return write_script(place / f"replies-{next(count)}.jsonl", *replies)

    return script


@pytest.fixture(scope="session")
def made_shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "shop"
    assert CliRunner().invoke(app, ["init", str(folder)]).exit_code == 0
    return folder


@pytest.fixture
def shop(place, made_shop):
    """The agent that `init` makes."""
    return Path(shutil.copytree(made_shop, "shop"))


@pytest.fixture
def buyer(place):
    """An agent that hands one action over and asks before the other."""
    return write_buyer()
