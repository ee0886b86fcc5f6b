"""URLs of stores on the command line: sessions in PostgreSQL, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PASSWORD
from typer.testing import CliRunner

from orchestrator.cli import app

AGENT = """\
agentName: greeter
foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0
instruction: You greet people who come to the door of the house.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.yaml").write_text(AGENT)
    (tmp_path / "script.jsonl").write_text('"<answer>Hello!</answer>"\n')
    return tmp_path


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.exhaustive
def test_a_session_in_postgresql_goes_on_and_is_listed(folder: Path, postgres_url: str) -> None:
    # In processes of their own: each takes a lease and leaves connections behind.
    base = [sys.executable, "-m", "orchestrator"]
    asked = [*base, "invoke", str(folder), "Hi", "--session", "s-1", "--state", postgres_url]
    script = ["--model", f"scripted:{folder}/script.jsonl"]
    first = subprocess.run([*asked, *script], capture_output=True, text=True)
    assert "Hello!" in first.stdout, first.stderr
    listing = [*base, "sessions", "list", str(folder), "--state", postgres_url, "--json"]
    listed = subprocess.run(listing, capture_output=True, text=True)
    (session,) = json.loads(listed.stdout)
    assert (session["id"], session["agent"], session["state"]) == ("s-1", "greeter", "idle")
    assert first.stderr == listed.stderr == ""
    assert not (folder / ".orchestrator").exists()


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("redis://h/0", "no stores of the kind 'redis'"),
        (f"postgresql://a:{PASSWORD}@[h/d", "percent-encode"),
        ("dynamodb://table?ttl=3", "no parameter 'ttl'"),
    ],
)
@pytest.mark.parametrize("verb", ["invoke", "sessions", "serve"])
def test_a_wrong_url_is_refused_by_every_verb(
    folder: Path, verb: str, state: str, words: str
) -> None:
    asked = {"invoke": [folder, "Hi"], "sessions": ["list"], "serve": [folder, "--port", "0"]}
    result = run(verb, *asked[verb][:1], *asked[verb][1:], "--state", state)
    shown = " ".join(result.output.split())
    assert result.exit_code != 0
    assert words in shown
    assert PASSWORD not in shown


def test_memory_keeps_nothing(folder: Path) -> None:
    script = f"scripted:{folder}/script.jsonl"
    result = run("invoke", folder, "Hi", "--session", "s", "--state", "memory:", "--model", script)
    assert "session_id" in result.output or "Hello!" in result.output
    assert not (folder / ".orchestrator").exists()
