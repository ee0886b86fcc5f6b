"""Clients that others wrote, against the server as it is run: in an environment of their own.

`make test-clients` makes that environment (`requirements.txt`) and runs these tests in it. There
the project itself is not installed: the server is a process of the project's environment.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / ".venv" / "bin" / "orchestrator"
NODE = Path(__file__).with_name("node")
MODEL = "anthropic.claude-3-5-sonnet-20240620-v1:0"
ROLE = "arn:aws:iam::123456789012:role/agent"
INSTRUCTION = "You help employees with their vacations. Look the days up before you answer."

collect_ignore_glob = [] if importlib.util.find_spec("langchain_aws") else ["test_*.py"]


@cache
def find_node_trouble() -> str:
    """Why clients from npm cannot run here; empty when they can."""
    program = shutil.which("node")
    if program is None or shutil.which("npm") is None:
        return "there is no Node.js: install Node.js 20 or later, with npm"
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").partition(".")[0] or 0) < 20:
        return f"Node.js is {version}: install version 20 or later, with npm"
    if not (NODE / "node_modules" / ".installed").exists():
        return "the packages of npm are not installed: run make test-clients"
    return ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says at the end that JavaScript was not run, and what is missing."""
    if trouble := find_node_trouble():
        line = f"NOT RUN: all clients in JavaScript, since {trouble}"
        terminalreporter.write_line(line, red=True, bold=True)


class Served(NamedTuple):
    """A server that runs.

    Attributes:
        url: Its address.
    """

    url: str


Serve = Callable[[Sequence[Any]], Served]

LAMBDA = "arn:aws:lambda:us-east-1:123456789012:function:vacations"
HANDLER = """
def lambda_handler(event, context):
    (employee,) = [one["value"] for one in event["parameters"] if one["name"] == "employee"]
    body = {"7": "12"}[employee]
    response = {
        "actionGroup": event["actionGroup"],
        "function": event["function"],
        "functionResponse": {"responseBody": {"TEXT": {"body": body}}},
    }
    return {"messageVersion": "1.0", "response": response}
"""
GROUP = {
    "actionGroupName": "vacations",
    "actionGroupExecutor": {"lambda": LAMBDA},
    "functionSchema": {
        "functions": [
            {
                "name": "get_days",
                "description": "The vacation days that an employee has left.",
                "parameters": {"employee": {"type": "string", "required": True}},
            }
        ]
    },
}
"""An action group whose Lambda function is a file here."""

DOCUMENT = "Everybody has 30 days of vacation a year."
"""What is in the bucket `documents`."""


def call(name: str, **given: Any) -> list[dict[str, Any]]:
    """A reply that calls a tool."""
    return [{"toolUse": {"toolUseId": "t-1", "name": name, "input": given}}]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server whose model gives these replies."""
    running: list[subprocess.Popen[str]] = []
    credentials = {
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
    }

    def start(replies: Sequence[Any]) -> Served:
        file = tmp_path / "replies.jsonl"
        file.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        (tmp_path / "vacations.py").write_text(HANDLER)
        documents = tmp_path / "documents"
        documents.mkdir(exist_ok=True)
        (documents / "vacations.txt").write_text(DOCUMENT)
        handler = f"vacations={tmp_path / 'vacations.py'}:lambda_handler"
        command = [str(SERVER), "serve", "--port", "0", "--json", "--lambda", handler]
        command += ["--bucket", f"documents={documents}", "--model", f"scripted:{file}"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
        running.append(server)
        if server.stdout is None:
            raise AssertionError("its output is piped")
        url = json.loads(server.stdout.readline())["url"]
        for name, value in {**credentials, "AWS_ENDPOINT_URL": url}.items():
            monkeypatch.setenv(name, value)
        return Served(url)

    yield start
    for server in running:
        server.terminate()
        server.communicate(timeout=60)
