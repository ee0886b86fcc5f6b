"""`orchestrator web`: which agents it opens, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from workbench_support import write_shop

from orchestrator.cli import app
from orchestrator.server.workbench import run

ADDRESS = "http://127.0.0.1:1/workbench/#t=x"


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    # What it would serve until it is stopped.
    monkeypatch.setattr(run, "run_workbench", lambda projects, settings, report: report(ADDRESS))


def web(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["web", *map(str, arguments)])


def test_folders_and_servers_are_opened_together(tmp_path: Path) -> None:
    own = write_shop(tmp_path)
    found = web(own, "http://127.0.0.1:9", "--server", "http://localhost:8/", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.output) == {
        "url": ADDRESS,
        "agents": [{"name": "shop", "folder": str(own)}],
        "servers": ["http://127.0.0.1:9", "http://localhost:8"],
    }


def break_agent(own: Path) -> None:
    (own / "agent.yaml").write_text("agentName: broken\ninstructions: You help.\n")


def test_one_wrong_agent_does_not_keep_the_others_away(tmp_path: Path) -> None:
    right, broken = write_shop(tmp_path), tmp_path / "broken"
    broken.mkdir()
    break_agent(broken)
    found = web(right, broken, "--json")
    assert found.exit_code == 0, found.output
    document = json.loads(found.output)
    assert document["agents"] == [{"name": "shop", "folder": str(right)}]
    (wrong,) = document["wrong"]
    assert (wrong["name"], wrong["folder"]) == ("broken", str(broken))
    assert "agent.yaml:2:1" in wrong["reason"]
    assert "did you mean 'instruction'" in wrong["reason"]
    shown = web(tmp_path)
    assert "broken is wrong:" in shown.output
    assert "agent.yaml:2:1" in shown.output


def test_wrong_agents_alone_are_no_workbench(tmp_path: Path) -> None:
    own = write_shop(tmp_path)
    break_agent(own)
    found = web(own)
    assert found.exit_code == 2
    assert "instructions" in found.output


def test_a_server_alone_needs_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = web("http://127.0.0.1:9")
    assert found.exit_code == 0, found.output
    assert "agents of http://127.0.0.1:9" in found.output


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["http://me:secret@127.0.0.1:9"], "password"),
        (["--server", "file:///etc/passwd"], "is no address"),
        (["http://127.0.0.1:9", "--price", "m"], "MODEL=INPUT,OUTPUT"),
    ],
)
def test_mistakes_are_named(arguments: list[str], reason: str) -> None:
    found = web(*arguments)
    assert found.exit_code != 0
    assert reason in found.output
    assert "secret" not in found.output
